//! How much memory will this step need?
