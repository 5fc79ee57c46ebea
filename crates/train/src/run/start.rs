//! Before the first step of a run, or of the rest of one.

use burn::optim::AdamConfig;
use plimsoll_policy::CapacityWatch;
use plimsoll_step::{GuardedStep, TrainState};
use plimsoll_types::{Budget, Bytes, Event, RunStarted, SCHEMA_VERSION};

use super::guess::read_budget;
use super::{Run, Unfit, wanted};
use crate::balance::TaskBalance;
use crate::checkpoint::{Checkpoint, remove_after};
use crate::config::FitConfig;
use crate::controller::Controller;
use crate::error::TrainError;
use crate::fit::Shell;
use crate::incidents::Incidents;
use crate::job::Job;
use crate::loader::Loader;
use crate::meter::Meter;
use crate::recorder::Recorder;
use crate::run_dir::{CONFIG_FILE, Existing, Why};
use crate::stopwatch::Stopwatch;
use crate::validation::ValidationState;

impl<'a, J: Job> Run<'a, J> {
    /// Prepares everything, buffers included, before what is resident is read; then logs the start, or goes back to the
    /// last checkpoint.
    pub(crate) fn start(job: &'a J, config: &'a FitConfig, shell: Shell<'a>) -> Result<Self, TrainError> {
        let (existing, config_text, death) = (shell.existing, shell.config_text, shell.death.clone());
        let goes_on = existing == Existing::Resume && Checkpoint::is_any(shell.run_dir.path());
        let mut run = Self::untrained(job, config, shell)?;
        let before = run.dir.last_undone()?;
        let undone = match existing {
            Existing::Resume if goes_on => run.return_to_last()?,
            Existing::Resume => run.return_to_nothing()?,
            Existing::Refuse | Existing::Overwrite => Vec::new(),
        };
        run.check_room()?;
        run.dir.write(CONFIG_FILE, config_text.as_bytes())?;
        let undone_steps = undone.iter().filter(|it| matches!(it, Event::StepDone(_))).count() as u64;
        let why = match (&death, existing) {
            (Some(death), _) => Why::AfterDeath { death: death.what.clone() },
            (None, Existing::Resume) => Why::Resumed { death: unlogged_end(&undone, before.as_ref(), run.step) },
            (None, Existing::Refuse | Existing::Overwrite) => Why::Started,
        };
        run.dir.note_process(run.step, why, undone_steps)?;
        if goes_on {
            // There may be more or less memory than there was.
            run.follow_budget()?;
            run.name_left_out();
            run.name_other_validation();
            run.catch_up()?;
        } else {
            // There may have been too little for what is resident.
            run.budget = read_budget(&run.guarded, config, run.guess)?;
            run.log_head()?;
            // What does not fit into a validation then shows before anything is trained.
            run.between_steps()?;
        }
        death.iter().try_for_each(|it| run.log_death(it))?;
        Ok(run)
    }

    fn untrained(job: &'a J, config: &'a FitConfig, shell: Shell<'a>) -> Result<Self, TrainError> {
        let Shell { run_dir, device, probe, observer, watching, warn, stop, death, plan_sparing, .. } = shell;
        // A deterministic run takes nothing from readings, nor from what others read.
        let guess = death.and_then(|it| it.capacity).filter(|_| !config.deterministic);
        device.seed(config.seed);
        let (model, optimizer) = (job.init(&device), AdamConfig::new().init());
        let balance = TaskBalance::try_new(&config.tasks, job.tasks().len())?;
        balance.check(job.task_probes(&model).len())?;
        let controller = Controller::try_new(config.controller.with_features(job.features()))?;
        let loader = Loader::try_new(&job.source(), None, &wanted(&controller), &config.loader)?;
        let (guarded, incidents) = (GuardedStep::new(probe, device.clone()), Incidents::of(run_dir.path()));
        let budget = read_budget(&guarded, config, guess)?;
        Ok(Self {
            job,
            config,
            dir: run_dir,
            observer,
            watching,
            warn,
            plan_sparing,
            device,
            guarded,
            loader,
            state: TrainState::new(model, optimizer),
            recorder: Recorder::new(controller.clone()),
            incidents,
            under_way: Vec::new(),
            guess,
            unfit: config.longest.train.map(|edge| Unfit::beyond(edge, budget.budget)),
            unfit_items: config.longest.validation.map(|edge| Unfit::beyond(edge, budget.budget)),
            recovered: None,
            n_recoveries: 0,
            meter: Meter::new(0, config, controller.policy().knobs(), budget.budget, job.unit_of_length()),
            controller,
            balance,
            stopwatch: Stopwatch::with_capacity(usize::try_from(config.n_steps).unwrap_or(0)),
            budget,
            watch: CapacityWatch::default(),
            step: 0,
            epoch_samples: 0,
            saved_step: None,
            validated: false,
            is_broken_off: false,
            validation: ValidationState::default(),
            best: None,
            seconds_before: 0.0,
            stop,
        })
    }

    /// Begins again with a run that was killed before its first checkpoint.
    fn return_to_nothing(&mut self) -> Result<Vec<Event>, TrainError> {
        (self.warn)(&format!("{} holds no checkpoint: the run begins again", self.dir.path().display()));
        remove_after(self.dir.path(), None)?;
        Ok(self.dir.undo_after(0)?)
    }

    fn log_head(&mut self) -> Result<(), TrainError> {
        let controller = serde_json::to_string(&self.config.controller.with_features(self.job.features()));
        let controller = controller.map_err(|error| TrainError::Head(error.to_string()))?;
        self.log(&[Event::RunStarted(RunStarted {
            schema_version: SCHEMA_VERSION,
            job: self.job.name().to_owned(),
            device: self.config.device.clone(),
            seed: self.config.seed,
            effective_batch_size: self.config.loader.effective_batch_size,
            n_steps: self.config.n_steps,
            tasks: self.job.tasks().to_vec(),
            unit_of_length: self.job.unit_of_length().to_owned(),
            knobs: self.controller.policy().knobs(),
            budget: self.budget,
            controller,
        })])
    }

    /// Refuses a capacity that what is resident fills already.
    fn check_room(&mut self) -> Result<(), TrainError> {
        let step = self.step;
        let resident = self.guarded.read().map_err(|source| TrainError::Step { step, source })?.in_use;
        let Budget { capacity, budget } = read_budget(&self.guarded, self.config, self.guess)?;
        if resident < budget {
            return Ok(());
        }
        if self.raise_guess()? {
            return self.check_room();
        }
        let target = self.config.target.get();
        let needed = Bytes::from_f64_ceil(resident.as_f64() / target);
        Err(TrainError::CapacityTooSmall { resident, budget, target, capacity, needed })
    }
}

/// Says how a process ended that nobody watched, by what it logged after its last checkpoint: one that ends in order logs
/// its end.
///
/// Where nothing is undone, a process that was refused before it did anything may have undone that end: it is the last
/// that was undone `before`, at the `step` where the run goes on.
fn unlogged_end(undone: &[Event], before: Option<&Event>, step: u64) -> Option<String> {
    let is_end = |it: &Event| matches!(it, Event::RunEnded(end) if !undone.is_empty() || end.step == step);
    if undone.last().or(before).is_some_and(is_end) {
        return None;
    }
    let last = undone.iter().rev().find_map(|it| if let Event::StepDone(it) = it { Some(it.step) } else { None });
    let place = last.map_or("before its next step".to_owned(), |step| format!("after step {step}"));
    Some(format!("ended {place}; nothing says of what"))
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{CheckpointSaved, EndReason, RunEnded};

    use super::*;

    #[test]
    fn a_process_that_did_not_log_its_end_has_died() {
        let saved = Event::CheckpointSaved(CheckpointSaved { step: 8, path: "checkpoints/step-00000008".to_owned() });
        let ended = Event::RunEnded(RunEnded { step: 8, reason: EndReason::Interrupted, seconds: 1.0 });
        let died = Some("ended before its next step; nothing says of what".to_owned());
        assert_eq!(unlogged_end(std::slice::from_ref(&saved), None, 8), died);
        assert_eq!(unlogged_end(&[saved.clone(), ended.clone()], None, 8), None);
        // It died right after its checkpoint, perhaps after one that had ended in order.
        assert_eq!(unlogged_end(&[], Some(&saved), 12), died);
        assert_eq!(unlogged_end(&[], Some(&ended), 12), died);
        // Another one was refused before it did anything.
        assert_eq!(unlogged_end(&[], Some(&ended), 8), None);
    }
}
