//! What steps need, before the first.

use crate::{last_number, shown};

#[test]
fn a_program_that_plans_first_says_what_fits_and_learns_with_it() {
    assert!(last_number("plan") < 0.1);
    let shown = shown("plan_adopted");
    let first: Vec<_> = shown.lines().take(5).collect();
    assert!(first[0].starts_with("budget ") && first[1..].iter().all(|it| it.ends_with(": fits")), "{shown}");
    let last = shown.lines().last().map(str::to_owned).unwrap_or_default();
    assert!(last.starts_with("step 11 of 64 images") && last_number("plan_adopted") < 0.1, "{shown}");
}
