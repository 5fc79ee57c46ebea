//! The model of a run, put to use.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use plimsoll_finder::FinderConfig;
use plimsoll_plan::{PlanError, Tried};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_train::{
    BlankForward, CONFIG_FILE, Checkpoint, CheckpointError, Device, HostMemory, TrainError, compute_alone,
    find_inference_batch, open_device, sound_forward,
};
use plimsoll_types::{Bytes, Extent, Fraction, StepShape};

use crate::beat::Beat;
use crate::device::open_probe;
use crate::exit::{UserError, describe, user_error};
use crate::find::{need, shown};
use crate::harness::Harness;
use crate::load::{Given, Layers};
use crate::loading::{held, host_memory};
use crate::settings::Settings;
use crate::values::JobName;
use crate::worker;

/// Reads the settings of a run of one of these jobs; `wanted` says which those are, and what their models do.
pub(crate) fn settings(run: &Path, flags: Vec<Given>, jobs: &[JobName], wanted: &str) -> anyhow::Result<Settings> {
    let layers = Layers { files: vec![run.join(CONFIG_FILE)], flags, ..Layers::default() };
    let settings = layers.load()?.settings;
    if !jobs.contains(&settings.job) {
        return Err(user_error(format!("use the model of {}: it is no run of {wanted}", run.display())).into());
    }
    Ok(settings)
}

/// Opens the device, and loads what a run has trained onto it from the newest checkpoint that is whole, or from the best.
pub(crate) fn open<M>(
    (run, is_best): (&Path, bool),
    harness: &dyn Harness,
    settings: &Settings,
    load: impl FnOnce(&Checkpoint, Device) -> Result<M, CheckpointError>,
) -> anyhow::Result<(Box<dyn Probe>, M)> {
    let _beat = Beat::start("model");
    compute_alone();
    // The probe starts the device, and says what is missing where it cannot.
    let probe = open_probe(harness, settings)?;
    let device = open_device(settings.device()).map_err(|error| user_error(describe(&error)))?;
    let model = load(&checkpoint(run, is_best)?, device).map_err(TrainError::from)?;
    Ok((probe, model))
}

fn checkpoint(run: &Path, is_best: bool) -> anyhow::Result<Checkpoint> {
    let beat = Beat::start("checkpoint");
    let checkpoint = if is_best { Checkpoint::best(run) } else { Checkpoint::of_any(run) };
    let checkpoint = checkpoint.map_err(TrainError::from)?;
    drop(beat);
    for damage in &checkpoint.passed_over {
        eprintln!("warning: passed over a damaged checkpoint: {damage}");
    }
    let step = checkpoint.state.step;
    eprintln!("model       {} after {step} steps", run.display());
    if let Some(best) = Checkpoint::best_step(run).filter(|best| !is_best && *best != step) {
        eprintln!("model       the best in validation was that after {best} steps, which `--best` takes");
    }
    Ok(checkpoint)
}

/// Reads what a run of a job has written beside its checkpoints.
pub(crate) fn file(run: &Path, name: &str, job: JobName) -> Result<String, UserError> {
    let path = run.join(name);
    fs::read_to_string(&path)
        .map_err(|error| user_error(format!("read {}: {error}; a run of `{}` writes it", path.display(), job.word())))
}

/// A forward pass over items of one extent, of which as many are made at a time as fit.
pub(crate) struct Forward<'a> {
    pub(crate) harness: &'a dyn Harness,
    pub(crate) settings: &'a Settings,
    /// Such as `texts`.
    pub(crate) items: &'static str,
    pub(crate) extent: Extent,
    pub(crate) model: &'a dyn BlankForward,
    /// What files take on the host beside the model.
    pub(crate) files: Files,
}

/// What reading and writing files takes on the host at most: nothing, where there are none.
#[derive(Default)]
pub(crate) struct Files {
    /// The file that takes most, and what is done with it.
    pub(crate) what: String,
    pub(crate) needed: Bytes,
}

impl Forward<'_> {
    /// Returns how many at a time fit beside the files: of so many as were asked for as many as are certain to, one at
    /// least, or of all the most that trials show. Meanwhile no process goes above the line.
    pub(crate) fn at_once(&self, asked: Option<u32>, n_items: usize, probe: &mut dyn Probe) -> anyhow::Result<u32> {
        worker::say_refusals();
        probe.draw_line(None)?;
        let held = self.hold_what_files_take(probe)?;
        let beat = Beat::start("sounding");
        let most = u32::try_from(n_items).unwrap_or(u32::MAX).max(1);
        let certain = self.certain(asked.unwrap_or(1).min(most), probe)?;
        drop(beat);
        let at_once = if asked.is_some() { certain } else { self.most(most)? };
        drop(held);
        probe.draw_line(Some(Bytes::MAX))?;
        Ok(at_once)
    }

    /// Refuses files that take too much, and returns memory that is as large as what they take where the model is in the
    /// same.
    fn hold_what_files_take(&self, probe: &dyn Probe) -> anyhow::Result<Vec<u8>> {
        let (Files { what, needed }, is_one) = (&self.files, self.settings.device() == DeviceKind::Flex);
        if *needed == Bytes::ZERO {
            return Ok(Vec::new());
        }
        let all = if is_one { probe.read()?.in_use } else { held() }.saturating_add(*needed);
        let (memory, wanted) = match host_memory(self.settings, probe.capacity()?) {
            HostMemory::Capacity(capacity) => (capacity, "give more with `--capacity`"),
            HostMemory::BesideDevice(memory) => (memory, "the host has no more"),
        };
        if memory < all {
            return Err(user_error(format!("{what} takes {all} in all, of {memory}: {wanted}")).into());
        }
        Ok(if is_one { Vec::with_capacity(usize::try_from(needed.0).unwrap_or(usize::MAX)) } else { Vec::new() })
    }

    fn certain(&self, n: u32, probe: &mut dyn Probe) -> anyhow::Result<u32> {
        let (device, shape) = (self.settings.device(), StepShape::of(n, self.extent));
        let bound = (self.settings.predictor(), self.settings.memory.target);
        match sound_forward(device, shape, bound, probe, self.model) {
            Ok(()) => Ok(n),
            Err(PlanError::OutOfReach { largest: (largest, peak), .. }) if largest.extent() == self.extent => {
                let (fit, items) = (largest.samples, self.items);
                eprintln!(
                    "warning: {n} {items} at a time are not certain to fit: {fit} at a time, which reached {peak}"
                );
                Ok(fit)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn most(&self, n_items: u32) -> anyhow::Result<u32> {
        let finder = FinderConfig {
            extent: self.extent,
            batch_min: 1,
            batch_max: n_items,
            target: self.settings.memory.target,
            // The bound is certain, and the last item alone would be a batch of its own.
            batch_reduction: Fraction::ZERO,
            ..FinderConfig::default()
        };
        let mut probe = open_probe(self.harness, self.settings)?;
        let beat = Beat::start("finding");
        let mut on_tried = |it: &Tried| {
            beat.clear();
            eprintln!("tried       {}", shown(it));
        };
        let found = find_inference_batch(self.settings.device(), finder, &mut *probe, self.model, &mut on_tried)?;
        drop(beat);
        eprintln!("batch       {} found: {}", found.batch, need(&found));
        Ok(found.batch)
    }
}

/// Does something with items of these lengths, `batch` of like length at a time, and in halves again with those that went
/// above the capacity; tells how many are done, the highest peak, and the results so far.
pub(crate) fn in_batches<T: Clone>(
    probe: &mut dyn Probe,
    (items, doing): (&'static str, &'static str),
    (lengths, batch): (&[Extent], u32),
    mut run: impl FnMut(&[usize]) -> anyhow::Result<Vec<T>>,
    mut on_done: impl FnMut(usize, Bytes, &[Option<T>]),
) -> anyhow::Result<Vec<T>> {
    let mut ordered: Vec<_> = (0..lengths.len()).collect();
    ordered.sort_by_key(|at| (lengths[*at].positions(), lengths[*at]));
    let mut results = vec![None; lengths.len()];
    let mut waiting: VecDeque<&[usize]> = ordered.chunks(batch as usize).collect();
    let (beat, mut peak, mut n_done) = (Beat::start(doing), Bytes::ZERO, 0);
    while let Some(chunk) = waiting.pop_front() {
        probe.reset_peak()?;
        beat.at(items, n_done, lengths.len());
        let found = run(chunk)?;
        beat.clear();
        let (now, capacity, n) = (probe.read()?.peak, probe.capacity()?, chunk.len());
        if capacity < now {
            if n == 1 {
                return Err(user_error(format!(
                    "run the model: 1 of the {items} needs {now}, the capacity is {capacity}"
                ))
                .into());
            }
            eprintln!("warning: {n} {items} at a time need {now}, above the capacity of {capacity}: in halves again");
            let (first, second) = chunk.split_at(n / 2);
            waiting.push_front(second);
            waiting.push_front(first);
            continue;
        }
        chunk.iter().zip(found).for_each(|(at, found)| results[*at] = Some(found));
        (peak, n_done) = (peak.max(now), n_done + n);
        on_done(n_done, peak, &results);
    }
    Ok(results.into_iter().flatten().collect())
}
