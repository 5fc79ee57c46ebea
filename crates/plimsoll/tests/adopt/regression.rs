//! A loop of one's own.

use crate::last_number;

#[test]
fn both_programs_learn_alike() {
    let (own, adopted) = (last_number("regression"), last_number("regression_adopted"));
    // The sums of four losses, of 1.0 in the first epoch; a step in parts rounds otherwise.
    assert!(own < 0.7 && (own - adopted).abs() < 0.01, "{own} {adopted}");
}
