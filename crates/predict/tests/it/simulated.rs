//! What the crate says of simulated steps: random programs in an allocator with known rules.

mod arena;
mod bounds;
mod program;
mod rng;
mod trials;
