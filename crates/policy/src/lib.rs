//! What should the next step be?
