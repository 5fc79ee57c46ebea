//! Do it.
