//! Benchmarks of the core's hot paths
