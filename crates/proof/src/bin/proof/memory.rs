//! Memory, as every observer sees it.

use plimsoll_plan::RealSteps;
use plimsoll_predict::Keys;
use plimsoll_probe::{DeviceKind, Probe, nvidia, open};
use plimsoll_proof::plans::Figure;
use plimsoll_train::{Job, Trials, open_device};
use plimsoll_types::{Bytes, StepShape};

use crate::Failed;
use crate::jobs::OnJob;
use crate::order::Reply;

/// A step that is watched.
pub(crate) struct Watched {
    pub(crate) device: DeviceKind,
    pub(crate) shape: StepShape,
}

impl OnJob for Watched {
    type Out = Reply;

    fn run<J: Job>(self, job: &J) -> Result<Reply, Failed> {
        let mut probe = open(self.device, None)?;
        let mut figures = vec![];
        let before = self.read("before the first step", &*probe, &mut figures)?;
        let mut trials = Trials::try_new(job, open_device(self.device)?, Keys::default(), open(self.device, None)?)?;
        trials.train(self.shape, self.shape.samples)?;
        let when = format!("after a step of {}", self.shape);
        let after = self.read(&when, &*probe, &mut figures)?;
        figures.push(difference(&when, before, after));
        drop(trials);
        probe.cleanup()?;
        self.read("after a cleanup", &*probe, &mut figures)?;
        Ok(Reply::Memory(figures))
    }
}

/// What is reserved, and what the driver has free, where it says so.
type Reading = (Bytes, Option<Bytes>);

impl Watched {
    fn read(&self, when: &str, probe: &dyn Probe, figures: &mut Vec<Figure>) -> Result<Reading, Failed> {
        let reading = probe.read()?;
        let report = if self.device == DeviceKind::Flex { "counted heap" } else { "CubeCL's report" };
        let capacity = probe.capacity().map_or_else(|error| format!("failed to {error}"), |it| it.to_string());
        let mut note = |observer: &str, quantity: &str, answer: String| {
            let (when, observer, quantity) = (when.to_owned(), observer.to_owned(), quantity.to_owned());
            figures.push(Figure { when, observer, quantity, answer });
        };
        note(report, "in use", reading.in_use.to_string());
        note(report, "reserved", reading.reserved.to_string());
        note("the probe", "capacity", capacity);
        let driver = nvidia::device(0);
        let free = driver.as_ref().ok().map(|it| it.free);
        match driver {
            Ok(it) => {
                note("cuMemGetInfo", "free", it.free.to_string());
                note("cuMemGetInfo", "total", it.total.to_string());
                let others = it.other_processes.map_or("not known".to_owned(), |it| it.to_string());
                note("NVML", "held by other processes", others);
                note("NVML", "driver", it.driver.unwrap_or("not known".to_owned()));
            }
            Err(error) => note("cuMemGetInfo and NVML", "everything", format!("failed to {error}")),
        }
        Ok((reading.reserved, free))
    }
}

/// Compares what the allocator took with what the driver has less.
fn difference(when: &str, before: Reading, after: Reading) -> Figure {
    let taken = after.0.saturating_sub(before.0);
    let gone = before.1.zip(after.1).map(|(before, after)| before.saturating_sub(after));
    let answer = match gone {
        Some(gone) => {
            format!("{taken} reserved, {gone} less free: the driver took {} more", gone.saturating_sub(taken))
        }
        None => format!("{taken} reserved; no driver says what is free"),
    };
    let quantity = "growth since the first reading".to_owned();
    Figure { when: when.to_owned(), observer: "both".to_owned(), quantity, answer }
}
