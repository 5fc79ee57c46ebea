//! Values of the configuration that are neither plain numbers nor plain texts.

mod devices;
mod shares;

use std::path::PathBuf;

use clap::ValueEnum;
use plimsoll_sampler::EpochEnd;
use plimsoll_types::Bytes;
use serde::{Deserialize, Deserializer, de};

pub(crate) use self::devices::{Capacities, Capacity, Devices};
pub(crate) use self::shares::SharesSetting;
use crate::nearest::hint;

/// A size, or `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
pub(crate) struct AutoSize(pub(crate) Option<Bytes>);

/// A number, or `"none"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
pub(crate) struct Most(pub(crate) Option<u32>);

/// A number, or `"preset"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
pub(crate) struct Bound(pub(crate) Option<u32>);

/// A number, or `"longest"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
pub(crate) struct RowLen(pub(crate) Option<u32>);

/// A number, or `"cores"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
pub(crate) struct Cores(pub(crate) Option<u32>);

/// The largest weight or share of a task: their sums stay numbers.
const MOST_WEIGHT: f64 = 1e6;

/// Reads a weight or a share.
fn weight(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|it| (0.0..=MOST_WEIGHT).contains(it))
}

/// A number for each task, or `"default"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PerTask(pub(crate) Option<Vec<f64>>);

impl TryFrom<String> for PerTask {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "default" {
            return Ok(Self(None));
        }
        let numbers: Option<Vec<f64>> = text.split(',').map(weight).collect();
        match numbers {
            Some(numbers) => Ok(Self(Some(numbers))),
            None => Err(format!(
                "`{text}` is neither \"default\" nor one number from 0 to {MOST_WEIGHT} for each task, as in \"0.5, 0.3, 0.2\""
            )),
        }
    }
}

/// How large micro-batches are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
pub(crate) enum BatchSize {
    /// The policy chooses.
    Adaptive,
    /// The largest that fits is found before the run.
    Auto,
    /// As it is.
    Fixed(u32),
}

/// Where a plan comes from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(crate) enum PlanSetting {
    /// Made before the first step where the device reserves in pages.
    Auto,
    /// There is none.
    Off,
    /// A file.
    File(PathBuf),
}

impl From<String> for PlanSetting {
    fn from(text: String) -> Self {
        match text.as_str() {
            "auto" => Self::Auto,
            "off" => Self::Off,
            _ => Self::File(text.into()),
        }
    }
}

/// What stands where a number or a word may stand.
enum TextOrNumber {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumberVisitor)
    }
}

struct TextOrNumberVisitor;

impl de::Visitor<'_> for TextOrNumberVisitor {
    type Value = TextOrNumber;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number or a word")
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber::Number(n))
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<TextOrNumber, E> {
        Ok(u64::try_from(n).map_or_else(|_| TextOrNumber::Text(n.to_string()), TextOrNumber::Number))
    }

    fn visit_f64<E: de::Error>(self, n: f64) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber::Text(n.to_string()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber::Text(text.to_owned()))
    }
}

impl TryFrom<TextOrNumber> for AutoSize {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, String> {
        match value {
            TextOrNumber::Text(text) if text == "auto" => Ok(Self(None)),
            TextOrNumber::Text(text) => match text.parse() {
                Ok(bytes) => Ok(Self(Some(bytes))),
                Err(error) => Err(format!("{error}, or \"auto\"")),
            },
            TextOrNumber::Number(n) => Ok(Self(Some(Bytes(n)))),
        }
    }
}

impl TryFrom<TextOrNumber> for Bound {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, String> {
        value.number_or("preset").map(Self)
    }
}

impl TryFrom<TextOrNumber> for RowLen {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, String> {
        value.number_or("longest").map(Self)
    }
}

impl TryFrom<TextOrNumber> for Cores {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, String> {
        value.number_or("cores").map(Self)
    }
}

impl TryFrom<TextOrNumber> for Most {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, String> {
        value.number_or("none").map(Self)
    }
}

impl TextOrNumber {
    /// Takes a number from 1, or a word that stands for none.
    fn number_or(self, word: &str) -> Result<Option<u32>, String> {
        let fail = |shown: String| format!("{shown} is neither a whole number from 1 to {} nor \"{word}\"", u32::MAX);
        match self {
            Self::Number(n) => match u32::try_from(n) {
                Ok(n) if n > 0 => Ok(Some(n)),
                _ => Err(fail(n.to_string())),
            },
            Self::Text(text) if text == word => Ok(None),
            Self::Text(text) => Err(fail(format!("`{text}`"))),
        }
    }
}

impl TryFrom<TextOrNumber> for BatchSize {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, String> {
        let fail = |shown: String| format!("{shown} is neither a whole number from 1 on nor \"adaptive\" nor \"auto\"");
        match value {
            TextOrNumber::Number(n) => match u32::try_from(n) {
                Ok(n) if n > 0 => Ok(Self::Fixed(n)),
                _ => Err(fail(n.to_string())),
            },
            TextOrNumber::Text(text) if text == "adaptive" => Ok(Self::Adaptive),
            TextOrNumber::Text(text) if text == "auto" => Ok(Self::Auto),
            TextOrNumber::Text(text) => Err(fail(format!("`{text}`"))),
        }
    }
}

/// A closed set of words.
macro_rules! word {
    ($visibility:vis $name:ident { $($variant:ident = $word:literal),+ }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(try_from = "String")]
        $visibility enum $name {
            $($variant),+
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(word: String) -> Result<Self, String> {
                match word.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("`{word}` is not one of {}{}", [$($word),+].join(", "), hint(&word, [$($word),+]))),
                }
            }
        }
    };
}

word!(pub(crate) JobName { Sr = "sr", Sequence = "sequence", Multitask = "multitask", Text = "text" });
impl JobName {
    /// Returns the defaults that suit this job better than the common ones, in TOML.
    pub(crate) const fn defaults(self) -> &'static str {
        match self {
            Self::Sr => "",
            Self::Sequence => include_str!("defaults/sequence.toml"),
            Self::Multitask => include_str!("defaults/multitask.toml"),
            Self::Text => include_str!("defaults/text.toml"),
        }
    }

    /// Returns the capacity of the demonstration: room for some sizes of the built-in data, and not for all.
    pub(crate) const fn demo_capacity(self) -> Bytes {
        match self {
            Self::Sr | Self::Multitask => Bytes::mib(40),
            // About 11 recordings of 0.85 s fit, or 27 of 0.4 s.
            Self::Sequence => Bytes::mib(24),
            Self::Text => Bytes::mib(160),
        }
    }

    /// Returns the name that the user gives it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Sr => "sr",
            Self::Sequence => "sequence",
            Self::Multitask => "multitask",
            Self::Text => "text",
        }
    }
}

/// Whether activations are recomputed in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Checkpointing {
    /// Where one sample alone does not fit without, and where it is faster.
    Auto,
    On,
    Off,
}

impl TryFrom<String> for Checkpointing {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        match word.as_str() {
            "auto" => Ok(Self::Auto),
            "on" | "true" => Ok(Self::On),
            "off" | "false" => Ok(Self::Off),
            _ => Err(format!("`{word}` is not one of auto, on, off{}", hint(&word, ["auto", "on", "off"]))),
        }
    }
}

word!(pub(crate) Packing { Auto = "auto", On = "true", Off = "false" });
word!(pub(crate) Precision { F32 = "f32", Bf16 = "bf16" });
word!(pub(crate) OptimizerRecoverySetting { Restore = "restore", Keep = "keep" });
word!(pub(crate) ObjectiveSetting { FewestBatches = "fewest-batches", LeastTime = "least-time" });
word!(pub(crate) Reduction { Host = "host", Nccl = "nccl" });
word!(pub(crate) BalanceKind { GradNorm = "gradnorm", Fixed = "fixed" });
word!(pub(crate) PolicyKind { Certified = "certified", Stepwise = "stepwise", Fixed = "fixed" });
word!(pub(crate) BadSampleSetting { Fail = "fail", Skip = "skip" });
word!(pub(crate) OutsideSetting { Fail = "fail", Skip = "skip", Truncate = "truncate" });
word!(pub(crate) EffectiveUnit { Samples = "samples", Tokens = "tokens", Batch = "batch" });
word!(pub(crate) ScalingSetting { None = "none", Sqrt = "sqrt", Linear = "linear" });

/// What ends an epoch of tasks with shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(try_from = "String")]
pub(crate) enum EpochEnds {
    /// Every sample comes once: a task that has no more is left to the others.
    AllOnce,
    /// The first task that has no more ends it.
    First,
    /// The last task of which every sample has come ends it; samples of smaller ones come again.
    Last,
}

impl EpochEnds {
    const WORDS: [&str; 3] = ["all-once", "first", "last"];

    /// Returns the name that the user gives it.
    pub(crate) const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl TryFrom<String> for EpochEnds {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let refused = |_| format!("`{word}` is not one of {}{}", Self::WORDS.join(", "), hint(&word, Self::WORDS));
        Self::from_str(&word, false).map_err(refused)
    }
}

impl From<EpochEnds> for EpochEnd {
    fn from(ends: EpochEnds) -> Self {
        match ends {
            EpochEnds::AllOnce => Self::AllOnce,
            EpochEnds::First => Self::FirstExhausted,
            EpochEnds::Last => Self::LastExhausted,
        }
    }
}
