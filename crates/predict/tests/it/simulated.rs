//! What the crate says of simulated steps: random programs in an allocator with known rules, and generated lengths.

mod arena;
mod bounds;
mod lengths;
mod program;
mod rng;
mod trials;
