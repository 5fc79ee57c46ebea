//! All that was planned and measured.

use std::fmt;

use plimsoll_predict::PredictError;
use serde::Serialize;

use super::{AboveResident, CellRow, Errors, Figures, Judged, MixedRow, PartsHeld, Summary, Targets};

/// The content of `predict.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Every cell.
    pub cells: Vec<CellRow>,
    /// One for each job and device.
    pub summary: Vec<Summary>,
    /// Runs of mixed shapes.
    pub mixed: Vec<MixedRow>,
    /// What each job on each device is to reach, and whether it does.
    pub targets: Targets,
    /// The devices that were at hand, each with what it calls itself.
    pub devices: Vec<Device>,
    /// Devices that were not at hand, and cells that did not run.
    pub missing: Vec<Missing>,
}

/// A device that was at hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// As in the other parts of the report.
    pub device: String,
    /// What it calls itself.
    pub name: String,
}

/// What has no figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The device, with the cell where one is meant.
    pub what: String,
    /// Why there are none, as a fragment that finishes "failed to ...".
    pub reason: String,
}

impl Report {
    /// Sums up the cells of each job on each device, in the order in which they come.
    ///
    /// # Errors
    ///
    /// Those of [`Summary::try_new`].
    pub fn try_new(
        cells: Vec<CellRow>,
        mixed: Vec<MixedRow>,
        devices: Vec<Device>,
        missing: Vec<Missing>,
    ) -> Result<Self, PredictError> {
        let key = |cell: &'_ CellRow| (cell.job.clone(), cell.device.clone(), cell.checkpointing);
        let mut keys = Vec::new();
        for cell in &cells {
            if !keys.contains(&key(cell)) {
                keys.push(key(cell));
            }
        }
        let of = |of: (String, String, bool)| {
            let own: Vec<_> = cells.iter().filter(|it| key(it) == of).collect();
            let (job, device, checkpointing) = of;
            Summary::try_new(&job, &device, checkpointing, &own)
        };
        let summary: Vec<_> = keys.into_iter().map(of).collect::<Result<_, _>>()?;
        let targets = Targets::of(&summary, &mixed);
        Ok(Self { cells, summary, mixed, targets, devices, missing })
    }

    /// Writes the page for people: all tables, and which targets are met.
    pub fn to_markdown(&self) -> String {
        format!("# Plans against real steps\n\n```text\n{self}```\n\n## Targets\n\n{}", self.targets)
    }
}

fn recomputing(checkpointing: bool) -> &'static str {
    if checkpointing { " with gradient checkpointing" } else { "" }
}

/// Stands above the cells: reserved as planned and as it was, then all that is judged.
const HEADER: &str = "phase  batch × edge  samples  source           planned         real     expected        upper     \
                      measured  planning";

/// Writes the tables for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for summary in &self.summary {
            let Summary { job, device, checkpointing, .. } = summary;
            let name = self.devices.iter().find(|it| it.device == *device).map_or(device, |it| &it.name);
            writeln!(f, "{job} on {name}{}\n", recomputing(*checkpointing))?;
            writeln!(f, "{HEADER}")?;
            let is_own = |it: &&CellRow| (&it.job, &it.device, it.checkpointing) == (job, device, *checkpointing);
            let own = self.cells.iter().filter(is_own);
            own.clone().try_for_each(|cell| writeln!(f, "{cell}"))?;
            writeln!(f, "\n{summary}")?;
        }
        self.mixed.iter().try_for_each(|it| writeln!(f, "{it}"))?;
        self.missing.iter().try_for_each(|it| writeln!(f, "{}: failed to {}", it.what, it.reason))
    }
}

impl fmt::Display for CellRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names as they are in the file.
        let name = |it: serde_json::Result<String>| it.unwrap_or_default().trim_matches('"').to_owned();
        let (phase, source) = (name(serde_json::to_string(&self.phase)), name(serde_json::to_string(&self.source)));
        let shape = format!("{:>5} × {:<4}", self.batch, self.extent.to_string());
        write!(f, "{phase:<6} {shape} {:>8}  {source:<12}", self.n_samples)?;
        write!(f, "{:>12} {:>12} ", self.predicted_reserved, self.measured_reserved)?;
        if let Some(Judged { expected, upper, measured }) = self.judged() {
            write!(f, "{expected:>12} {upper:>12} {measured:>12} ")?;
        }
        write!(f, "{:>6.1} ms", self.planning_ms)?;
        if self.violates() { f.write_str("  above its bound") } else { Ok(()) }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(errors) = self.errors {
            writeln!(f, "reserved:     {errors}")?;
        }
        writeln!(f, "all cells:    {}", self.all)?;
        writeln!(f, "unseen cells: {}", self.unseen)?;
        if let Some(AboveResident { error_median, slack_median }) = self.unseen_above_resident {
            let (error, slack) = (100.0 * error_median, 100.0 * slack_median);
            writeln!(f, "  of what the step adds: error median {error:.3} %; slack median {slack:.3} %")?;
        }
        writeln!(f, "planning:     median {:.1} ms, at most {:.1} ms", self.planning_ms.median, self.planning_ms.max)
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { below, equal, within_one_page, more } = self;
        write!(f, "planned below real {below}, equal {equal}, at most a page above {within_one_page}, more {more}")
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| 100.0 * share;
        write!(f, "error median {:.3} %, ", percent(self.error_median))?;
        write!(f, "at most {:.3} %; above the bound {}; ", percent(self.error_max), self.violations)?;
        write!(f, "slack median {:.3} %, mean {:.3} %", percent(self.slack_median), percent(self.slack_mean))
    }
}

impl fmt::Display for MixedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.largest_first { "largest first" } else { "as drawn" };
        let Self { job, device, checkpointing, n_steps, planned_high_water, measured_high_water, .. } = self;
        write!(f, "{job} on {device}{}, {n_steps} mixed steps, {order}: ", recomputing(*checkpointing))?;
        write!(f, "planned {planned_high_water}, ")?;
        write!(f, "real {measured_high_water} ({:+.2} %)", 100.0 * self.error())?;
        if let Some(equal) = self.steps_equal {
            write!(f, ", equal pools after {equal} steps")?;
        }
        if let Some(PartsHeld { n_bounded, n_above, slack_median }) = self.parts {
            write!(
                f,
                ", {n_above} of {n_bounded} parts above their bounds, slack median {:.2} %",
                100.0 * slack_median
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_predict::{Phase, Source};
    use plimsoll_types::Bytes;

    use super::*;

    fn report() -> Report {
        let pooled = CellRow {
            job: "sr".into(),
            device: "vulkan:0".into(),
            checkpointing: false,
            phase: Phase::Train,
            batch: 5,
            extent: 64.into(),
            n_samples: 16,
            source: Source::DryRun,
            predicted_reserved: Bytes::mib(40),
            measured_reserved: Bytes::mib(40),
            predicted_total: Some(Bytes::mib(41)),
            upper_total: Some(Bytes::mib(42)),
            measured_total: Some(Bytes(42_500_000)),
            page: Bytes::mib(2),
            predicted_in_use: None,
            upper_in_use: None,
            measured_in_use: None,
            resident: Bytes::mib(3),
            planning_ms: 12.5,
            step_seconds: 3.25,
        };
        let probed = CellRow {
            device: "flex".into(),
            checkpointing: true,
            phase: Phase::Infer,
            source: Source::Certificate,
            predicted_reserved: Bytes::mib(42),
            measured_reserved: Bytes::mib(43),
            predicted_total: None,
            upper_total: None,
            measured_total: None,
            page: Bytes::ZERO,
            predicted_in_use: Some(Bytes::mib(42)),
            upper_in_use: Some(Bytes::mib(44)),
            measured_in_use: Some(Bytes::mib(43)),
            planning_ms: 0.01,
            ..pooled.clone()
        };
        let (planned_high_water, measured_high_water) = (Bytes::mib(50), Bytes::mib(48));
        let mixed = MixedRow {
            job: "sr".into(),
            device: "vulkan:0".into(),
            checkpointing: false,
            largest_first: true,
            n_steps: 201,
            planned_high_water,
            measured_high_water,
            planned_pools: Some(Bytes::mib(47)),
            measured_pools: Some(Bytes::mib(47)),
            steps_equal: Some(200),
            parts: None,
            seconds: 60.0,
        };
        let missing = Missing { what: "cuda:0".into(), reason: "load the NVIDIA driver".into() };
        let device = Device { device: "vulkan:0".into(), name: "vulkan:0 (card)".into() };
        let parts = Some(PartsHeld { n_bounded: 399, n_above: 3, slack_median: 0.009 });
        let (planned_high_water, measured_high_water) = (Bytes::mib(56), Bytes::mib(50));
        let in_parts = MixedRow {
            device: "flex".into(),
            checkpointing: true,
            planned_high_water,
            measured_high_water,
            planned_pools: None,
            measured_pools: None,
            steps_equal: None,
            parts,
            ..mixed.clone()
        };
        Report::try_new(vec![pooled, probed], vec![mixed, in_parts], vec![device], vec![missing]).unwrap()
    }

    #[test]
    fn the_file_has_the_keys_that_readers_rely_on() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&report()).unwrap());
    }

    #[test]
    fn the_page_shows_every_cell_and_every_sum_and_which_targets_are_missed() {
        insta::assert_snapshot!(report().to_markdown());
    }

    #[test]
    fn what_was_not_measured_is_no_target_that_is_met() {
        let Report { cells, devices, missing, .. } = report();
        let unmixed = Report::try_new(cells, Vec::new(), devices, missing).unwrap();
        let missed = |it: &Report| it.targets.n_missed();
        // Two columns of each of the two jobs, of which one was above by too much and had parts above their bounds.
        assert_eq!((unmixed.targets.n(), missed(&unmixed)), (report().targets.n(), missed(&report()) + 2));
        let (all, none) = (unmixed.targets.to_string(), Report::try_new(vec![], vec![], vec![], vec![]).unwrap());
        assert!(all.contains("**not measured: missed**"), "{all}");
        assert!(none.targets.to_string().ends_with("Nothing was measured.\n"));
    }
}
