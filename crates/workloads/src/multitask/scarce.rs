//! Whether there is enough to learn from.

use crate::store::Stored;

/// Images of each subject, beside those held out, that were enough of photographs: with so many every run ended below 0.8
/// of the baseline, with fewer none did (`docs/measured/photographs-2026-11-22.md`).
pub const ENOUGH_IMAGES: usize = 2;

/// The subject of which there are the fewest images to train on, where those are few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scarce {
    /// The first of the subjects of which there are so few.
    pub subject: String,
    /// The images of it that are trained on.
    pub n_images: usize,
    /// Subjects of which there are fewer images than [`ENOUGH_IMAGES`].
    pub n_subjects: usize,
}

impl Scarce {
    /// Looks at the images of each subject that are trained on.
    pub(crate) fn of(subjects: &[String], pools: &[Vec<Stored>]) -> Option<Self> {
        let few = || subjects.iter().zip(pools.iter().map(Vec::len)).filter(|(_, n)| *n < ENOUGH_IMAGES);
        let (subject, n_images) = few().min_by_key(|(_, n)| *n)?;
        Some(Self { subject: subject.clone(), n_images, n_subjects: few().count() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_with_the_fewest_images_is_named_where_they_are_too_few() {
        let found = |counts: &[usize]| {
            let subjects: Vec<_> = (0..counts.len()).map(|at| format!("s{at}")).collect();
            let stored = Stored { offset: 0, width: 1, height: 1 };
            Scarce::of(&subjects, &counts.iter().map(|n| vec![stored; *n]).collect::<Vec<_>>())
        };
        assert_eq!(found(&[ENOUGH_IMAGES, 9]), None);
        let few = Scarce { subject: "s1".to_owned(), n_images: 0, n_subjects: 2 };
        assert_eq!(found(&[ENOUGH_IMAGES - 1, 0, ENOUGH_IMAGES]), Some(few));
    }
}
