//! What plans and bounds are to reach, and whether they do.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{MixedRow, Summary};

/// What is asked of a job on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// No cell is reserved more than was planned.
    PlannedBelow,
    /// No cell is planned more than a page above what is reserved.
    PlannedFarAbove,
    /// Plans are equal to what is reserved, to the byte.
    PlannedEqual,
    /// No peak of what is in use is above its bound.
    InUseAbove,
    /// The median error of what is expected in use, of unseen cells.
    InUseError,
    /// The median distance of its bound, of unseen cells.
    InUseSlack,
    /// No run of mixed shapes, and no part of one, is above what was said before.
    MixedBelow,
    /// How far above a run of mixed shapes what was said may be.
    MixedAbove,
}

/// Columns of the table, in their order.
const TARGETS: [Target; 8] = [
    Target::PlannedBelow,
    Target::PlannedFarAbove,
    Target::PlannedEqual,
    Target::InUseAbove,
    Target::InUseError,
    Target::InUseSlack,
    Target::MixedBelow,
    Target::MixedAbove,
];

impl Target {
    const fn name(self) -> &'static str {
        match self {
            Self::PlannedBelow => "planned reserved below real: 0",
            Self::PlannedFarAbove => "above by more than a page: 0",
            Self::PlannedEqual => "equal: ≥ 95 %",
            Self::InUseAbove => "in use above its bound: 0",
            Self::InUseError => "median error: < 1 %",
            Self::InUseSlack => "median slack: < 2 %",
            Self::MixedBelow => "mixed, below real: 0",
            Self::MixedAbove => "mixed, above real: ≤ 5 %",
        }
    }

    fn is_met(self, figure: f64) -> bool {
        match self {
            Self::PlannedBelow | Self::PlannedFarAbove | Self::InUseAbove | Self::MixedBelow => figure <= 0.0,
            Self::PlannedEqual => 0.95 <= figure,
            Self::InUseError => figure < 0.01,
            Self::InUseSlack => figure < 0.02,
            Self::MixedAbove => figure <= 0.05,
        }
    }
}

/// A figure: a count of so many, or a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reached {
    /// So many of so many.
    Count(u64, u64),
    /// A share of 1; never `NaN`.
    Share(f64),
}

impl Reached {
    fn value(self) -> f64 {
        match self {
            Self::Count(n, _) => n as f64,
            Self::Share(share) => share,
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n, of) => write!(f, "{n} of {of}"),
            Self::Share(share) => write!(f, "{:.2} %", 100.0 * share),
        }
    }
}

impl Serialize for Reached {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value())
    }
}

/// A target with what was reached; `None` where nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What is asked.
    pub target: Target,
    /// What was reached: a count, or a share of 1.
    pub reached: Option<Reached>,
    /// Whether that is enough; what was not measured is not.
    pub is_met: bool,
}

impl Verdict {
    fn of(target: Target, reached: Option<Reached>) -> Self {
        Self { target, reached, is_met: reached.is_some_and(|it| target.is_met(it.value())) }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = self.reached.map_or("not measured".to_owned(), |it| it.to_string());
        if self.is_met { f.write_str(&reached) } else { write!(f, "**{reached}: missed**") }
    }
}

/// The targets that count for a job on a device, with or without gradient checkpointing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobTargets {
    /// The job.
    pub job: String,
    /// The device.
    pub device: String,
    /// Whether activations are recomputed in the backward pass.
    pub checkpointing: bool,
    /// In the order of the table.
    pub verdicts: Vec<Verdict>,
}

impl JobTargets {
    fn of(summary: &Summary, mixed: &[&MixedRow]) -> Self {
        let Summary { job, device, checkpointing, errors, all, unseen, unseen_above_resident, .. } = summary;
        let mut verdicts = Vec::new();
        if let Some(errors) = errors {
            let n = (errors.below + errors.equal + errors.within_one_page + errors.more) as u64;
            verdicts.push(Verdict::of(Target::PlannedBelow, Some(Reached::Count(errors.below as u64, n))));
            verdicts.push(Verdict::of(Target::PlannedFarAbove, Some(Reached::Count(errors.more as u64, n))));
            let equal = Reached::Share(errors.equal as f64 / n.max(1) as f64);
            verdicts.push(Verdict::of(Target::PlannedEqual, Some(equal)));
        } else {
            let measured = |share| unseen_above_resident.is_some().then_some(Reached::Share(share));
            let above = Reached::Count(all.violations.n_violations, all.violations.n);
            verdicts.push(Verdict::of(Target::InUseAbove, Some(above)));
            verdicts.push(Verdict::of(Target::InUseError, measured(unseen.error_median)));
            verdicts.push(Verdict::of(Target::InUseSlack, measured(unseen.slack_median)));
        }
        verdicts.push(Verdict::of(Target::MixedBelow, below(mixed)));
        verdicts.push(Verdict::of(Target::MixedAbove, above(mixed)));
        Self { job: job.clone(), device: device.clone(), checkpointing: *checkpointing, verdicts }
    }

    fn verdict(&self, target: Target) -> Option<&Verdict> {
        self.verdicts.iter().find(|it| it.target == target)
    }
}

/// Returns how many bounds of runs, and of the parts in them where those have any, were passed.
fn below(mixed: &[&MixedRow]) -> Option<Reached> {
    let is_below = |it: &&&MixedRow| it.planned_high_water < it.measured_high_water;
    let parts = || mixed.iter().filter_map(|it| it.parts);
    let passed = mixed.iter().filter(is_below).count() + parts().map(|it| it.n_above).sum::<usize>();
    let all = mixed.len() + parts().map(|it| it.n_bounded).sum::<usize>();
    (!mixed.is_empty()).then_some(Reached::Count(passed as u64, all as u64))
}

/// Returns how far the run that was planned worst was planned above what it held.
fn above(mixed: &[&MixedRow]) -> Option<Reached> {
    mixed.iter().map(|it| it.error()).max_by(f64::total_cmp).map(Reached::Share)
}

/// All targets of a report; displays as a table in Markdown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Targets(pub Vec<JobTargets>);

impl Targets {
    /// Holds every job on every device against what is asked of it.
    pub fn of(summary: &[Summary], mixed: &[MixedRow]) -> Self {
        let own = |of: &Summary| {
            let is_own =
                |it: &&MixedRow| (&it.job, &it.device, it.checkpointing) == (&of.job, &of.device, of.checkpointing);
            JobTargets::of(of, &mixed.iter().filter(is_own).collect::<Vec<_>>())
        };
        Self(summary.iter().map(own).collect())
    }

    /// Returns how many there are.
    pub fn n(&self) -> usize {
        self.0.iter().map(|it| it.verdicts.len()).sum()
    }

    /// Returns how many of them are missed.
    pub fn n_missed(&self) -> usize {
        self.0.iter().flat_map(|it| &it.verdicts).filter(|it| !it.is_met).count()
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> =
            TARGETS.into_iter().filter(|target| self.0.iter().any(|it| it.verdict(*target).is_some())).collect();
        write!(f, "| job | device | gradient checkpointing |")?;
        columns.iter().try_for_each(|it| write!(f, " {} |", it.name()))?;
        writeln!(f, "\n|{}", " --- |".repeat(3 + columns.len()))?;
        for row in &self.0 {
            write!(f, "| {} | {} | {} |", row.job, row.device, if row.checkpointing { "on" } else { "off" })?;
            for target in &columns {
                let cell = row.verdict(*target).map_or("–".to_owned(), ToString::to_string);
                write!(f, " {cell} |")?;
            }
            writeln!(f)?;
        }
        match (self.n(), self.n_missed()) {
            (0, _) => writeln!(f, "\nNothing was measured."),
            (n, 0) => writeln!(f, "\nAll {n} targets are met."),
            (n, missed) => writeln!(f, "\n{missed} of {n} targets are missed."),
        }
    }
}
