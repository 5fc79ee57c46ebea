//! The settings of the jobs whose samples have lengths.

use std::path::PathBuf;

use plimsoll_sampler::{Admit, Oversize};
use plimsoll_train::BadSample;
use plimsoll_workloads::multitask::{Augmentation, FusionConfig, MultitaskConfig, SamplesConfig};
use plimsoll_workloads::sequence::{EncoderConfig, RecordingsConfig, SequenceConfig};
use plimsoll_workloads::text::{CorpusConfig, Cut, GptConfig, Together};
use plimsoll_workloads::{Room, Shares};

use super::{Multitask, Sequence, Settings, Text};
use crate::built_in;
use crate::values::{BadSampleSetting, BalanceKind, OutsideSetting};

impl Settings {
    /// Returns the folder of the data: the one that is named, or the one that comes with Plimsoll.
    pub(crate) fn folder(&self, job: &str) -> PathBuf {
        if !self.is_built_in() {
            return self.data.folder.clone();
        }
        built_in::folder(job)
    }

    /// Returns what is held out.
    pub(super) fn shares(&self) -> Shares {
        Shares { validation: self.data.validation_share.get(), test: self.data.test_share.get() }
    }

    pub(super) fn bad_sample(&self) -> BadSample {
        match self.data.bad_sample {
            BadSampleSetting::Fail => BadSample::Fail,
            BadSampleSetting::Skip => BadSample::Skip,
        }
    }

    /// Returns which lengths take part; what is too short cannot be cut.
    fn lengths(&self) -> Admit {
        let (too_short, too_long) = match self.data.outside {
            OutsideSetting::Fail => (Oversize::Refuse, Oversize::Refuse),
            OutsideSetting::Skip => (Oversize::Skip, Oversize::Skip),
            OutsideSetting::Truncate => (Oversize::Skip, Oversize::Truncate),
        };
        Admit { shortest: self.data.shortest, longest: self.longest(), too_short, too_long }
    }

    /// Returns the greatest length that takes part as it is.
    pub(super) fn longest(&self) -> u32 {
        self.data.longest.0.unwrap_or(u32::MAX)
    }

    pub(crate) fn recordings(&self) -> RecordingsConfig {
        RecordingsConfig {
            folder: self.folder("sequence"),
            shares: self.shares(),
            group_column: Some(self.data.group_column.clone()).filter(|it| !it.is_empty()),
            source_column: Some(self.data.source_column.clone()).filter(|it| !it.is_empty()),
            together_column: Some(self.data.together.clone()).filter(|it| !it.is_empty()),
            weight_column: Some(self.data.weight_column.clone()).filter(|it| !it.is_empty()),
            bad_sample: self.bad_sample(),
            classes: Vec::new(),
            lengths: self.lengths(),
            store: None,
        }
    }

    pub(crate) fn sequence(&self) -> SequenceConfig {
        let Sequence { heads, head_width, blocks } = self.sequence;
        SequenceConfig { model: EncoderConfig { heads, head_width, blocks }, stream: self.data.stream }
    }

    pub(crate) fn samples(&self, room: Room) -> SamplesConfig {
        let Multitask { image_size, own_sizes, max_words, .. } = self.multitask;
        SamplesConfig {
            folder: self.folder("multitask"),
            image_size,
            own_sizes,
            max_words,
            shares: self.shares(),
            lengths: self.lengths(),
            bad_sample: self.bad_sample(),
            room,
        }
    }

    pub(crate) fn multitask(&self) -> MultitaskConfig {
        let Multitask { channels, features, places, label_smoothing, zoom, colors, mirror, .. } = self.multitask;
        MultitaskConfig {
            model: FusionConfig { channels, features, has_places: places },
            label_smoothing,
            augmentation: Augmentation { zoom, colors, mirror },
            measure_tasks: self.tasks.balance == BalanceKind::GradNorm,
            seed: self.seed,
            stream: self.data.stream,
        }
    }

    pub(crate) fn corpus(&self, room: Room) -> CorpusConfig {
        let Text { vocabulary, longest, overlap, .. } = self.text;
        CorpusConfig {
            together: Together::named(&self.data.together),
            folder: self.folder("text"),
            source_folders: self.data.source_folders,
            shares: self.shares(),
            bad_document: self.bad_sample(),
            vocabulary,
            lengths: self.lengths(),
            cut: Cut { longest, overlap },
            room,
        }
    }

    pub(crate) fn gpt(&self) -> GptConfig {
        let Text { layers, width, heads, .. } = self.text;
        GptConfig { layers, width, heads }
    }
}
