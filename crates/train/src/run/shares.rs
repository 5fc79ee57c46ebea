//! Who runs which samples of a step: each rank as many as follow from how fast it is, in micro-batches that it holds, and each
//! thread of a rank as many as another.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_sampler::{BatchToDeal, SamplerError, Speeds, Worked, deal_batches};
use plimsoll_step::StepPart;

use super::Run;
use super::control::Control;
use super::under_way::Samples;
use crate::job::Job;
use crate::loader::{Limits, LoaderConfig, Wanted, whole};
use crate::source::Part;

/// What all ranks have agreed on before a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Agreed {
    /// What the step is filled with, by all ranks together.
    pub(super) wanted: Wanted,
    /// What each rank holds at once.
    pub(super) limits: Arc<Limits>,
    /// How fast each rank is, as all of them have heard.
    pub(super) speeds: Speeds,
}

impl Agreed {
    /// Gathers the limits that all ranks tell, of which this is one.
    pub(super) fn of(own: &Wanted, rank: u32, told: &[&[u64]], speeds: Speeds) -> Self {
        let told: Vec<Vec<_>> = told.iter().map(|it| it.iter().copied().map(whole).collect()).collect();
        let (wanted, of_ranks) = match own {
            Wanted::Batches(own) => {
                let told: Vec<_> = told.into_iter().map(|it| it[..own.len()].to_vec()).collect();
                let of_all = |at: usize| told.iter().map(|it| it[at]).fold(0, u32::saturating_add);
                (Wanted::Batches((0..own.len()).map(of_all).collect()), told)
            }
            Wanted::Edge(_) => {
                // The smallest, which all of them hold.
                let edge = told.iter().map(|it| it[0]).min().unwrap_or(1).max(1);
                let area = |edge: u32| u64::from(edge).pow(2);
                let limit = |it: &Vec<u32>| whole(u64::from(it[1]) * area(it[0]) / area(edge));
                (Wanted::Edge(edge), told.iter().map(|it| vec![limit(it)]).collect())
            }
        };
        Self { wanted, limits: Arc::new(Limits { rank: rank as usize, of_ranks }), speeds }
    }
}

/// Returns what this rank holds at once, as it tells the others.
pub(super) fn limits(control: &Control<'_>) -> Vec<u64> {
    match control.wanted() {
        Wanted::Batches(sizes) => sizes.into_iter().map(u64::from).collect(),
        Wanted::Edge(edge) => vec![edge.into(), control.knobs().micro_batch_size.into()],
    }
}

/// Returns what a rank has run, as it tells the others.
pub(super) fn told_work(worked: Worked) -> [u64; 2] {
    [worked.positions, u64::try_from(worked.took.as_nanos()).unwrap_or(u64::MAX)]
}

/// Returns what a rank has told of it.
pub(super) fn heard_work(told: &[u64]) -> Worked {
    Worked { positions: told[0], took: Duration::from_nanos(told[1]) }
}

/// What of a thread's share is not worth a cut: it begins its next part as soon as it has done one, and so evens out what is less.
const LITTLE: f64 = 1.0 / 8.0;

/// Cuts parts for which so many threads would wait, all pieces but the last of a part to a multiple of so many samples.
pub(super) fn cut_between(
    n_threads: usize,
    parts: Vec<StepPart>,
    multiple_of: u32,
) -> Result<Vec<StepPart>, SamplerError> {
    let to_deal = |it: &StepPart| {
        let (n_samples, length) = (it.shape().samples, whole(it.extent.positions()));
        BatchToDeal { n_samples, length, multiple_of, limits: vec![n_samples.max(1); n_threads] }
    };
    let positions: u64 = parts.iter().map(|it| it.shape().positions()).sum();
    let little = LITTLE * positions as f64 / n_threads as f64;
    let batches: Vec<_> = parts.iter().map(to_deal).collect();
    let dealt = deal_batches(&vec![1.0; n_threads], Some(little), &batches)?;
    let cut = |(part, sizes): (StepPart, Vec<u32>)| part.cut(sizes.into_iter().filter(|it| 0 < *it).collect());
    Ok(parts.into_iter().zip(dealt).flat_map(cut).collect())
}

impl<J: Job> Run<'_, '_, J> {
    /// Returns the micro-batches of a step that this rank runs, in parts as large as it holds.
    pub(super) fn own_micro_batches(&self, samples: &Samples<J>) -> Vec<StepPart> {
        let (LoaderConfig { cells, multiple_of, .. }, controller) = (&self.config.loader, self.control.controller());
        let most = |part: &Part, n_own: usize| match &self.agreed {
            Some(Agreed { wanted: Wanted::Batches(_), limits, .. }) => limits.own(part.extent, cells, *multiple_of),
            Some(_) => controller.part_size(n_own),
            None => controller.part_size(samples.draw.n_rows()),
        };
        let own = samples.dealt.rows_of(self.training.rank() as usize);
        let (mut end, parts) = (0, samples.draw.parts.iter().zip(own));
        let divide = |(part, own): (&Part, Range<usize>)| {
            let start = end;
            end += part.n_rows();
            StepPart::divide(start + own.start..start + own.end, part.extent, most(part, own.len()))
        };
        parts.flat_map(divide).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Extent;

    use super::*;

    #[test]
    fn parts_are_cut_where_threads_of_whole_ones_would_wait() {
        let cut = |n_threads, parts: &[(usize, u32)], multiple_of| {
            let part = |(n, edge): &(usize, u32)| StepPart { samples: 0..*n, extent: Extent::new(*edge) };
            let parts = cut_between(n_threads, parts.iter().map(part).collect(), multiple_of).unwrap();
            parts.iter().map(|it| it.samples.len()).collect::<Vec<_>>()
        };
        assert_eq!(cut(2, &[(8, 52), (8, 28), (8, 20), (8, 12)], 1), [8; 4]);
        assert_eq!(cut(4, &[(8, 52), (8, 28), (8, 20), (8, 12)], 1), [4, 4, 8, 8, 2, 6]);
        assert_eq!(cut(2, &[(4, 10), (4, 10), (4, 10)], 1), [4, 4, 2, 2]);
        assert_eq!(cut(2, &[(8, 28)], 1), [4, 4]);
        assert_eq!(cut(16, &[(8, 1)], 1), [1; 8]);
        assert_eq!(cut(4, &[(1, 512)], 1), [1]);
        assert!(cut(3, &[], 1).is_empty());
        assert_eq!(cut(2, &[(30, 1)], 8), [16, 14]);
    }

    #[test]
    fn ranks_of_padded_samples_hold_together_what_each_holds() {
        let agreed = Agreed::of(&Wanted::Batches(vec![1; 3]), 1, &[&[16, 4, 1, 0], &[8, 2, 1, 0]], Speeds::unknown(2));
        assert_eq!(agreed.wanted, Wanted::Batches(vec![24, 6, 2]));
        assert_eq!(agreed.limits.of_ranks, [vec![16, 4, 1], vec![8, 2, 1]]);
    }

    #[test]
    fn ranks_of_cut_samples_cut_them_to_what_all_hold() {
        let agreed = Agreed::of(&Wanted::Edge(8), 0, &[&[32, 6], &[16, 8], &[64, 1]], Speeds::unknown(3));
        assert_eq!(agreed.wanted, Wanted::Edge(16));
        assert_eq!(agreed.limits.of_ranks, [[24], [8], [16]]);
    }
}
