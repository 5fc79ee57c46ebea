//! What happened?
