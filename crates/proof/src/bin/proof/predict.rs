//! Plans against real steps.

use plimsoll_plan::PlannedCell;
use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_proof::plans::{CellRow, Device, Group, Missing, MixedRow, Report, pooled_groups, probed_groups, thin};
use plimsoll_types::Bytes;

use crate::args::Request;
use crate::jobs::edges;
use crate::order::{Cell, Plan, Reply, Steps, Task};
use crate::spawn::Place;
use crate::{Failed, devices, mixed, publish};

/// Real steps that a plan may run: to correct a dry run, or to learn from.
const REAL_STEPS: [u32; 2] = [2, 10];

/// Steps of a cell: the first one makes the optimizer's state, and threads and buffers that stay.
const STEPS_OF_A_CELL: usize = 3;

/// `proof predict`.
pub(crate) fn command(request: &Request) -> Result<(), Failed> {
    let (places, missing) = devices::at_hand(&request.devices, request.data.as_deref(), None);
    let mut proof = Proof { missing, ..Proof::default() };
    for place in &places {
        for (job, checkpointing) in request.jobs.iter().flat_map(|job| [(*job, false), (*job, true)]) {
            let place = Place { job, checkpointing, ..place.clone() };
            proof.prove(&place, request.cells);
            proof.mix(&place);
        }
    }
    let report = proof.finish()?;
    let page = request.out.with_extension("md");
    publish::publish(&request.out, &serde_json::to_string_pretty(&report)?)?;
    publish::publish(&page, &report.to_markdown())?;
    println!("{report}\n{}\n{}\n{}", report.targets, request.out.display(), page.display());
    match report.targets.n_missed() {
        0 => Ok(()),
        missed => Err(format!("meet {missed} of {} targets: the table above says which", report.targets.n()).into()),
    }
}

/// What has been compared so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proof {
    cells: Vec<CellRow>,
    mixed: Vec<MixedRow>,
    devices: Vec<Device>,
    missing: Vec<Missing>,
    first_plan: Option<(Group, Plan)>,
}

impl Proof {
    /// Plans and runs the cells of a job on a device; what fails is noted as missing.
    pub(crate) fn prove(&mut self, place: &Place, n_cells: usize) {
        let (groups, real_steps) = match place.device {
            DeviceKind::Flex => (probed_groups(edges(place.job)), REAL_STEPS[1]),
            DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => (pooled_groups(edges(place.job)), REAL_STEPS[0]),
        };
        let device = Device { device: place.device.to_string(), name: place.name.clone() };
        if !self.devices.contains(&device) {
            self.devices.push(device);
        }
        for group in thin(&groups, n_cells) {
            let n_samples = group.effective_batch_size;
            let what = format!("{} on {}: a plan of steps of {n_samples} samples", place.job, place.name);
            let Some(plan) = self.noted(&what, plan(place, &group, real_steps)) else { continue };
            for (cell, planning_ms) in plan.cells.iter().zip(&plan.planning_ms) {
                let what = format!("{} on {}: {:?} {}", place.job, place.name, cell.phase, cell.shape());
                let row = row(place, &group, &plan, cell, *planning_ms);
                if let Some(row) = self.noted(&what, row) {
                    eprintln!("{row}");
                    self.cells.push(row);
                }
            }
            self.first_plan.get_or_insert((group, plan));
        }
    }

    /// Sums up.
    pub(crate) fn finish(self) -> Result<Report, Failed> {
        Ok(Report::try_new(self.cells, self.mixed, self.devices, self.missing)?)
    }

    /// Plans and runs mixed shapes, with what the first plan of the same place has shown.
    pub(crate) fn mix(&mut self, place: &Place) {
        let Some((group, plan)) = self.first_plan.take() else { return };
        let rows = match place.device {
            DeviceKind::Flex => mixed::probed_row(place, &plan, group.largest()).map(|row| vec![row]),
            DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => mixed::rows(place, &plan.training),
        };
        let what = format!("{} on {}: a run of mixed shapes", place.job, place.name);
        let rows = self.noted(&what, rows).unwrap_or_default();
        self.mixed.extend(rows.into_iter().inspect(|row| eprintln!("{row}")));
    }

    fn noted<T>(&mut self, what: &str, result: Result<T, Failed>) -> Option<T> {
        let missing = |error: &Failed| Missing { what: what.to_owned(), reason: error.to_string() };
        result.inspect_err(|error| self.missing.push(missing(error))).ok()
    }
}

/// What several have compared, in one.
impl FromIterator<Self> for Proof {
    fn from_iter<I: IntoIterator<Item = Self>>(proofs: I) -> Self {
        proofs.into_iter().fold(Self::default(), |mut all, it| {
            all.cells.extend(it.cells);
            all.mixed.extend(it.mixed);
            all.missing.extend(it.missing);
            let unseen: Vec<_> = it.devices.into_iter().filter(|device| !all.devices.contains(device)).collect();
            all.devices.extend(unseen);
            all
        })
    }
}

fn plan(place: &Place, group: &Group, max_real_steps: u32) -> Result<Plan, Failed> {
    match place.ask(Task::Plan { group: group.clone(), max_real_steps })? {
        Reply::Plan(plan) => Ok(plan),
        _ => Err("get a plan".into()),
    }
}

/// Runs a planned cell in a fresh process.
fn row(place: &Place, group: &Group, plan: &Plan, cell: &PlannedCell, planning_ms: f64) -> Result<CellRow, Failed> {
    let (phase, shape) = (cell.phase, cell.shape());
    let n_samples = if phase == Phase::Train { group.effective_batch_size } else { shape.samples };
    let steps = Steps { phase, shape, n_samples, count: STEPS_OF_A_CELL, largest: Some(group.largest()) };
    let Reply::Cell(real) = place.ask(Task::Cell(steps))? else { return Err("get a step".into()) };
    let correction = if phase == Phase::Train { &plan.training } else { &plan.inference };
    let Cell { resident, reserved, peak, seconds, pools } = real;
    let (predicted_reserved, measured_reserved) = match &pools {
        Some(pools) => (cell.reserved.saturating_sub(correction.auxiliary), pools.reserved),
        None => (cell.reserved, peak),
    };
    let total = |of: Bytes| pools.is_some().then_some(of);
    Ok(CellRow {
        job: place.job.to_owned(),
        device: place.device.to_string(),
        checkpointing: place.checkpointing,
        phase,
        batch: cell.batch,
        extent: cell.extent,
        n_samples,
        source: cell.source,
        predicted_reserved,
        measured_reserved,
        predicted_total: total(cell.reserved),
        upper_total: total(cell.upper),
        measured_total: total(reserved),
        page: cell.page,
        resident,
        predicted_in_use: cell.in_use,
        upper_in_use: cell.upper_in_use,
        measured_in_use: cell.in_use.map(|_| peak),
        planning_ms,
        step_seconds: seconds,
    })
}
