//! Two networks against each other.

use crate::last_number;

#[test]
fn both_programs_make_points_where_the_real_ones_are() {
    for example in ["gan", "gan_adopted"] {
        let distance = last_number(example);
        // The middle of the real ones is 2.2 from where points are made at first, and their circle has a radius of 1.
        assert!(distance < 1.0, "{example}: {distance}");
    }
}
