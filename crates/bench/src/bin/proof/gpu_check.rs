//! Everything that a GPU can be asked within nine minutes.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use plimsoll_bench::proof::{Figure, GpuReport, Missing, utc_date};
use plimsoll_probe::{DeviceKind, nvidia};
use plimsoll_types::StepShape;

use crate::order::{Reply, Task};
use crate::predict::Proof;
use crate::spawn::Place;
use crate::{Failed, devices, finder, publish};

/// Less than the nine minutes that the check may take: a process is ended when its time is up.
const WHOLE: Duration = Duration::from_secs(8 * 60 + 30);

/// The part of that after which plans and steps give way to the finder.
const PLANS: Duration = Duration::from_mins(6);

/// Cells on a software device, and on Flex, and no mixed runs: `proof predict` has the time for all of them.
const FEW_CELLS: usize = 10;

/// A step that takes several pages.
const WATCHED: StepShape = StepShape::new(16, 32);

/// `proof gpu-check`.
pub(crate) fn command(folder: &Path) -> Result<(), Failed> {
    let start = Instant::now();
    let (place, instead_of_a_gpu, missing) = choose(start + WHOLE)?;
    let n_cells = if instead_of_a_gpu.is_some() { FEW_CELLS } else { usize::MAX };
    let mut left_out = Vec::new();
    let mut note = |what: &str, error: &Failed| left_out.push(format!("{what}: failed to {error}"));

    let memory = memory(&place).inspect_err(|error| note("memory", error)).unwrap_or_default();
    let mut proof = Proof::default();
    let until = Place { end: Some(start + PLANS), ..place.clone() };
    proof.prove(&until, n_cells);
    if instead_of_a_gpu.is_none() {
        proof.mix(&until);
    }
    let mut predict = proof.finish()?;
    predict.missing.extend(missing);
    let finder = finder::on_device(&place).inspect_err(|error| note("the finder", error)).into_iter().collect();

    let seconds = start.elapsed().as_secs_f64();
    let (driver, date) = (nvidia::device(0).ok().and_then(|it| it.driver), today());
    let device = place.name;
    let report = GpuReport { date, device, driver, instead_of_a_gpu, memory, predict, finder, left_out, seconds };
    publish::publish(&folder.join("gpu-check.json"), &serde_json::to_string_pretty(&report)?)?;
    publish::publish(&folder.join("gpu-check.md"), &report.to_string())?;
    println!("{report}\n{}", folder.join("gpu-check.md").display());
    Ok(())
}

/// Returns the best device at hand, and what it stands in for where it is no GPU.
fn choose(end: Instant) -> Result<(Place, Option<String>, Vec<Missing>), Failed> {
    let all = [DeviceKind::Cuda(0), DeviceKind::Vulkan(0), DeviceKind::Flex];
    let (places, missing) = devices::at_hand(&all, None, Some(end));
    let place = places.into_iter().next().ok_or("open any device")?;
    let whys: Vec<_> = missing.iter().map(|it| format!("failed to {}", it.reason)).collect();
    let instead = |what: &str| Some(format!("{what}, with fewer cells and no mixed run ({})", whys.join("; ")));
    let instead = match place.device {
        DeviceKind::Flex => instead("the CPU stands in"),
        _ if devices::is_software(&place) => instead("a software Vulkan device stands in"),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => None,
    };
    Ok((place, instead, missing))
}

fn memory(place: &Place) -> Result<Vec<Figure>, Failed> {
    match place.ask(Task::Memory { shape: WATCHED })? {
        Reply::Memory(figures) => Ok(figures),
        _ => Err("read memory".into()),
    }
}

fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    utc_date(since.as_secs())
}
