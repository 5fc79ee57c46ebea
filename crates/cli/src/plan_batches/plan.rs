//! From flags to a plan.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use plimsoll_sampler::{
    Admit, Admitted, BatchPlanner, Oversize, PackConfig, PackPlanner, PackReport, PaddedBudget, PlanConfig, PlanReport,
    SampleIndex, SamplerError, Split, TaskMix,
};

use super::groups::NamedGroups;
use super::lengths::{read_lengths, read_tasks};
use super::list::{Edges, List, Rows, Together};
use super::said::{LeftOut, Quality, Said, TaskCount};
use crate::args::{Outside, PlanBatchesArgs};
use crate::exit::{UserError, user_error};

/// Plans the batches that are asked for.
pub(super) fn plan(args: &PlanBatchesArgs) -> Result<(Box<dyn List>, Said), UserError> {
    let column = match <[Vec<u32>; 1]>::try_from(read_lengths(&args.lengths, args.least(), &args.most())?) {
        Ok([column]) => column,
        Err(columns) => return args.of_columns(columns),
    };
    let admitted = args.admit().all(&column).map_err(refused)?;
    let left_out = LeftOut::of(&admitted);
    let n_read = left_out.as_ref().map_or(column.len(), |it| it.n_read);
    let groups = args.groups.as_ref().map(|path| NamedGroups::read(path, n_read, &admitted)).transpose()?;
    match (args.row_len, groups) {
        (Some(row_len), groups) => args.packed(row_len, admitted, groups),
        (None, Some(groups)) => args.together(groups, admitted.ids, left_out),
        (None, None) => args.padded(admitted.index, Some(admitted.ids), left_out),
    }
}

fn refused(error: impl Into<SamplerError>) -> UserError {
    user_error(error.into().to_string())
}

fn no_budget(n_columns: usize) -> UserError {
    user_error(format!("plan batches: a budget for each of {n_columns} columns is expected"))
}

impl PlanBatchesArgs {
    /// The least length that a line may have: what is left out, or refused by the number of its sample, is read first.
    fn least(&self) -> u32 {
        u32::from(self.outside == Outside::Refuse)
    }

    /// The greatest length that a line may have on each column.
    fn most(&self) -> Vec<u32> {
        let is_bounded = self.outside == Outside::Refuse && self.longest.is_none() && self.row_len.is_none();
        let most = |budget: &u64| if is_bounded { u32::try_from(*budget).unwrap_or(u32::MAX) } else { u32::MAX };
        self.budget.iter().map(most).collect()
    }

    fn admit(&self) -> Admit {
        let outside = match self.outside {
            Outside::Refuse => Oversize::Refuse,
            Outside::Skip => Oversize::Skip,
            Outside::Truncate => Oversize::Truncate,
        };
        let budget = u32::try_from(self.budget[0]).unwrap_or(u32::MAX);
        // What is packed is refused or cut by the length of a row.
        let most = self.row_len.map_or(budget, |_| u32::MAX);
        let longest = self.longest.unwrap_or(u32::MAX).min(most);
        Admit { shortest: self.shortest, longest, too_short: outside, too_long: outside }
    }

    /// Plans samples of several columns.
    fn of_columns(&self, columns: Vec<Vec<u32>>) -> Result<(Box<dyn List>, Said), UserError> {
        let takes_one = self.row_len.is_some() || self.groups.is_some() || self.outside != Outside::Refuse;
        if takes_one || self.shortest != 1 || self.longest.is_some() {
            let flags = "`--row-len`, `--groups`, `--shortest`, `--longest` and `--outside` take lengths of one column";
            return Err(user_error(format!("plan {}: {flags}", self.lengths.display())));
        }
        match <[Vec<u32>; 2]>::try_from(columns) {
            Ok(columns) => self.padded(SampleIndex::try_new(columns).map_err(refused)?, None, None),
            Err(columns) => {
                let columns = <[Vec<u32>; 3]>::try_from(columns).map_err(|it| no_budget(it.len()))?;
                self.padded(SampleIndex::try_new(columns).map_err(refused)?, None, None)
            }
        }
    }

    /// Plans padded samples, of which `ids` says what they were before some were left out.
    fn padded<const AXES: usize>(
        &self,
        mut index: SampleIndex<AXES>,
        ids: Option<Vec<u64>>,
        left_out: Option<LeftOut>,
    ) -> Result<(Box<dyn List>, Said), UserError> {
        let budget = <[u64; AXES]>::try_from(self.budget.as_slice()).map_err(|_| no_budget(AXES))?;
        let mut names = Vec::new();
        if let Some(path) = &self.tasks {
            let n_read = left_out.as_ref().map_or(index.n_samples(), |it| it.n_read);
            let (found, tasks) = read_tasks(path, n_read)?;
            let kept = |ids: &Vec<u64>| {
                ids.iter().filter_map(|id| tasks.get(usize::try_from(*id).ok()?).copied()).collect::<Vec<_>>()
            };
            index = index.with_tasks(ids.as_ref().map_or_else(|| tasks.clone(), kept)).map_err(refused)?;
            names = found;
        }
        let mix = TaskMix { shares: self.shares_of(&names)?, ends: self.ends.into(), ..TaskMix::default() };
        let config = self.config(mix);
        let begun = Instant::now();
        let planner = BatchPlanner::try_new(index, PaddedBudget(budget), config).map_err(refused)?;
        let batches = planner.plan_epoch(self.epoch);
        let took = begun.elapsed();
        let tasks = TaskCount::all(&names, planner.index().tasks(), &batches);
        let quality = Quality::Padded(planner.report(self.epoch, &batches));
        Ok((Box::new(Edges { batches, ids }), self.said(quality, tasks, left_out, took)))
    }

    /// Plans batches of groups that stay together.
    fn together(
        &self,
        groups: NamedGroups,
        ids: Vec<u64>,
        left_out: Option<LeftOut>,
    ) -> Result<(Box<dyn List>, Said), UserError> {
        let begun = Instant::now();
        let planner = groups.planner(PaddedBudget([self.budget[0]]), self.config(TaskMix::default()))?;
        let batches = planner.plan_epoch(self.epoch);
        let took = begun.elapsed();
        let report = planner.report(self.epoch, &batches);
        let quality = Quality::Padded(PlanReport { n_samples: ids.len() as u64, ..report });
        let said = self.said(quality, Vec::new(), left_out, took).of_groups(&groups);
        Ok((Box::new(Together { batches, groups: groups.groups, ids }), said))
    }

    fn config<const AXES: usize>(&self, tasks: TaskMix) -> PlanConfig<AXES> {
        PlanConfig {
            seed: self.seed,
            window: self.window(),
            most_samples: self.max_batch_size.unwrap_or(u32::MAX),
            multiple_of: self.multiple_of,
            drop_last: self.drop_last,
            tasks,
            ..PlanConfig::default()
        }
    }

    /// Plans packed rows.
    fn packed(
        &self,
        row_len: u32,
        admitted: Admitted,
        groups: Option<NamedGroups>,
    ) -> Result<(Box<dyn List>, Said), UserError> {
        let rows = usize::try_from(self.budget[0] / u64::from(row_len)).unwrap_or(usize::MAX);
        let Some(rows) = NonZeroUsize::new(rows) else {
            let budget = self.budget[0];
            return Err(user_error(format!(
                "plan batches: the budget is {budget}, a row alone has {row_len} positions"
            )));
        };
        let split = self.overlap.map_or(Split::Refuse, |overlap| Split::Cut { overlap });
        let config = PackConfig { split, seed: self.seed, window: self.window(), ..PackConfig::new(row_len) };
        let (left_out, Admitted { index, ids, .. }) = (LeftOut::of(&admitted), admitted);
        let begun = Instant::now();
        let planner = match &groups {
            Some(groups) => groups.pack_planner(config)?,
            None => PackPlanner::try_new(index, config).map_err(refused)?,
        };
        let planned = planner.plan_epoch(self.epoch);
        let took = begun.elapsed();
        let report = planner.report(self.epoch, &planned);
        let said = |report| self.said(Quality::Packed(report), Vec::new(), left_out, took);
        let (all, said) = match &groups {
            Some(groups) => {
                let report = PackReport { n_pieces: ids.len() as u64, ..report };
                (groups.rows(&planned), said(report).of_groups(groups))
            }
            None => (planned, said(report)),
        };
        Ok((Box::new(Rows { all, of_batch: rows, ids }), said))
    }

    fn window(&self) -> Option<usize> {
        self.window.map(|it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    /// Returns the share of each task by its name; each has to be named once.
    fn shares_of(&self, names: &[String]) -> Result<Option<Vec<f64>>, UserError> {
        if self.shares.is_empty() {
            return Ok(None);
        }
        let is_of = |name: &str, it: &(String, f64)| it.0 == name;
        let is_named = |name: &String| self.shares.iter().filter(|it| is_of(name, it)).count() == 1;
        let unknown = self.shares.iter().map(|(name, _)| name).find(|name| !names.contains(name));
        if let Some(name) = unknown.or_else(|| names.iter().find(|name| !is_named(name))) {
            let wanted = format!("one share for each of {} is expected", names.join(", "));
            return Err(user_error(format!("plan batches: `--shares` and task `{name}`: {wanted}")));
        }
        let share = |name: &String| self.shares.iter().find(|it| is_of(name, it)).map(|(_, share)| *share);
        Ok(Some(names.iter().filter_map(share).collect()))
    }

    fn said(&self, quality: Quality, tasks: Vec<TaskCount>, left_out: Option<LeftOut>, took: Duration) -> Said {
        Said { quality, groups: None, tasks, left_out, ranks: self.ranks, planning_seconds: took.as_secs_f64() }
    }
}
