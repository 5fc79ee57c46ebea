//! How other tools divide samples into batches, by their published rules.
//!
//! Each rule is written here anew, after what its project documents and publishes, so that all are fed the same lengths under
//! the same budget in one program; the time is that of this code, which is not the tool's own.
//! Every sample is in one batch: what a tool leaves out (`drop_last`, outliers) is kept.

mod buckets;
mod fairseq;
mod grouped;
mod lhotse;
mod nemo;
mod rows;

use super::reference::Filled;

/// A rule of some tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule<const AXES: usize> {
    pub(super) name: &'static str,
    /// Where it is published.
    pub(super) source: &'static str,
    /// Plans an epoch of these lengths under a budget on each axis.
    pub(super) plan: fn(&[Vec<u32>; AXES], [u64; AXES], u64) -> Filled,
}

/// Rules for batches that are padded on one axis.
pub(super) const PADDED: [Rule<1>; 6] = [
    Rule {
        name: "fairseq, multiples of 8",
        source: "facebookresearch/fairseq: fairseq/data/data_utils_fast.pyx, batch_by_size_fast; bsz_mult = 8 is its default",
        plan: fairseq::batch_by_size::<8>,
    },
    Rule {
        name: "fairseq",
        source: "the same with required_batch_size_multiple = 1",
        plan: fairseq::batch_by_size::<1>,
    },
    Rule {
        name: "group_by_length",
        source: "huggingface/transformers: src/transformers/trainer_pt_utils.py, get_length_grouped_indices, with as many \
                 samples a batch as fit if all are as long as the longest",
        plan: grouped::group_by_length,
    },
    Rule {
        name: "lhotse, 10 buckets",
        source: "lhotse-speech/lhotse: lhotse/dataset/sampling/dynamic_bucketing.py, DynamicBucketingSampler; 10 buckets, \
                 20 000 samples buffered and 10 000 looked at are its defaults",
        plan: lhotse::dynamic_bucketing::<10>,
    },
    Rule {
        name: "lhotse, 30 buckets",
        source: "the same with num_buckets = 30",
        plan: lhotse::dynamic_bucketing::<30>,
    },
    Rule {
        name: "NeMo, 30 buckets",
        source: "NVIDIA/NeMo: scripts/speech_recognition/estimate_duration_bins.py, its default of 30 buckets, with the \
                 largest batch of each that fits, as oomptimizer.py finds it",
        plan: nemo::bucketing,
    },
];

/// Rules for batches that are padded on two axes.
pub(super) const CELLS: [Rule<2>; 1] = [Rule {
    name: "NeMo, 30 × 2 buckets",
    source: "NVIDIA/NeMo: scripts/speech_recognition/estimate_duration_bins_2d.py, its defaults of 30 buckets and 2 \
             sub-buckets, with the largest batch of each that fits",
    plan: nemo::bucketing_2d,
}];

/// Rules for rows without padding; the budget is a row's length.
pub(super) const ROWS: [Rule<1>; 3] = [
    Rule {
        name: "first fit, decreasing",
        source: "AlphaKhaw/seqpacker: crates/seqpacker/src/algorithms/first_fit_decreasing.rs",
        plan: rows::first_fit_decreasing,
    },
    Rule {
        name: "best fit, decreasing",
        source: "AlphaKhaw/seqpacker: crates/seqpacker/src/algorithms/best_fit_decreasing.rs, the rule of its default",
        plan: rows::best_fit_decreasing,
    },
    Rule {
        name: "first fit of 100 000",
        source: "axolotl-ai-cloud/axolotl: src/axolotl/utils/samplers/multipack.py, groups of 100 000 in random order",
        plan: rows::first_fit,
    },
];

#[cfg(test)]
mod tests {
    use super::super::audit::Audit;
    use super::*;

    /// What came of the rule of that name.
    fn audited<const AXES: usize>(rule: &Rule<AXES>, lengths: &[Vec<u32>; AXES], budget: [u64; AXES]) -> Audit {
        let filled = (rule.plan)(lengths, budget, 0);
        assert_ne!(filled, (rule.plan)(lengths, budget, 1), "{}", rule.name);
        let audit = Audit::of(lengths, budget, filled.iter().map(|ids| (ids, [0; AXES])));
        assert_eq!(audit.not_once, 0, "{}", rule.name);
        audit
    }

    #[test]
    fn rules_have_every_sample_once_and_keep_the_budget_as_far_as_they_say_they_do() {
        let chats = [super::super::chats(30_000)];
        for rule in &PADDED {
            let audit = audited(rule, &chats, [32_768]);
            // A longer one may be the last that comes into one of lhotse's batches.
            assert_eq!(audit.over_budget > 0, rule.name.starts_with("lhotse"), "{}: {audit:?}", rule.name);
            assert!(audit.most_waste() < 0.5, "{}: {audit:?}", rule.name);
        }
        let lengths = super::super::images_and_tokens(30_000).lengths;
        let audit = audited(&CELLS[0], &lengths, [128, 16_384]);
        assert!(audit.over_budget == 0 && audit.most_waste() < 0.6, "{audit:?}");
    }

    #[test]
    fn rows_are_never_longer_than_they_may_be() {
        let chats = [super::super::chats(30_000)];
        for rule in &ROWS {
            let filled = (rule.plan)(&chats, [8_192], 0);
            let sum = |ids: &[u32]| ids.iter().map(|id| u64::from(chats[0][*id as usize])).sum::<u64>();
            assert!(filled.iter().all(|ids| sum(ids) <= 8_192), "{}", rule.name);
            let mut ids = filled.ids.clone();
            ids.sort_unstable();
            assert!(ids.into_iter().eq(0..30_000), "{}", rule.name);
            let full = sum(&filled.ids) as f64 / (8_192.0 * filled.iter().len() as f64);
            assert!(full > 0.99, "{}: {full}", rule.name);
        }
    }
}
