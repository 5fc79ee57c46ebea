//! Settings that samples of some kind do not have.

use plimsoll_sampler::Objective;

use super::{LoaderConfig, LoaderError};
use crate::source::Lengths;

/// Of what kind samples are, in a word, and which settings they have.
struct Kind {
    samples: &'static str,
    has_multiple: bool,
    has_window: bool,
    has_mates: bool,
    has_objective: bool,
}

impl Kind {
    fn of(lengths: &Lengths) -> Self {
        let several = "padded along several axes";
        let (samples, [has_multiple, has_window, has_mates, has_objective]) = match lengths {
            Lengths::Cut => ("cut", [false; 4]),
            Lengths::Packed { .. } => ("packed", [false, true, false, false]),
            Lengths::Known(index) if 1 < index.n_axes() => (several, [true, true, true, false]),
            Lengths::Known(_) => ("padded", [true; 4]),
            Lengths::Grouped(_) => ("kept together", [false, true, true, false]),
            Lengths::Streamed { longest } if 1 < longest.n_axes() => (several, [true, false, false, false]),
            Lengths::Streamed { .. } => ("streamed", [true, false, false, true]),
        };
        Self { samples, has_multiple, has_window, has_mates, has_objective }
    }
}

impl LoaderConfig {
    /// Refuses what samples of this kind do not have, and a multiple that no step has room for.
    pub(super) fn check(&self, lengths: &Lengths) -> Result<(), LoaderError> {
        let Kind { samples, has_multiple, has_window, has_mates, has_objective } = Kind::of(lengths);
        let usual = Self::cut(0, 1, 1, self.buffer_limit);
        let refused = |key, value, allowed| Err(LoaderError::NotOfSamples { key, value, samples, allowed });
        if !has_multiple && 1 < self.multiple_of {
            return refused("multiple_of", self.multiple_of.to_string(), "1");
        }
        if let Some(window) = self.window.filter(|_| !has_window) {
            return refused("window", window.to_string(), "\"preset\"");
        }
        if !has_mates && self.most_mates_kept != usual.most_mates_kept {
            return refused("most_mates_kept", self.most_mates_kept.to_string(), "0.03");
        }
        if !has_objective && self.objective != Objective::FewestBatches {
            return refused("objective", "\"least-time\"".to_owned(), "\"fewest-batches\"");
        }
        if matches!(lengths, Lengths::Grouped(_)) && self.tasks.shares.is_some() {
            return Err(LoaderError::GroupedTasks);
        }
        self.check_room_for_multiple()
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
