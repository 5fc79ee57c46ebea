//! A loop of one's own over texts of many lengths.

use crate::last_number;

#[test]
fn both_programs_learn_alike() {
    let (own, adopted) = (last_number("text"), last_number("text_adopted"));
    // Mean losses, of ln 4 before the first step; both draw the texts in another order.
    assert!(own < 0.7 && (own - adopted).abs() < 0.1, "{own} {adopted}");
}
