//! What is said of a plan.

use plimsoll_sampler::{AdmitCounts, Admitted, Mixing, PackReport, PlanReport, TaskPlan};
use serde::Serialize;

use super::groups::NamedGroups;

/// What is said of a plan, and how long it took.
#[derive(Debug, Serialize)]
pub(super) struct Said {
    #[serde(flatten)]
    pub(super) quality: Quality,
    /// Groups that stay together, where there are such; mates are then groups that share a batch or a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) groups: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tasks: Vec<TaskCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<LeftOut>,
    pub(super) ranks: u32,
    /// How batches come out even, where there are several ranks.
    #[serde(skip)]
    pub(super) rounds: Rounds,
    pub(super) planning_seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Quality {
    Padded(PlanReport),
    Packed(PackReport),
}

/// How many batches there are more than were planned, for each rank to have as many; none where that cannot be.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) n_cut: Option<usize>,
    pub(super) n_batches: usize,
}

/// How many samples of a task a plan has.
#[derive(Debug, Serialize)]
pub(super) struct TaskCount {
    name: String,
    samples: u64,
    share: f64,
    /// The share that was wanted, and the part of the epoch after which there are no more samples for it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    wanted: Option<WantedShare>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct WantedShare {
    wanted: f64,
    lasts: f64,
}

/// The samples of a file that are not as they were, where there are any.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct LeftOut {
    empty: u64,
    too_short: u64,
    too_long: u64,
    truncated: u64,
}

impl LeftOut {
    pub(super) fn of<const AXES: usize>(admitted: &Admitted<AXES>) -> Option<Self> {
        let AdmitCounts { empty, too_short, too_long, truncated, .. } = admitted.counts;
        let n_skipped = empty + too_short + too_long;
        (0 < n_skipped + truncated).then_some(Self { empty, too_short, too_long, truncated })
    }
}

impl TaskCount {
    pub(super) fn all(
        names: &[String],
        tasks: Option<&[u16]>,
        plans: Option<&[TaskPlan]>,
        ids: impl Iterator<Item = u32>,
    ) -> Vec<Self> {
        let mut counts = vec![0; names.len()];
        if let Some(tasks) = tasks {
            ids.for_each(|id| counts[usize::from(tasks[id as usize])] += 1);
        }
        let n = counts.iter().sum::<u64>().max(1) as f64;
        let of_plan = |it: &TaskPlan| WantedShare { wanted: it.share, lasts: it.lasts.get() };
        let wanted = |task: usize| plans.and_then(|it| it.get(task)).map(of_plan);
        let count = |(task, (name, samples)): (usize, (&String, u64))| Self {
            name: name.clone(),
            samples,
            share: samples as f64 / n,
            wanted: wanted(task),
        };
        names.iter().zip(counts).enumerate().map(count).collect()
    }

    fn told(&self) -> String {
        let Self { name, samples, share, wanted } = self;
        let told = format!("{name}: {samples} samples, {}", percent(*share, 2));
        match wanted {
            None => told,
            // Rounding may leave a little of an epoch.
            Some(WantedShare { wanted, lasts }) if 1.0 - 1e-9 < *lasts => {
                format!("{told}; {} wanted", percent(*wanted, 2))
            }
            Some(WantedShare { wanted, lasts }) => {
                format!(
                    "{told}; {} wanted, as long as there are any: for {} of the epoch",
                    percent(*wanted, 2),
                    percent(*lasts, 2)
                )
            }
        }
    }
}

impl Said {
    pub(super) fn of_groups(self, groups: &NamedGroups) -> Self {
        Self { groups: Some(groups.groups.len()), ..self }
    }

    pub(super) fn table(&self) -> String {
        let mut rows = match &self.quality {
            Quality::Padded(report) => vec![
                ("samples", report.n_samples.to_string()),
                ("batches", report.n_batches.to_string()),
                (
                    "lower bound",
                    format!("{}, the plan has {} more", report.lower_bound, percent(report.over_lower_bound(), 2)),
                ),
                ("padding", report.waste.iter().map(|it| percent(*it, 3)).collect::<Vec<_>>().join(", ")),
                ("mates kept", mates(&report.mates_kept)),
            ],
            Quality::Packed(report) => vec![
                ("pieces", report.n_pieces.to_string()),
                ("rows", format!("{}, {} full", report.n_rows, percent(report.filled, 3))),
                ("mates kept", format!("{} in the next epoch", percent(report.mates_kept, 2))),
            ],
        };
        rows.splice(1..1, self.groups.map(|it| ("groups", it.to_string())));
        rows.extend(self.left_out.iter().map(|it| ("left out", it.told())));
        rows.extend(self.dropped());
        rows.extend(self.tasks.iter().map(|it| ("task", it.told())));
        rows.extend((1 < self.ranks).then(|| ("ranks", self.rounds.told(self.ranks as usize))));
        let ns_per_sample = 1e9 * self.planning_seconds / self.n_samples().max(1) as f64;
        rows.push(("planning", format!("{:.3} s on the clock, {ns_per_sample:.1} ns a sample", self.planning_seconds)));
        rows.iter().map(|(key, value)| format!("{key:<12} {value}")).collect::<Vec<_>>().join("\n")
    }

    fn n_samples(&self) -> u64 {
        match &self.quality {
            Quality::Padded(report) => report.n_samples,
            Quality::Packed(report) => report.n_pieces,
        }
    }

    fn dropped(&self) -> Option<(&'static str, String)> {
        let Quality::Padded(PlanReport { dropped: dropped @ 1.., .. }) = &self.quality else { return None };
        Some(("dropped", format!("{dropped} samples that do not fill a batch")))
    }
}

impl Rounds {
    fn told(&self, n_ranks: usize) -> String {
        let Self { n_cut, n_batches } = *self;
        let each = n_batches / n_ranks;
        match n_cut {
            Some(0) => format!("{each} batches for each of {n_ranks}"),
            Some(n) => format!("{each} batches for each of {n_ranks}, {n} of them by cutting the largest"),
            None => format!("{each} batches for each of {n_ranks}, and one more for the first {}", n_batches % n_ranks),
        }
    }
}

impl LeftOut {
    fn told(&self) -> String {
        let Self { empty, too_short, too_long, truncated } = self;
        let parts = [(empty, "empty"), (too_short, "too short"), (too_long, "too long"), (truncated, "cut")];
        let told = parts.iter().filter(|(n, _)| 0 < **n).map(|(n, what)| format!("{n} {what}"));
        told.collect::<Vec<_>>().join(", ")
    }
}

/// The share of a batch's pairs that meet again, what was wanted, and what these lengths keep at most.
fn mates(Mixing { wanted, reachable, kept }: &Mixing) -> String {
    let [kept, wanted, reachable] = [*kept, wanted.get(), reachable.get()].map(|share| percent(share, 2));
    format!("{kept} in the next epoch; {wanted} wanted, at most {reachable} with these lengths")
}

fn percent(share: f64, n_digits: usize) -> String {
    format!("{:.n_digits$} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::{Admit, BatchPlanner, PaddedBudget, PlanConfig, SampleIndex};

    use super::*;

    #[test]
    fn the_table_says_what_the_plan_costs() {
        let index = SampleIndex::try_new([vec![5, 1, 6, 1, 2]]).unwrap();
        let planner = BatchPlanner::try_new(index, PaddedBudget([12]), PlanConfig::default()).unwrap();
        let quality = Quality::Padded(planner.report(0, &planner.plan_epoch(0)));
        let said = Said {
            quality,
            groups: None,
            tasks: Vec::new(),
            left_out: None,
            ranks: 1,
            rounds: Rounds { n_cut: Some(0), n_batches: 2 },
            planning_seconds: 1e-6,
        };
        let expected = "\
samples      5
batches      2
lower bound  2, the plan has 0.00 % more
padding      16.667 %
mates kept   100.00 % in the next epoch; 3.00 % wanted, at most 100.00 % with these lengths
planning     0.000 s on the clock, 200.0 ns a sample";
        assert_eq!(said.table(), expected);
        let json = serde_json::to_value(&said).unwrap();
        assert_eq!((&json["n_batches"], &json["mates_kept"]["wanted"]), (&2.into(), &0.03.into()));
        assert!(json["mates_kept"]["kept"].is_f64() && json["mates_kept"]["reachable"].is_f64(), "{json}");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        use plimsoll_sampler::Oversize::{Skip, Truncate};
        let admit = Admit { shortest: 2, longest: 9, too_short: Skip, too_long: Truncate };
        let told = |lengths: &[u32]| LeftOut::of(&admit.all(lengths).unwrap());
        assert_eq!(told(&[2, 9]), None);
        let left_out = told(&[0, 1, 1, 5, 10]).unwrap();
        assert_eq!(left_out.told(), "1 empty, 2 too short, 1 cut");
    }
}
