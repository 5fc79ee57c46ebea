//! All cases.

use plimsoll_sampler::{Fraction, SamplerError, TaskMix};

use super::case::Case;
use super::changes::Changes;
use super::compared::Compared;
use super::cpu::CLOCK;
use super::generated::{chats, documents, images_and_tokens, speech};
use super::mixture::Mixture;
use super::packed::Packed;
use super::recorded::Recorded;
use super::report::Report;
use super::resume::Resume;
use super::row::Row;
use super::set::{Set, Setting};
use super::targets::targets;
use crate::finder::Random;

/// Frames of 10 ms, some 40 utterances: the budget under which other samplers were measured.
const SPEECH_BUDGET: u64 = 60_000;

/// Tokens, some 100 chats: the budget under which other samplers were measured.
const CHAT_BUDGET: u64 = 32_768;

/// Frames of a row, two minutes; longer than five of the longest utterances.
const SPEECH_ROW: u32 = 12_000;

/// Tokens of a row.
const TEXT_ROW: u32 = 8_192;

/// Recorded samples that fit into a row, even if all are as long as the longest.
const ROW_OF_LONGEST: u32 = 4;

/// Images and tokens, about equally tight.
const TASKED_BUDGET: [u64; 2] = [128, 16_384];

/// Recorded samples of median length that fit into a batch.
const MEDIANS_PER_BATCH: u64 = 64;

const WINDOW: Setting = Setting::Window(1 << 14);

/// Between the 16 and the 32 that a lattice needs for 3 to 6 % of padding.
const EDGES: Setting = Setting::Edges(24);

const N_RESUMES: usize = 201;

/// Far more than a policy makes in an epoch.
const N_CHANGES: usize = 400;

/// Epochs of each rule that are timed, where a planned one is timed in `Sizes::timed` samples.
const MOST_COMPARED: usize = 5;

/// How many samples are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// For padding and mixing, which are the harder the fewer samples there are; also drawn from recorded lengths.
    pub small: usize,
    /// For time.
    pub middle: usize,
    /// For memory, time beyond the caches, and going on in the middle.
    pub large: usize,
    /// Samples that are planned for a time, in at least three epochs and at most 25.
    pub timed: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { small: 100_000, middle: 1_000_000, large: 10_000_000, timed: 20_000_000 }
    }
}

/// Measures every case, and shows each row when it is there.
///
/// # Errors
///
/// [`SamplerError`] when a recorded length is zero; the generated ones fit.
pub fn measure(sizes: Sizes, recorded: &[Recorded], show: &mut dyn FnMut(&Row)) -> Result<Report, SamplerError> {
    let mut suite = Suite { timed: sizes.timed, rows: Vec::new(), show };
    for n in [sizes.small, sizes.middle, sizes.large] {
        for set in [one_axis("speech", speech(n), SPEECH_BUDGET), one_axis("chats", chats(n), CHAT_BUDGET)] {
            suite.run(&set, &[WINDOW, Setting::Default, Setting::WholeEpoch])?;
            if n == sizes.small {
                suite.run(&set, &[EDGES])?;
            }
        }
    }
    for it in recorded {
        suite.run(&as_recorded(it), &[Setting::Default, Setting::WholeEpoch])?;
        suite.run(&drawn(it, sizes.small), &[Setting::Default])?;
    }
    suite.run(&tasked(sizes.small), &[Setting::Default])?;
    suite.run(&tasked(sizes.middle), &[WINDOW, Setting::Default])?;
    let packed = packed(sizes, recorded)?;
    let resume = Resume::measure(&one_axis("chats", chats(sizes.large), CHAT_BUDGET), WINDOW, N_RESUMES)?;
    let mut report = Report {
        clock: CLOCK,
        rows: suite.rows,
        packed,
        resume,
        changes: changes(sizes)?,
        mixtures: mixtures(sizes)?,
        peers: peers(sizes, recorded)?,
        targets: Vec::new(),
    };
    report.targets = targets(&report, sizes.middle);
    Ok(report)
}

fn changes(sizes: Sizes) -> Result<Vec<Changes>, SamplerError> {
    let of = |n, setting| Changes::measure(&one_axis("chats", chats(n), CHAT_BUDGET), setting, N_CHANGES);
    let cases = [(sizes.middle, Setting::Default), (sizes.middle, EDGES), (sizes.large, Setting::Default)];
    cases.into_iter().map(|(n, setting)| of(n, setting)).collect()
}

fn mixtures(sizes: Sizes) -> Result<Vec<Mixture>, SamplerError> {
    let weights = [TaskMix::default().diversity_weight, Fraction::ONE];
    weights.into_iter().map(|weight| Mixture::measure(sizes.small, CHAT_BUDGET, weight)).collect()
}

/// The rules of other tools on small sets, where mixing is hardest, and on recorded lengths.
fn peers(sizes: Sizes, recorded: &[Recorded]) -> Result<Vec<Compared>, SamplerError> {
    let n_repeats = |n: usize| (sizes.timed / n.max(1)).clamp(1, MOST_COMPARED);
    let n = sizes.small;
    let mut all = Vec::new();
    let sets = [one_axis("speech", speech(n), SPEECH_BUDGET), one_axis("chats", chats(n), CHAT_BUDGET)];
    for set in sets.into_iter().chain(recorded.iter().map(as_recorded)) {
        all.extend(Compared::padded(&set, n_repeats(set.lengths[0].len()))?);
    }
    all.extend(Compared::cells(&tasked(n), n_repeats(n))?);
    let rows =
        [("speech", speech(n), SPEECH_ROW), ("chats", chats(n), TEXT_ROW), ("documents", documents(n), TEXT_ROW)];
    let rows = rows.into_iter().map(|(name, lengths, row_len)| (name.to_owned(), lengths, row_len));
    let of_recorded = |it: &Recorded| (it.name.clone(), it.lengths.clone(), row_of(&it.lengths));
    for (name, lengths, row_len) in rows.chain(recorded.iter().map(of_recorded)) {
        all.extend(Compared::packed(&format!("packed {name}"), &lengths, row_len, n_repeats(lengths.len()))?);
    }
    Ok(all)
}

fn packed(sizes: Sizes, recorded: &[Recorded]) -> Result<Vec<Packed>, SamplerError> {
    let repeats = |n: usize| (sizes.timed / n).clamp(3, 25);
    let mut all = Vec::new();
    for n in [sizes.small, sizes.middle, sizes.large] {
        let sets =
            [("speech", speech(n), SPEECH_ROW), ("chats", chats(n), TEXT_ROW), ("documents", documents(n), TEXT_ROW)];
        for (name, lengths, row_len) in sets {
            all.push(Packed::measure(name, lengths, row_len, repeats(n))?);
        }
    }
    for Recorded { name, lengths } in recorded {
        all.push(Packed::measure(name, lengths.clone(), row_of(lengths), repeats(lengths.len()))?);
    }
    Ok(all)
}

/// The length of a row for recorded samples.
fn row_of(lengths: &[u32]) -> u32 {
    ROW_OF_LONGEST * lengths.iter().copied().max().unwrap_or(1)
}

struct Suite<'a> {
    timed: usize,
    rows: Vec<Row>,
    show: &'a mut dyn FnMut(&Row),
}

impl Suite<'_> {
    fn run<const AXES: usize>(&mut self, set: &Set<AXES>, settings: &[Setting]) -> Result<(), SamplerError> {
        let optimum_waste = set.optimum_waste()?;
        let n_repeats = (self.timed / set.lengths[0].len()).clamp(3, 25);
        for setting in settings.iter().copied() {
            let row = Case { set, optimum_waste, setting, n_repeats }.row()?;
            (self.show)(&row);
            self.rows.push(row);
        }
        Ok(())
    }
}

fn one_axis(name: &str, lengths: Vec<u32>, budget: u64) -> Set<1> {
    Set { name: name.to_owned(), lengths: [lengths], tasks: None, budget: [budget] }
}

fn tasked(n: usize) -> Set<2> {
    let it = images_and_tokens(n);
    Set { name: "images, tokens".to_owned(), lengths: it.lengths, tasks: Some(it.tasks), budget: TASKED_BUDGET }
}

/// Recorded lengths as they are.
fn as_recorded(it: &Recorded) -> Set<1> {
    let mut sorted = it.lengths.clone();
    sorted.sort_unstable();
    let (median, longest) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    one_axis(&it.name, it.lengths.clone(), (MEDIANS_PER_BATCH * u64::from(median)).max(u64::from(longest)))
}

/// `n` of the recorded lengths, drawn with replacement.
fn drawn(it: &Recorded, n: usize) -> Set<1> {
    let mut random = Random::new(5);
    let mut draw = || it.lengths[usize::try_from(random.next_u64() >> 32).unwrap_or(0) % it.lengths.len()];
    let lengths = (0..n).map(|_| draw()).collect();
    Set { name: format!("drawn from {}", it.name), lengths: [lengths], ..as_recorded(it) }
}

#[cfg(test)]
mod tests {
    use super::super::target::Target;
    use super::*;

    #[test]
    fn every_case_keeps_the_budget_and_has_every_sample_once() {
        let recorded = [Recorded { name: "real".to_owned(), lengths: (0..500).map(|id| 10 + id * 37 % 201).collect() }];
        let sizes = Sizes { small: 2_000, middle: 3_000, large: 20_000, timed: 0 };
        let mut n_shown = 0;
        let report = measure(sizes, &recorded, &mut |_| n_shown += 1).unwrap();
        assert_eq!((report.rows.len(), n_shown), (26, 26));
        for row in &report.rows {
            let Row { padding: it, mixing, time, .. } = row;
            assert_eq!((it.over_budget, it.not_once), (0, 0), "{row}");
            assert!(it.lower_bound <= it.batches && time.ns_per_sample_least <= time.ns_per_sample, "{row}");
            let best = it.optimum_waste.unwrap_or(0.0);
            assert!(row.setting != "whole epoch" || (it.waste >= best && it.waste < best + 0.03), "{row}");
            assert_eq!(row.setting == "24 edges", it.lattice_waste > 0.0, "{row}");
            assert_eq!(row.data == "images, tokens", mixing.task_entropy_ratio.is_some(), "{row}");
        }
        assert!(report.resume.n_taken >= 10_000 && report.resume.position_bytes > 0);
        assert_eq!(report.packed.len(), 10);
        for it in &report.packed {
            assert!(it.over_budget == 0 && it.not_once == 0 && it.waste < 0.05 && it.position_bytes <= 4096, "{it}");
        }
        assert_eq!(report.changes.len(), 3);
        for it in &report.changes {
            assert!(it.not_once == 0 && it.n_changes > 0 && it.position_bytes <= 4096, "{it}");
        }
        // Ours and six rules on three sets, ours and one on two axes, ours and three for rows on four sets.
        assert_eq!(report.peers.len(), 3 * 7 + 2 + 4 * 4);
        assert!(report.peers.iter().all(|it| it.not_once == 0 && it.rule_ns > 0.0));
        // Time of six sets, rows of ten that are filled and mix, four of two axes, two mixtures, six positions.
        assert_eq!(report.targets.len(), 6 + 2 * 10 + 4 + 2 + 6, "{:?}", report.targets);
        let exact = ["batches over the budget", "position"];
        let exact = |target: &&Target| exact.iter().any(|it| target.figure.contains(it));
        assert!(report.targets.iter().filter(exact).all(|it| it.passes), "{:?}", report.targets);
    }
}
