//! Is it safe to try, and what if it fails?
