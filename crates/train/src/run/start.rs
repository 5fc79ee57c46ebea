//! Before the first step of a run, or of the rest of one.

use plimsoll_sampler::Worked;
use plimsoll_types::{Budget, Bytes, Event, RunStarted, SCHEMA_VERSION, StepDone};

use super::control::Control;
use super::feed::Feed;
use super::journal::{Journal, Listeners};
use super::standing::Standing;
use super::training::Training;
use super::validations::Validations;
use super::{Run, ranks};
use crate::balance::TaskBalance;
use crate::checkpoint::Checkpoint;
use crate::config::FitConfig;
use crate::error::TrainError;
use crate::fit::Shell;
use crate::job::Job;
use crate::resume::Kept;
use crate::run_dir::{CONFIG_FILE, Existing, Why};
use crate::source::Source;

impl<'j, 's, J: Job> Run<'j, 's, J> {
    /// Prepares everything, buffers included, before what is resident is read; then logs the start, or goes back to the
    /// last checkpoint.
    pub(crate) fn start(job: &'j J, config: &'j FitConfig, shell: Shell<'s>) -> Result<Self, TrainError> {
        let (existing, config_text, mut death) = (shell.existing, shell.config_text, shell.death.clone());
        let goes_on = existing == Existing::Resume && Checkpoint::is_any(shell.run_dir.root());
        let mut run = Self::untrained(job, config, shell)?;
        let before = run.journal.last_undone()?;
        let first = if run.is_first() { None } else { Some(run.wait_for_first()?) };
        let goes_on = first.map_or(goes_on, |it| it.is_some());
        let undone = match (existing, first.flatten()) {
            (_, Some(step)) => run.return_to(step)?,
            (Existing::Resume, None) if goes_on => run.return_to_last()?,
            (Existing::Resume, None) => run.return_to_nothing()?,
            (Existing::Refuse | Existing::Overwrite, None) => Vec::new(),
        };
        if run.is_first() {
            run.leave_no_others(goes_on)?;
            run.say_where(goes_on)?;
        }
        run.check_room()?;
        run.journal.write(CONFIG_FILE, config_text)?;
        let rank = run.training.rank();
        if death.as_ref().is_some_and(|it| it.is_unexplained && !it.of_memory)
            && let Some(machine) = run.journal.lacked_memory(rank)
        {
            death = death.map(|it| it.of_own_memory(rank, machine, last_step(&undone).map(|it| it.rung)));
        }
        let undone_steps = undone.iter().filter(|it| matches!(it, Event::StepDone(_))).count() as u64;
        let why = match (&death, existing) {
            (Some(death), _) => Why::AfterDeath { death: death.what.clone() },
            (None, Existing::Resume) => Why::Resumed { death: unlogged_end(&undone, before.as_ref(), run.step()) },
            (None, Existing::Refuse | Existing::Overwrite) => Why::Started,
        };
        run.journal.note_process(run.step(), why, undone_steps)?;
        run.take_over()?;
        if goes_on { run.go_on() } else { run.begin() }?;
        death.iter().try_for_each(|it| run.log_death(it))?;
        Ok(run)
    }

    /// Goes on from a checkpoint, perhaps with other settings and other memory.
    fn go_on(&mut self) -> Result<(), TrainError> {
        // There may be more or less memory than there was.
        self.follow_budget()?;
        if let Some(which) = self.feed.left_out(self.control.budget().budget) {
            self.journal.warn(&format!("left out as before, until there is more memory: {which}"));
        }
        if let Some(change) = self.validations.change(self.config) {
            self.journal.warn(&change);
        }
        self.catch_up()
    }

    /// Begins with the first step.
    fn begin(&mut self) -> Result<(), TrainError> {
        // There may have been too little for what is resident.
        self.control.read_anew(self.training.probe())?;
        self.log_head()?;
        // What does not fit into a validation then shows before anything is trained.
        self.between_steps()
    }

    fn untrained(job: &'j J, config: &'j FitConfig, shell: Shell<'s>) -> Result<Self, TrainError> {
        let Shell { run_dir, device, probe, observer, watching, warn, stop, death, plan_sparing, fleet, .. } = shell;
        device.seed(config.seed);
        let model = job.init(&device);
        let balance = TaskBalance::try_new(&config.tasks, job.tasks().len())?;
        balance.check(job.task_probes(&model).len())?;
        let rank = fleet.rank();
        let own = death.filter(|it| it.rank.is_none_or(|it| it == rank));
        let guess = own.and_then(|it| it.capacity);
        let mut control = Control::try_new(config, job.features(), guess, plan_sparing)?;
        let kept = Kept::of(job, config, &balance);
        let (state, measured) = ((model, job.optimizer().on(&device)), (probe, fleet));
        let training = Training::try_new(state, device, measured, balance, config);
        let mut training = training.map_err(|source| TrainError::Step { step: 0, source })?;
        let (agreed, buffer_limit) = ranks::agree_before_start(training.team(), (job, &kept), config, &control)?;
        let wanted = agreed.as_ref().map_or_else(|| control.wanted(), |it| it.wanted.clone());
        let mut feed = Feed::try_new(job.source(), config, &wanted, buffer_limit)?;
        control.read_anew(training.probe())?;
        let budget = control.budget().budget;
        feed.leave_out_known(budget);
        let (listeners, about) = (Listeners { observer, watching, warn }, (control.controller(), budget));
        Ok(Self {
            kept,
            root: run_dir.root().to_owned(),
            journal: Journal::new(run_dir, listeners, config, about, job.unit_of_length()),
            training,
            validations: Validations::new(config, budget),
            standing: Standing::default(),
            agreed,
            worked: Worked::default(),
            ended: None,
            job,
            config,
            stop,
            feed,
            control,
        })
    }

    fn log_head(&mut self) -> Result<(), TrainError> {
        let controller = serde_json::to_string(&self.config.controller.with_features(self.job.features()));
        let controller = controller.map_err(|error| TrainError::Head(error.to_string()))?;
        Ok(self.journal.log(&[Event::RunStarted(RunStarted {
            schema_version: SCHEMA_VERSION,
            job: self.job.name().to_owned(),
            device: self.config.device.clone(),
            seed: self.config.seed,
            effective_batch_size: self.config.loader.effective_batch_size,
            n_steps: self.config.n_steps,
            tasks: self.job.tasks().to_vec(),
            sources: self.job.source().sources().to_vec(),
            unit_of_length: self.job.unit_of_length().to_owned(),
            planned_padding: self.feed.planned_padding(),
            knobs: self.control.knobs(),
            budget: self.control.budget(),
            controller,
        })])?)
    }

    /// Refuses a capacity that what is resident fills already.
    fn check_room(&mut self) -> Result<(), TrainError> {
        let resident = self.training.in_use().map_err(|it| self.failed(it))?;
        let Budget { capacity, budget } = self.control.read(self.training.probe())?;
        if resident < budget {
            return Ok(());
        }
        if self.control.may_raise(self.training.probe())? {
            self.control.raise_guess();
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
    let place = last_step(undone).map_or("before its next step".to_owned(), |it| format!("after step {}", it.step));
    Some(format!("ended {place}; nothing says of what"))
}

fn last_step(undone: &[Event]) -> Option<&StepDone> {
    undone.iter().rev().find_map(|it| if let Event::StepDone(it) = it { Some(it) } else { None })
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
