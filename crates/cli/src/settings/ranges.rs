//! The range of each number.

use std::fmt;

use config::ValueKind;
use plimsoll_policy::LARGEST;
use plimsoll_workloads::text::{LEAST_VOCABULARY, MOST_VOCABULARY};

use self::Range::{Above, Below, Between, Closed, Whole};

/// The most features, channels, heads or words: no product of two overflows, and no model of that size is small.
const MOST: i64 = 1 << 16;

/// The most pixels of a side, more than cameras have; a square of it still counts in 32 bits.
const MOST_PIXELS: i64 = 1 << 13;

/// The most blocks or layers, more than any model has.
const MOST_BLOCKS: i64 = 1 << 10;

/// The most steps and threads.
const MOST_STEPS: i64 = 1 << 32;
const MOST_WORKERS: i64 = 64;

/// The largest of what counts in 32 bits.
const MOST_COUNT: i64 = u32::MAX as i64;

/// The largest patch that a policy takes.
const MOST_PATCH: i64 = LARGEST as i64;

/// The most samples that are held to choose batches from: a million is an epoch of most data.
const MOST_HELD: i64 = 1 << 20;

/// The most positions that a batch takes beside its samples: more than an hour of the fastest device.
const MOST_OVERHEAD: f64 = 1e9;

/// The highest learning rate, far above any that a model learns with.
const MOST_RATE: f64 = 1000.0;

#[expect(clippy::cast_possible_wrap, reason = "both are below 2^16")]
const VOCABULARY: Range = Whole(LEAST_VOCABULARY as i64, MOST_VOCABULARY as i64);

/// What a number may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    /// A whole number, both ends allowed.
    Whole(i64, i64),
    /// From the first to the second.
    Closed(f64, f64),
    /// Above the first, up to the second.
    Above(f64, f64),
    /// From the first to below the second.
    Below(f64, f64),
    /// Above the first and below the second.
    Between(f64, f64),
}

/// Every key whose default is a number.
pub(crate) const RANGES: [(&str, Range); 58] = [
    ("seed", Whole(0, i64::MAX)),
    ("memory.target", Above(0.0, 1.0)),
    ("memory.rounding_margin", Closed(0.0, 1.0)),
    ("memory.regime_margin", Closed(1.0, 100.0)),
    ("batch.effective_batch_size", Whole(1, MOST_COUNT)),
    ("batch.n_edges", Whole(1, MOST)),
    ("batch.batches_per_step", Whole(1, MOST)),
    ("batch.multiple_of", Whole(1, MOST)),
    ("batch.most_mates_kept", Closed(0.0, 1.0)),
    ("batch.overhead", Closed(0.0, MOST_OVERHEAD)),
    ("batch.patch_multiple", Whole(1, MOST_PATCH)),
    ("policy.warm_up_steps", Whole(0, MOST_STEPS)),
    ("policy.cooldown_steps", Whole(0, MOST_STEPS)),
    ("policy.max_reversals", Whole(1, 1_000_000)),
    ("policy.reopen_after_steps", Whole(1, 1_000_000_000)),
    ("policy.max_adjustments", Whole(0, MOST_COUNT)),
    ("policy.adjustment_frequency", Whole(0, MOST_STEPS)),
    ("policy.stepwise_target", Closed(0.1, 1.0)),
    ("policy.stepwise_dead_band", Closed(0.0, 1.0)),
    ("train.steps", Whole(1, MOST_STEPS)),
    ("train.learning_rate", Above(0.0, MOST_RATE)),
    ("train.warm_up_steps", Whole(0, MOST_STEPS)),
    ("train.final_learning_rate_share", Closed(0.0, 1.0)),
    ("train.validate_every", Whole(1, i64::MAX)),
    ("train.validation_share", Closed(0.0, 1.0)),
    ("train.patience", Whole(0, MOST_COUNT)),
    ("train.checkpoint_every", Whole(1, i64::MAX)),
    ("train.keep_checkpoints", Whole(1, MOST_COUNT)),
    ("train.max_restarts", Whole(0, MOST_COUNT)),
    ("data.validation_share", Between(0.0, 1.0)),
    ("data.test_share", Below(0.0, 1.0)),
    ("data.shortest", Whole(1, MOST_COUNT)),
    ("data.workers", Whole(0, MOST_WORKERS)),
    ("data.look_ahead", Whole(2, MOST_HELD)),
    ("tasks.temperature", Closed(0.01, 1000.0)),
    ("tasks.alpha", Closed(0.0, 100.0)),
    ("tasks.learning_rate", Above(0.0, MOST_RATE)),
    ("tasks.diversity_weight", Closed(0.0, 1.0)),
    ("sr.channels", Whole(1, MOST)),
    ("sr.blocks", Whole(1, MOST_BLOCKS)),
    ("sr.validation_tile", Whole(1, MOST_PIXELS)),
    ("sr.crops_per_image", Whole(1, MOST_COUNT)),
    ("sequence.heads", Whole(1, MOST)),
    ("sequence.head_width", Whole(1, MOST)),
    ("sequence.blocks", Whole(1, MOST_BLOCKS)),
    ("multitask.channels", Whole(1, MOST)),
    ("multitask.features", Whole(1, MOST)),
    ("multitask.label_smoothing", Below(0.0, 1.0)),
    ("multitask.zoom", Below(0.0, 1.0)),
    ("multitask.colors", Closed(0.0, 1.0)),
    ("multitask.image_size", Whole(1, MOST_PIXELS)),
    ("multitask.max_words", Whole(1, MOST)),
    ("text.vocabulary", VOCABULARY),
    ("text.longest", Whole(1, MOST_COUNT)),
    ("text.overlap", Whole(0, MOST_COUNT)),
    ("text.layers", Whole(1, MOST_BLOCKS)),
    ("text.width", Whole(1, MOST)),
    ("text.heads", Whole(1, MOST)),
];

/// Returns what a key may be, if its default is a number.
pub(crate) fn range(key: &str) -> Option<Range> {
    RANGES.iter().find(|(it, _)| *it == key).map(|(_, range)| *range)
}

impl Range {
    /// Whether a value is one of these.
    pub(crate) fn has(&self, value: &ValueKind) -> bool {
        match (self, value) {
            (Whole(least, most), ValueKind::I64(n)) => (*least..=*most).contains(n),
            (Closed(least, most), ValueKind::Float(n)) => (*least..=*most).contains(n),
            (Above(least, most), ValueKind::Float(n)) => least < n && n <= most,
            (Below(least, most), ValueKind::Float(n)) => (*least..*most).contains(n),
            (Between(least, most), ValueKind::Float(n)) => least < n && n < most,
            _ => false,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whole(0, most) => write!(f, "up to {most}"),
            Whole(least, most) => write!(f, "{least} to {most}"),
            Closed(least, most) => write!(f, "from {least} to {most}"),
            Above(least, most) => write!(f, "above {least} and at most {most}"),
            Below(least, most) => write!(f, "from {least} to below {most}"),
            Between(least, most) => write!(f, "above {least} and below {most}"),
        }
    }
}
