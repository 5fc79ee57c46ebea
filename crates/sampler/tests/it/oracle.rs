//! Plans of random configurations, held against an oracle that knows lengths and budget alone.
//!
//! 100 000 cases of each kind, or 25 000 in `cargo xtask check --quick`, which sets `PROPTEST_CASES` to 64; with
//! `PROPTEST_CASES=25600` it is ten million. Half of the padded plans have one axis, and half have two.

#![expect(clippy::print_stderr, reason = "a test says of what it fails")]

mod padded;
mod rows;

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};

use crate::common::{Numbers, cases};

const N_CASES: u32 = 100_000;

fn below(numbers: &mut Numbers, n: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a number of 32 bits")]
    let number = (numbers.uniform() * f64::from(n)) as u32;
    number
}

/// One of several choices.
fn one_of<T: Clone>(numbers: &mut Numbers, choices: &[T]) -> T {
    choices[below(numbers, u32::try_from(choices.len()).unwrap()) as usize].clone()
}

/// Checks the cases of as many seeds, and shows the one that fails.
fn hold<C: Debug + RefUnwindSafe>(n_cases: u32, case: fn(u64) -> C, check: fn(&C)) {
    for seed in 0..u64::from(cases(n_cases).cases) {
        let case = case(seed);
        if let Err(panic) = catch_unwind(|| check(&case)) {
            eprintln!("case {seed}: {case:?}");
            resume_unwind(panic);
        }
    }
}
