//! From flags to a plan.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_sampler::{
    Admit, Admitted, BatchPlanner, Batches, CapacityRule, Objective, Oversize, PackConfig, PackError, PackPlanner,
    PackReport, PaddedBudget, PlanConfig, PlanError, PlanReport, SampleIndex, SamplerError, Split, TaskMix,
    temperature_shares,
};

use super::groups::NamedGroups;
use super::lengths::{Range, kept, read_lengths, read_tasks, read_weights};
use super::list::{Edges, List, Rows, Together};
use super::said::{LeftOut, Quality, Rounds, Said, TaskCount};
use crate::args::{Outside, PlanBatchesArgs};
use crate::exit::{UserError, user_error};

/// Plans the batches that are asked for.
pub(super) fn plan(args: &PlanBatchesArgs) -> Result<(Box<dyn List>, Said), UserError> {
    let columns = read_lengths(&args.lengths, &args.range())?;
    match (columns.len(), args.row_len, &args.groups) {
        (1, Some(row_len), _) => args.packed(row_len, columns),
        (1, None, Some(path)) => args.together(path, columns),
        (1, None, None) => args.padded::<1>(columns),
        (2, None, None) => args.padded::<2>(columns),
        (_, None, None) => args.padded::<3>(columns),
        _ => {
            let flags = "`--row-len` and `--groups` take lengths of one column";
            Err(user_error(format!("plan {}: {flags}", args.lengths.display())))
        }
    }
}

/// Fields of the sampler's configurations that are flags of this program under another spelling.
const FLAGS: [(&str, &str); 3] =
    [("`multiple_of`", "`--multiple-of`"), ("`overlap`", "`--overlap`"), ("`row_len`", "`--row-len`")];

fn refused(error: impl Into<SamplerError>) -> UserError {
    let said = error.into().to_string();
    user_error(FLAGS.iter().fold(said, |said, (field, flag)| said.replace(field, flag)))
}

/// Says what would mend a plan with a flag of this program.
fn refused_plan(error: PlanError) -> UserError {
    let PlanError::ShareSum { sum } = error else { return refused(error) };
    let mends = "`--normalize-shares` divides them by their sum";
    user_error(format!("plan batches: `--shares` sum to {sum}, not to 1; {mends}"))
}

/// The same of packed rows.
fn refused_rows(error: PackError) -> UserError {
    if let PackError::Plan(error) = error { refused_plan(error) } else { refused(error) }
}

/// Returns a number for each column, of one that is for all of them, or of one for each.
fn of_each<const AXES: usize>(flag: &str, given: &[u32]) -> Result<[Option<u32>; AXES], UserError> {
    let all = match given {
        [] => [None; AXES],
        [one] => [Some(*one); AXES],
        each => <[u32; AXES]>::try_from(each).map(|each| each.map(Some)).map_err(|_| {
            let n = each.len();
            user_error(format!(
                "plan batches: `{flag}` has {n} numbers, one or one for each of {AXES} columns is expected"
            ))
        })?,
    };
    Ok(all)
}

fn no_budget(n_columns: usize) -> UserError {
    user_error(format!("plan batches: a budget for each of {n_columns} columns is expected"))
}

impl PlanBatchesArgs {
    /// What the lengths of a line may be: what is left out or cut, or refused by the number of its sample, is read first.
    fn range(&self) -> Range {
        let refuses = self.outside == Outside::Refuse;
        let is_bounded = refuses && self.longest.is_empty() && self.overlap.is_none() && self.groups.is_none();
        let whole = |limit: u64| if is_bounded { u32::try_from(limit).unwrap_or(u32::MAX) } else { u32::MAX };
        let (of_row, of_budget) =
            (|row_len: u32| vec![whole(row_len.into())], || self.budget.iter().copied().map(whole));
        Range {
            least: u32::from(refuses),
            most: self.row_len.map_or_else(|| of_budget().collect(), of_row),
            room: if self.row_len.is_some() { "a row without `--overlap`" } else { "the budget" },
        }
    }

    /// Takes samples by their lengths on each column.
    fn admitted<const AXES: usize>(&self, columns: Vec<Vec<u32>>) -> Result<Admitted<AXES>, UserError> {
        let columns = <[Vec<u32>; AXES]>::try_from(columns).map_err(|it| no_budget(it.len()))?;
        let outside = match self.outside {
            Outside::Refuse => Oversize::Refuse,
            Outside::Skip => Oversize::Skip,
            Outside::Truncate => Oversize::Truncate,
        };
        let shortest = of_each::<AXES>("--shortest", &self.shortest)?.map(|it| it.unwrap_or(1));
        let longest = of_each::<AXES>("--longest", &self.longest)?.map(|it| it.unwrap_or(u32::MAX));
        let axes = std::array::from_fn(|axis| {
            let budget = self.budget.get(axis).and_then(|it| u32::try_from(*it).ok()).unwrap_or(u32::MAX);
            // What is packed is refused or cut by the length of a row.
            let most = self.row_len.map_or(budget, |_| u32::MAX);
            Admit { shortest: shortest[axis], longest: longest[axis].min(most), too_short: outside, too_long: outside }
        });
        Admit::along(axes, columns.each_ref().map(Vec::as_slice), |_, _| true).map_err(refused)
    }

    /// Plans padded samples.
    fn padded<const AXES: usize>(&self, columns: Vec<Vec<u32>>) -> Result<(Box<dyn List>, Said), UserError> {
        let budget = <[u64; AXES]>::try_from(self.budget.as_slice()).map_err(|_| no_budget(AXES))?;
        let n_read = columns.first().map_or(0, Vec::len);
        let admitted = self.admitted::<AXES>(columns)?;
        let left_out = LeftOut::of(&admitted);
        let Admitted { index, ids, .. } = admitted;
        let (index, names) = self.with_tasks_and_weights(index, &ids, n_read)?;
        let config = self.config(self.mix(&names, index.tasks())?);
        let begun = Instant::now();
        let planner = BatchPlanner::try_new(index, PaddedBudget(budget), config).map_err(refused_plan)?;
        let (batches, rounds) = self.dealt(&planner);
        let took = begun.elapsed();
        let (of, plans) = (planner.index().tasks(), planner.task_plans());
        let of_all = batches.iter().flat_map(|it| it.ids).copied();
        let tasks = TaskCount::all(&names, of, plans.as_deref(), of_all);
        let quality = Quality::Padded(planner.report(self.epoch, &batches));
        Ok((Box::new(Edges { batches, ids }), self.said(quality, tasks, left_out, (rounds, took))))
    }

    /// Says which tasks samples have, and what each weighs, where that is asked for; returns the names of the tasks.
    fn with_tasks_and_weights<const AXES: usize>(
        &self,
        mut index: SampleIndex<AXES>,
        ids: &[u64],
        n_read: usize,
    ) -> Result<(SampleIndex<AXES>, Vec<String>), UserError> {
        let mut names = Vec::new();
        if let Some(path) = &self.tasks {
            let (found, tasks) = read_tasks(path, n_read)?;
            index = index.with_tasks(kept(ids, &tasks)).map_err(refused)?;
            names = found;
        }
        if let Some(path) = &self.weights {
            index = index.with_weights(&kept(ids, &read_weights(path, n_read)?)).map_err(refused)?;
        }
        Ok((index, names))
    }

    /// How tasks of these names are mixed.
    fn mix(&self, names: &[String], tasks: Option<&[u16]>) -> Result<TaskMix, UserError> {
        Ok(TaskMix {
            shares: self.shares_of(names, tasks)?,
            ends: self.ends.into(),
            normalize_shares: self.normalize_shares,
            homogeneous: self.homogeneous,
            ..TaskMix::default()
        })
    }

    /// Plans batches of groups that stay together.
    fn together(&self, path: &Path, columns: Vec<Vec<u32>>) -> Result<(Box<dyn List>, Said), UserError> {
        let n_read = columns.first().map_or(0, Vec::len);
        let admitted = self.admitted(columns)?;
        let groups = NamedGroups::read(path, n_read, &admitted)?;
        let (left_out, ids) = (LeftOut::of(&admitted), admitted.ids);
        let begun = Instant::now();
        let planner = groups.planner(PaddedBudget([self.budget[0]]), self.config(TaskMix::default()))?;
        let (batches, rounds) = self.dealt(&planner);
        let took = begun.elapsed();
        let report = planner.report(self.epoch, &batches);
        let quality = Quality::Padded(PlanReport { n_samples: ids.len() as u64, ..report });
        let said = self.said(quality, Vec::new(), left_out, (rounds, took)).of_groups(&groups);
        Ok((Box::new(Together { batches, groups: groups.groups, ids }), said))
    }

    fn config<const AXES: usize>(&self, tasks: TaskMix) -> PlanConfig<AXES> {
        let usual = PlanConfig::default();
        PlanConfig {
            seed: self.seed,
            window: self.window(),
            most_samples: self.max_batch_size.unwrap_or(u32::MAX),
            multiple_of: self.multiple_of,
            drop_last: self.drop_last,
            most_mates_kept: self.most_mates_kept.unwrap_or(usual.most_mates_kept),
            objective: self
                .least_time
                .map_or(usual.objective, |batch_overhead| Objective::LeastTime { batch_overhead }),
            tasks,
            ..usual
        }
    }

    /// Plans packed rows.
    fn packed(&self, row_len: u32, columns: Vec<Vec<u32>>) -> Result<(Box<dyn List>, Said), UserError> {
        let rows = usize::try_from(self.budget[0] / u64::from(row_len)).unwrap_or(usize::MAX);
        let Some(rows) = NonZeroUsize::new(rows) else {
            let budget = self.budget[0];
            return Err(user_error(format!(
                "plan batches: the budget is {budget}, a row alone has {row_len} positions"
            )));
        };
        let split = self.overlap.map_or(Split::Refuse, |overlap| Split::Cut { overlap });
        let config = PackConfig { split, seed: self.seed, window: self.window(), ..PackConfig::new(row_len) };
        let n_read = columns.first().map_or(0, Vec::len);
        let admitted = self.admitted(columns)?;
        let groups = self.groups.as_ref().map(|path| NamedGroups::read(path, n_read, &admitted)).transpose()?;
        let (left_out, Admitted { index, ids, .. }) = (LeftOut::of(&admitted), admitted);
        let (index, names) = self.with_tasks_and_weights(index, &ids, n_read)?;
        let mix = self.mix(&names, index.tasks())?;
        let begun = Instant::now();
        let planner = match &groups {
            Some(groups) => groups.pack_planner(config)?,
            None => PackPlanner::try_mixed(index, config, &mix).map_err(refused_rows)?,
        };
        let epoch = planner.plan_epoch(self.epoch);
        let took = begun.elapsed();
        let n_batches = epoch.len().div_ceil(rows.get());
        let rounds = Rounds { n_cut: n_batches.is_multiple_of(self.ranks as usize).then_some(0), n_batches };
        let report = planner.report(self.epoch, &epoch);
        let (of, plans) = (planner.index().tasks(), planner.task_plans());
        let first = epoch.iter().flatten().filter(|piece| piece.start == 0).map(|piece| piece.id);
        let tasks = TaskCount::all(&names, of, plans.as_deref(), first);
        let said = |report| self.said(Quality::Packed(report), tasks, left_out, (rounds, took));
        let (all, said) = match &groups {
            Some(groups) => {
                let report = PackReport { n_pieces: ids.len() as u64, ..report };
                (groups.rows(&epoch), said(report).of_groups(groups))
            }
            None => (epoch, said(report)),
        };
        Ok((Box::new(Rows { all, of_batch: rows, ids }), said))
    }

    /// Plans the batches of the epoch, of which each rank gets as many where that can be.
    fn dealt<R: CapacityRule<AXES>, const AXES: usize>(
        &self,
        planner: &BatchPlanner<R, AXES>,
    ) -> (Batches<AXES>, Rounds) {
        let mut batches = planner.plan_epoch(self.epoch);
        let ranks = NonZeroUsize::new(self.ranks as usize).unwrap_or(NonZeroUsize::MIN);
        let n_cut = planner.even_rounds(&mut batches, ranks);
        let n_batches = batches.len();
        (batches, Rounds { n_cut, n_batches })
    }

    fn window(&self) -> Option<usize> {
        self.window.map(|it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    /// Returns the share of each task, by its name or by how many samples it has; each has to be named once.
    fn shares_of(&self, names: &[String], tasks: Option<&[u16]>) -> Result<Option<Vec<f64>>, UserError> {
        if let Some(temperature) = self.temperature {
            let mut sizes = vec![0; names.len()];
            tasks.into_iter().flatten().for_each(|task| sizes[usize::from(*task)] += 1);
            return temperature_shares(&sizes, temperature).map(Some).map_err(refused);
        }
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

    fn said(
        &self,
        quality: Quality,
        tasks: Vec<TaskCount>,
        left_out: Option<LeftOut>,
        (rounds, took): (Rounds, Duration),
    ) -> Said {
        let planning_seconds = took.as_secs_f64();
        Said { quality, groups: None, tasks, left_out, ranks: self.ranks, rounds, planning_seconds }
    }
}
