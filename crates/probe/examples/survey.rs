//! Lists everything that can be seen on this machine, one line each.
#![expect(clippy::print_stdout, reason = "this is a program")]

use plimsoll_probe::{TrackingAllocator, survey};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

fn main() {
    for entry in survey() {
        println!("{entry}");
    }
}
