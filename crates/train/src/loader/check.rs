//! Settings that samples of some kind do not have.

use plimsoll_sampler::{Objective, PlanConfig};

use super::{LoaderConfig, LoaderError};
use crate::source::Lengths;

/// Says what becomes of samples of a kind, and which of the settings they have that not all have.
fn kind(lengths: &Lengths) -> (&'static str, &'static [&'static str]) {
    let several = "padded along several axes";
    match lengths {
        Lengths::Cut => ("cut", &[]),
        Lengths::Packed { .. } => ("packed", &["window"]),
        Lengths::Known(index) if 1 < index.n_axes() => (several, &["multiple_of", "window", "most_mates_kept"]),
        Lengths::Known(_) => ("padded", &["multiple_of", "window", "most_mates_kept", "objective"]),
        Lengths::Grouped(_) => ("kept together", &["window", "most_mates_kept"]),
        Lengths::Streamed { longest } if 1 < longest.n_axes() => (several, &["multiple_of"]),
        Lengths::Streamed { .. } => ("streamed", &["multiple_of", "objective"]),
    }
}

impl LoaderConfig {
    /// Refuses what samples of this kind do not have, and a multiple that no step has room for.
    pub(super) fn check(&self, lengths: &Lengths) -> Result<(), LoaderError> {
        let (samples, has) = kind(lengths);
        if let Some((key, value, allowed)) = self.unusual().into_iter().flatten().find(|it| !has.contains(&it.0)) {
            return Err(LoaderError::NotOfSamples { key, value, samples, allowed });
        }
        if matches!(lengths, Lengths::Grouped(_)) && (self.tasks.shares.is_some() || self.tasks.homogeneous) {
            return Err(LoaderError::GroupedTasks);
        }
        self.check_room_for_multiple()
    }

    /// Returns the settings that not all samples have where they say what is not usual: the key, the value, and the usual one.
    fn unusual(&self) -> [Option<(&'static str, String, String)>; 4] {
        let (mates, usual_mates) = (self.most_mates_kept, PlanConfig::<1>::default().most_mates_kept);
        let has_time = self.objective != Objective::FewestBatches;
        [
            (1 < self.multiple_of).then(|| ("multiple_of", self.multiple_of.to_string(), "1".to_owned())),
            self.window.map(|it| ("window", it.to_string(), "\"preset\"".to_owned())),
            (mates != usual_mates).then(|| ("most_mates_kept", mates.to_string(), usual_mates.to_string())),
            has_time.then(|| ("objective", "\"least-time\"".to_owned(), "\"fewest-batches\"".to_owned())),
        ]
    }

    fn check_room_for_multiple(&self) -> Result<(), LoaderError> {
        // It has the most positions, and so the smallest batches.
        let Some(cell) = self.cells.last().copied() else { return Ok(()) };
        let (multiple, most) = (self.multiple_of, self.batch_of(cell));
        if multiple <= most { Ok(()) } else { Err(LoaderError::MultipleAboveStep { multiple, most, cell }) }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::{Groups, SampleIndex};
    use plimsoll_types::{Bytes, Extent, Fraction};

    use super::*;

    #[test]
    fn what_samples_do_not_have_is_refused_by_its_key() {
        let groups = Groups::try_new(&[3, 4], &[1, 1]).unwrap();
        let one = SampleIndex::try_new([vec![3, 4]]).unwrap();
        let two = SampleIndex::try_new([vec![3, 4], vec![5, 6]]).unwrap();
        let streamed = |lengths: &[u32]| Lengths::Streamed { longest: Extent::try_new(lengths).unwrap() };
        let usual = || LoaderConfig::cut(0, 8, 8, Bytes::mib(1));
        let time = Objective::LeastTime { batch_overhead: 8.0 };
        let settings = [
            ("multiple_of", LoaderConfig { multiple_of: 2, ..usual() }),
            ("window", LoaderConfig { window: Some(9), ..usual() }),
            ("most_mates_kept", LoaderConfig { most_mates_kept: Fraction::ONE, ..usual() }),
            ("objective", LoaderConfig { objective: time, ..usual() }),
        ];
        for (lengths, samples, has) in [
            (Lengths::Cut, "cut", &[][..]),
            (Lengths::Packed { index: one.clone(), row_len: 4 }, "packed", &["window"]),
            (Lengths::Grouped(groups), "kept together", &["window", "most_mates_kept"]),
            (Lengths::Known(one.into()), "padded", &["multiple_of", "window", "most_mates_kept", "objective"]),
            (Lengths::Known(two.into()), "padded along several axes", &["multiple_of", "window", "most_mates_kept"]),
            (streamed(&[4]), "streamed", &["multiple_of", "objective"]),
            (streamed(&[4, 6]), "padded along several axes", &["multiple_of"]),
        ] {
            usual().check(&lengths).unwrap();
            for (key, config) in &settings {
                match config.check(&lengths) {
                    Ok(()) => assert!(has.contains(key), "{key} of samples that are {samples}"),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(!has.contains(key) && text.contains(&format!("`batch.{key}` is ")), "{text}");
                        assert!(text.contains(&format!(", for samples that are {samples} it must be ")), "{text}");
                    }
                }
            }
        }
    }
}
