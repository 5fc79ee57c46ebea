//! Images with a loop of one's own.

use crate::last_number;

#[test]
fn both_programs_recognise_what_they_have_not_seen() {
    for example in ["image", "image_adopted"] {
        let accuracy = last_number(example);
        // A third is right by chance.
        assert!(0.8 < accuracy, "{example}: {accuracy}");
    }
}
