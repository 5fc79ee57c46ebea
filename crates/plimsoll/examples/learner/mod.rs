//! What a program for images has beside its training: data, model, and a renderer that shows nothing.

pub(crate) mod data;
pub(crate) mod model;
pub(crate) mod quiet;
