//! Samples that stay together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::batches::OwnedBatch;
use super::config::{Objective, Oversize, PlanConfig};
use super::group_rule::GroupRule;
use super::narrow::narrow;
use super::planner::BatchPlanner;
use super::step::StepSize;
use crate::hash::{digest, mix};
use crate::{
    CapacityRule, IndexError, Lattice, PackConfig, PackError, PackPlanner, PackedRows, Piece, PlanError, SampleIndex,
    Split,
};

/// Groups of samples of which each comes in one batch, or one packed row: the views of a scene, the sentences of a document.
///
/// A group is planned as one sample of two axes, how many it has and how long its longest is, so that groups of about as
/// many share a batch; what a batch has less of them than its largest group, times its groups, is left empty.
///
/// ```
/// use plimsoll_sampler::{Groups, PackConfig, PaddedBudget, PlanConfig};
///
/// // Two to four views of each scene, of 100 to 180 tokens.
/// let scene_of: Vec<u32> = (0..1_000u32).map(|scene| 2 + scene % 3).zip(0..).flat_map(|(n, scene)| (0..n).map(move |_| scene)).collect();
/// let n_tokens: Vec<u32> = (0..scene_of.len() as u32).map(|id| 100 + id * 7919 % 81).collect();
/// let scenes = Groups::try_new(&n_tokens, &scene_of)?;
/// for batch in scenes.planner(PaddedBudget([8_192]), PlanConfig::default())?.batches(0) {
///     let batch = scenes.samples(&batch);
///     assert!(batch.ids.len() as u32 * batch.cell[0] <= 8_192);
/// }
/// // In packed rows the views of a scene lie one after the other.
/// let rows = scenes.rows(&scenes.pack_planner(PackConfig::new(4_096))?.plan_epoch(0));
/// assert_eq!(rows.iter().map(|row| row.len()).sum::<usize>(), n_tokens.len());
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// The samples of each group, in the order of their ids.
    members: Arc<[u32]>,
    /// Where each group begins among them, and where the last one ends.
    starts: Arc<[u32]>,
    names: Arc<[u32]>,
    index: SampleIndex<1>,
}

impl Groups {
    /// Groups samples by the number that each has; by their place among the groups in the order of these, groups are
    /// planned.
    ///
    /// # Errors
    ///
    /// [`IndexError::GroupCount`] when there are more numbers than samples, or fewer, and those of
    /// [`SampleIndex::try_new`].
    pub fn try_new(lengths: &[u32], group_of: &[u32]) -> Result<Self, IndexError> {
        if lengths.len() != group_of.len() {
            return Err(IndexError::GroupCount { groups: group_of.len(), n_samples: lengths.len() });
        }
        let index = SampleIndex::try_new([lengths])?;
        let mut by_name = BTreeMap::<u32, Vec<u32>>::new();
        for (name, id) in group_of.iter().zip(0..) {
            by_name.entry(*name).or_default().push(id);
        }
        let ends = by_name.values().scan(0, |end, of| {
            *end += narrow(of.len());
            Some(*end)
        });
        let starts = [0].into_iter().chain(ends).collect();
        let names = by_name.keys().copied().collect();
        Ok(Self { members: by_name.into_values().flatten().collect(), starts, names, index })
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no group, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The samples of a group, by its place.
    pub fn members(&self, group: u32) -> &[u32] {
        let bound = |at: usize| self.starts[at] as usize;
        &self.members[bound(group as usize)..bound(group as usize + 1)]
    }

    /// The lengths of all samples.
    pub const fn index(&self) -> &SampleIndex<1> {
        &self.index
    }

    /// What tells these groups and lengths from others, but for one chance in 2^64.
    pub fn fingerprint(&self) -> u64 {
        [&self.members, &self.starts].into_iter().fold(self.index.fingerprint(), |state, it| mix(state ^ digest(it)))
    }

    /// What a group counts for in a step of this size: its samples, or their positions where these are counted.
    pub fn weight(&self, size: StepSize, group: u32) -> u64 {
        let weight = |id: &u32| size.weight([self.length(*id)], [u32::MAX]);
        self.members(group).iter().map(weight).sum()
    }

    /// The most that a group counts for.
    pub fn most_weight(&self, size: StepSize) -> u64 {
        (0..narrow(self.len())).map(|group| self.weight(size, group)).max().unwrap_or(0)
    }

    /// Plans groups as [`BatchPlanner`] plans samples; [`Groups::samples`] says which samples are in a batch.
    ///
    /// `most_samples` counts samples, and the lattice is one of their lengths.
    ///
    /// # Errors
    ///
    /// [`PlanError::GroupAboveBudget`] with the first group that does not fit, unless such are skipped;
    /// [`PlanError::NotForGroups`] when samples are to be cut, or batches to be a multiple; and those of
    /// [`BatchPlanner::try_new`].
    pub fn planner<R: CapacityRule<1>>(
        &self,
        rule: R,
        config: PlanConfig<1>,
    ) -> Result<BatchPlanner<GroupRule<R>, 2>, PlanError> {
        let rule = GroupRule::new(rule, config.most_samples, false);
        let config = of_groups(config)?;
        self.check_budget(&rule, &config)?;
        self.planner_of(rule, config)
    }

    /// Plans groups by a rule for them.
    pub(super) fn planner_of<R: CapacityRule<1>>(
        &self,
        rule: GroupRule<R>,
        config: PlanConfig<2>,
    ) -> Result<BatchPlanner<GroupRule<R>, 2>, PlanError> {
        let groups = || 0..narrow(self.len());
        let n_members: Vec<u32> = groups().map(|group| narrow(self.members(group).len())).collect();
        let longest: Vec<u32> = groups().map(|group| self.longest(group)).collect();
        let mut planner = BatchPlanner::try_new(SampleIndex::try_new([n_members, longest])?, rule, config)?;
        // Other groups may have as many members, as long.
        planner.identity.configuration = mix(planner.identity.configuration ^ self.fingerprint());
        Ok(planner)
    }

    /// The samples of a batch of groups, and the length that each is padded to.
    pub fn samples(&self, batch: &OwnedBatch<2>) -> OwnedBatch<1> {
        let groups = batch.ids.iter().filter_map(|group| u32::try_from(*group).ok());
        let ids = groups.flat_map(|group| self.members(group)).copied().map(u64::from).collect();
        OwnedBatch { ids, cell: [batch.cell[1]] }
    }

    /// Packs groups as [`PackPlanner`] packs samples; [`Groups::rows`] says which samples are in a row.
    ///
    /// The squares of a row are those of whole groups, which is more than those of their samples.
    ///
    /// # Errors
    ///
    /// [`PackError::GroupBeyondRow`] with the first group that is longer than a row may be;
    /// [`PlanError::NotForGroups`] when samples are to be cut; and those of [`PackPlanner::try_new`].
    pub fn pack_planner(&self, config: PackConfig) -> Result<PackPlanner, PackError> {
        if config.split != Split::Refuse {
            return Err(PlanError::NotForGroups { key: "split", value: "cut" }.into());
        }
        let limit = config.piece_len();
        let total = |group: u32| {
            let length = self.members(group).iter().map(|id| u64::from(self.length(*id))).sum();
            let beyond = PackError::GroupBeyondRow { group: self.names[group as usize], length, limit };
            u32::try_from(length).ok().filter(|length| *length <= limit).ok_or(beyond)
        };
        let totals = (0..narrow(self.len())).map(total).collect::<Result<Vec<_>, _>>()?;
        PackPlanner::try_new(SampleIndex::try_new([totals])?, config)
    }

    /// The samples of rows of groups, one after the other where their group lies.
    pub fn rows(&self, of_groups: &PackedRows) -> PackedRows {
        let mut rows = PackedRows::new(of_groups.row_len());
        for row in of_groups.iter() {
            let samples = row.iter().flat_map(|piece| self.members(piece.id));
            let pieces: Vec<_> = samples.map(|id| Piece { id: *id, start: 0, end: self.length(*id) }).collect();
            rows.push(&pieces);
        }
        rows
    }

    /// What a group is called.
    pub(super) fn name(&self, group: u32) -> u32 {
        self.names[group as usize]
    }

    fn length(&self, id: u32) -> u32 {
        self.index.lengths(id)[0]
    }

    fn longest(&self, group: u32) -> u32 {
        self.members(group).iter().map(|id| self.length(*id)).max().unwrap_or(0)
    }

    /// Refuses a group that does not fit even alone.
    fn check_budget(&self, rule: &impl CapacityRule<2>, config: &PlanConfig<2>) -> Result<(), PlanError> {
        let n_groups = if config.oversize == Oversize::Refuse { narrow(self.len()) } else { 0 };
        for group in 0..n_groups {
            let (n_samples, length) = (narrow(self.members(group).len()), self.longest(group));
            // One of a single sample has room for as many as fit.
            let capacity = config.lattice.cell([1, length]).map_or(0, |cell| rule.capacity(cell));
            if capacity < n_samples {
                let group = self.names[group as usize];
                return Err(PlanError::GroupAboveBudget { group, n_samples, length, capacity });
            }
        }
        Ok(())
    }
}

/// What is wanted of batches of groups, where that is wanted of batches of samples.
pub(super) fn of_groups(config: PlanConfig<1>) -> Result<PlanConfig<2>, PlanError> {
    let not = |key, value| Err(PlanError::NotForGroups { key, value });
    let PlanConfig { seed, window, most_mates_kept, drop_last, objective, oversize, tasks, .. } = config;
    match oversize {
        Oversize::Truncate => return not("oversize", "truncate"),
        _ if config.multiple_of > 1 => return not("multiple_of", "above 1"),
        _ if objective != Objective::FewestBatches => return not("objective", "the least time"),
        _ => {}
    }
    Ok(PlanConfig {
        seed,
        window,
        most_mates_kept,
        most_samples: u32::MAX,
        multiple_of: 1,
        drop_last,
        lattice: Lattice::try_new([Vec::new(), config.lattice.edges(0).to_vec()])?,
        objective,
        oversize,
        tasks,
    })
}
