//! Burn's `Learner`.

use crate::last_number;

#[test]
fn both_programs_learn_alike() {
    let (own, adopted) = (last_number("image_learner"), last_number("image_learner_adopted"));
    // Of three shapes a third is right by chance; the two draw their orders otherwise.
    assert!(0.8 < own && 0.8 < adopted, "{own} {adopted}");
}
