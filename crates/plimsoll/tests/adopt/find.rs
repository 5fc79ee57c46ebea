//! The batch that fits.

use crate::{last_number, shown};

#[test]
fn a_program_that_searches_first_learns_with_what_is_found() {
    let shown = shown("find_adopted");
    assert!(shown.contains(" of 256 waves: "), "{shown}");
    let (own, adopted) = (last_number("find"), last_number("find_adopted"));
    // A wave has a mean square of about a half.
    assert!(own < 0.1 && adopted < 0.1, "{own} {adopted}");
}
