//! How the samples of a run's steps are put together, and who chose their sizes, for the report.

use plimsoll_monitor::{Bound, ChosenBy, Origin, StepSettings};
use plimsoll_policy::{Bounds, Preset};
use plimsoll_train::{Job, StepUnit};

use crate::prepare::Prepared;
use crate::settings::Settings;
use crate::sizes::Sizes;
use crate::values::{BatchSize, PolicyKind};

/// What was asked for, before a search has put a number in the place of "auto".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked(pub(crate) BatchSize);

impl<J: Job> Prepared<J> {
    /// Returns how a step's samples are put together.
    pub(crate) fn step_settings(&self, settings: &Settings, asked: Asked) -> StepSettings {
        let (loader, unit) = (&self.loader, self.job.unit_of_length());
        let (counted, is_batch_a_step) = match loader.unit {
            StepUnit::Samples => ("samples", false),
            StepUnit::Positions => (unit, false),
            StepUnit::Batch => ("samples", true),
            StepUnit::BatchOfPositions => (unit, true),
        };
        let (patch_max, batch_max) = match &self.sizes {
            Sizes::Cut(bounds) => {
                let preset = Preset::for_capacity(settings.capacity_of_presets(self.capacity)).bounds();
                let origins = origins(bounds, preset, self.largest_sample.edge(), settings.is_batch_max_set());
                (Some(origins.0), Some(origins.1))
            }
            Sizes::Padded(buckets) => {
                let origin = if settings.is_batch_max_set() { Origin::Set } else { Origin::Data };
                (None, Some(Bound { most: buckets.batch_max, origin }))
            }
        };
        StepSettings {
            effective_unit: counted.to_owned(),
            batches_per_step: (!loader.cells.is_empty()).then_some(loader.batches_per_step),
            lacks_edges: settings.batch.n_edges as usize <= loader.cells.len(),
            is_batch_a_step,
            is_capacity_set: settings.capacity().is_some(),
            chosen_by: chosen_by(settings, asked),
            patch_max,
            batch_max,
        }
    }
}

fn chosen_by(settings: &Settings, Asked(asked): Asked) -> ChosenBy {
    match asked {
        BatchSize::Fixed(_) => ChosenBy::BatchSize,
        BatchSize::Auto => ChosenBy::Search,
        BatchSize::Adaptive if settings.takes_sizes_from_plan() => ChosenBy::Plan,
        BatchSize::Adaptive if settings.policy_kind() == PolicyKind::Fixed => ChosenBy::FixedPolicy,
        BatchSize::Adaptive => ChosenBy::Policy,
    }
}

/// Returns the largest patch and the largest batch with where each comes from.
///
/// The values tell first, and then the configuration: a run that goes on has the bounds of its beginning as numbers,
/// whoever chose them, and a patch beside which nothing larger is possible is no bound of anybody's.
fn origins(bounds: &Bounds, preset: Bounds, largest_sample: u32, is_batch_set: bool) -> (Bound, Bound) {
    let Bounds { patch_min, patch_max, patch_multiple, batch_max, .. } = *bounds;
    let of_preset = (preset.patch_max / patch_multiple * patch_multiple).max(patch_min);
    let patch = match patch_max {
        _ if largest_sample < patch_max.saturating_add(patch_multiple) => Origin::Data,
        most if most == of_preset => Origin::Preset,
        _ => Origin::Set,
    };
    let batch = match batch_max {
        most if most == preset.batch_max => Origin::Preset,
        _ if is_batch_set => Origin::Set,
        // It is the effective batch.
        _ => Origin::Data,
    };
    (Bound { most: patch_max, origin: patch }, Bound { most: batch_max, origin: batch })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Layers;

    fn asked(sets: &[&str]) -> ChosenBy {
        let sets = sets.iter().map(ToString::to_string).collect();
        let settings = Layers { sets, ..Layers::default() }.load().unwrap().settings;
        chosen_by(&settings, Asked(settings.batch.size))
    }

    #[test]
    fn who_chose_the_sizes_is_told_by_what_was_asked_for() {
        assert_eq!(asked(&["seed=1"]), ChosenBy::Policy);
        assert_eq!(asked(&["policy.kind=stepwise"]), ChosenBy::Policy);
        assert_eq!(asked(&["policy.kind=fixed"]), ChosenBy::FixedPolicy);
        assert_eq!(asked(&["policy.kind=fixed", "batch.batch_size=8"]), ChosenBy::BatchSize);
        assert_eq!(asked(&["policy.kind=fixed", "batch.batch_size=auto"]), ChosenBy::Search);
        assert_eq!(asked(&["train.deterministic=true"]), ChosenBy::Plan);
        assert_eq!(asked(&["train.deterministic=true", "policy.kind=fixed"]), ChosenBy::FixedPolicy);
    }

    #[test]
    fn a_bound_is_the_samples_or_the_presets_or_was_set() {
        let preset = Preset::Small.bounds();
        let of = |patch_max, batch_max, largest_sample, is_batch_set| {
            let bounds = Bounds { patch_max, patch_multiple: 4, batch_max, ..preset };
            let (patch, batch) = origins(&bounds, preset, largest_sample, is_batch_set);
            (patch.origin, batch.origin)
        };
        assert_eq!(of(32, 32, 72, false), (Origin::Preset, Origin::Data));
        assert_eq!(of(72, 16, 72, true), (Origin::Data, Origin::Set));
        assert_eq!(of(72, 64, 75, false), (Origin::Data, Origin::Preset));
        // A run that goes on.
        assert_eq!(of(64, 64, 72, true), (Origin::Set, Origin::Preset));
    }
}
