//! Batches for every epoch.

use super::arrange::by_variety;
use super::batches::{Batches, longest};
use super::compact::Ids;
use super::config::{EpochEnd, Oversize, PlanConfig};
use super::draw::Source;
use super::fit::Fit;
use super::identity::Identity;
use super::kinds::Kinds;
use super::look::look;
use super::narrow::narrow;
use super::position::Progress;
use super::shares::TaskPlan;
use super::window::Window;
use super::window_size::chosen_window;
use crate::hash::digest;
use crate::{CapacityRule, PlanError, SampleIndex};

/// Samples whose lengths are looked at to tell a coarse axis from a fine one.
const N_LOOKS: usize = 1 << 14;

/// Divides the samples of each epoch into batches that fit.
///
/// A planner has no state: what it plans is a function of the index, the rule, the configuration and the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPlanner<R, const AXES: usize> {
    pub(super) index: SampleIndex<AXES>,
    pub(super) fit: Fit<R, AXES>,
    pub(super) config: PlanConfig<AXES>,
    pub(super) source: Source,
    pub(super) identity: Identity,
    /// How many samples come into one window.
    pub(super) window: usize,
    pub(super) n_oversize: usize,
    /// What tells samples apart, unless it is too much to be counted.
    pub(super) kinds: Option<Kinds<AXES>>,
    pub(super) axes: Vec<usize>,
}

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Checks what is wanted; no batch is planned yet.
    ///
    /// # Errors
    ///
    /// [`PlanError::Oversize`] when a sample does not fit even alone and is to be refused;
    /// [`PlanError::NothingFits`]; [`PlanError::NotMonotone`] with the lengths where the rule breaks its word; an
    /// error that names the key when the configuration cannot be.
    pub fn try_new(index: SampleIndex<AXES>, rule: R, config: PlanConfig<AXES>) -> Result<Self, PlanError> {
        config.check()?;
        let source = Source::try_new(&index, config.seed, &config.tasks)?;
        let fit = Fit::new(rule, &config);
        let stride = index.n_samples().div_ceil(N_LOOKS);
        let axes = by_variety(&(0..index.n_samples()).step_by(stride).map(|id| fit.of(index.lengths(narrow(id))).0));
        let window = chosen_window(&index, &config);
        let identity = Identity {
            seed: config.seed,
            n_samples: index.n_samples() as u64,
            window: window as u64,
            lengths: index.fingerprint(),
            configuration: digest(format!("{config:?}").as_bytes()),
            rule: 0,
        };
        let kinds = Kinds::new(&index, &config, window);
        Self { index, fit, config, source, identity, window, n_oversize: 0, kinds, axes }.looked_at()
    }

    /// The same plan under another rule.
    pub(super) fn with_rule(&self, rule: R) -> Result<Self, PlanError>
    where
        R: Clone,
    {
        let mut planner = self.clone();
        planner.fit.follow(rule);
        planner.looked_at()
    }

    /// Samples that do not fit even alone, with their lengths, in the order of their ids.
    pub fn oversize(&self) -> impl Iterator<Item = (u32, [u32; AXES])> {
        // A rule that has room for the longest on every axis at once has room for all.
        let n = if self.fit.capacity(self.index.longest()) > 0 { 0 } else { narrow(self.index.n_samples()) };
        (0..n).map(|id| (id, self.index.lengths(id))).filter(|(_, lengths)| self.fit.capacity(*lengths) == 0)
    }

    /// Number of samples that do not fit even alone: truncated or skipped, as the configuration says.
    pub const fn n_oversize(&self) -> usize {
        self.n_oversize
    }

    /// Number of samples in each epoch; with those that are skipped where samples come again or are left out.
    pub fn n_planned(&self) -> usize {
        match self.config.oversize {
            Oversize::Skip if self.config.tasks.ends == EpochEnd::AllOnce => self.index.n_samples() - self.n_oversize,
            _ => usize::try_from(self.source.total()).unwrap_or(usize::MAX),
        }
    }

    /// The samples that are planned.
    pub const fn index(&self) -> &SampleIndex<AXES> {
        &self.index
    }

    /// What is wanted of the plan.
    pub const fn config(&self) -> &PlanConfig<AXES> {
        &self.config
    }

    /// What becomes of each task in an epoch, where shares were asked for.
    pub fn task_plans(&self) -> Option<Vec<TaskPlan>> {
        self.source.task_plans()
    }

    /// For each task, how many samples fit whichever they are: the capacity for its longest on every axis; 0 for a task
    /// without samples.
    pub fn safe_batch_sizes(&self) -> Vec<u32> {
        let mut longest = vec![None; self.index.n_tasks()];
        for id in 0..narrow(self.index.n_samples()) {
            let Some(lengths) = self.planned_lengths(id) else { continue };
            let task = self.index.tasks().map_or(0, |tasks| usize::from(tasks[id as usize]));
            let most = longest[task].get_or_insert([0; AXES]);
            for (most, length) in most.iter_mut().zip(lengths) {
                *most = length.max(*most);
            }
        }
        longest.into_iter().map(|most| most.map_or(0, |most| self.fit.capacity(most))).collect()
    }

    /// Plans an epoch as a whole.
    pub fn plan_epoch(&self, epoch: u64) -> Batches<AXES> {
        let mut progress = self.start(epoch);
        let (mut window, mut all) = (Window::default(), Batches::default());
        while self.plan_window(&mut progress, &mut window) {
            if window.batches.n_samples() == self.n_planned() {
                return window.batches;
            }
            all.ids.reserve_exact(self.n_planned().saturating_sub(all.ids.len()));
            all.append(&window.batches);
        }
        all
    }

    pub(super) fn start(&self, epoch: u64) -> Progress {
        Progress { epoch, drawn: self.source.start(), carried: Ids::default() }
    }

    /// The lengths that a sample is planned with; `None` when it is skipped.
    pub(super) fn planned_lengths(&self, id: u32) -> Option<[u32; AXES]> {
        self.planned(self.index.lengths(id))
    }

    /// The lengths that samples of these lengths are planned with; `None` when they are skipped.
    pub(super) fn planned(&self, lengths: [u32; AXES]) -> Option<[u32; AXES]> {
        if self.n_oversize == 0 || self.fit.capacity(lengths) > 0 {
            return Some(lengths);
        }
        if self.config.oversize == Oversize::Truncate { self.fit.cut(lengths) } else { None }
    }

    fn looked_at(mut self) -> Result<Self, PlanError> {
        self.identity.rule = look(&self.index, &self.fit)?;
        self.n_oversize = self.oversize().count();
        self.check_oversize()?;
        if self.fit.multiple_of > 1 {
            self.fit.check_multiple(self.longest_planned())?;
        }
        Ok(self)
    }

    /// The greatest planned length on each axis.
    fn longest_planned(&self) -> [u32; AXES] {
        if self.n_oversize == 0 {
            return self.index.longest();
        }
        let planned = (0..narrow(self.index.n_samples())).filter_map(|id| self.planned_lengths(id));
        longest(planned)
    }

    fn check_oversize(&self) -> Result<(), PlanError> {
        let nothing = PlanError::NothingFits { n_samples: self.index.n_samples() as u64 };
        match (self.oversize().next(), self.config.oversize) {
            (Some((id, lengths)), Oversize::Refuse) => Err(self.fit.refusal(u64::from(id), lengths)),
            (Some((_, lengths)), Oversize::Truncate) => self.fit.cut(lengths).map(|_| ()).ok_or(nothing),
            (Some(_), Oversize::Skip) if self.n_oversize == self.index.n_samples() => Err(nothing),
            (None, _) | (Some(_), Oversize::Skip) => Ok(()),
        }
    }
}
