//! How much memory is there, and how much was used?
