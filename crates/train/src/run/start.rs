//! Before the first step of a run, or of the rest of one.

use burn::optim::AdamConfig;
use plimsoll_types::{Budget, BudgetChanged, Bytes, Event, RunResumed, RunStarted, SCHEMA_VERSION};

use super::{Run, fingerprint, read_budget, wanted};
use crate::balance::TaskBalance;
use crate::checkpoint::Checkpoint;
use crate::config::FitConfig;
use crate::controller::Controller;
use crate::error::TrainError;
use crate::fit::Shell;
use crate::job::Job;
use crate::loader::Loader;
use crate::meter::Meter;
use crate::recorder::Recorder;
use crate::resume;
use crate::run_dir::{CONFIG_FILE, Existing};
use crate::step::GuardedStep;
use crate::stopwatch::Stopwatch;

impl<'a, J: Job> Run<'a, J> {
    /// Prepares everything, buffers included, before what is resident is read; then logs the start.
    pub(crate) fn start(job: &'a J, config: &'a FitConfig, shell: Shell<'a>) -> Result<Self, TrainError> {
        let Shell { run_dir, existing, device, probe, observer, stop, config_text } = shell;
        let source = job.source();
        let (mut checkpoint, mut last_budget) = (None, None);
        if existing == Existing::Resume {
            last_budget = Some(resume::check(&run_dir.events()?, config)?);
            checkpoint = Some(Checkpoint::last(run_dir.path(), &fingerprint(job, config))?);
        }
        device.seed(config.seed);
        let (mut model, mut optimizer) = (job.init(&device), AdamConfig::new().init());
        let mut balance = TaskBalance::try_new(&config.tasks, job.tasks().len())?;
        balance.check(job.task_probes(&model).len())?;
        let mut position = None;
        let mut controller = Controller::try_new(config.controller.clone())?;
        let (mut step, mut epoch_samples, mut seconds_before) = (0, 0, 0.0);
        if let Some(checkpoint) = checkpoint {
            (model, optimizer) = checkpoint.load(model, optimizer)?;
            let state = checkpoint.state;
            resume::check_balance(&state.balance, &balance)?;
            (controller, step, seconds_before) = (state.controller, state.step, state.seconds);
            epoch_samples = state.epoch_samples;
            (position, balance) = (Some(state.position), state.balance);
        }
        let loader = Loader::try_new(&source, position, &wanted(&controller), &config.loader)?;
        let stopwatch = Stopwatch::with_capacity(usize::try_from(config.n_steps).unwrap_or(0));
        let guarded = GuardedStep::new(probe, device.clone());
        let budget = read_budget(&guarded, config)?;
        let meter = Meter::new(step, config.n_steps, controller.policy().knobs(), budget.budget);
        let mut run = Self {
            job,
            config,
            dir: run_dir,
            observer,
            device,
            guarded,
            loader,
            model: Some(model),
            optimizer,
            recorder: Recorder::new(controller.clone()),
            under_way: Vec::new(),
            controller,
            balance,
            stopwatch,
            meter,
            budget,
            step,
            epoch_samples,
            saved_step: None,
            seconds_before,
            stop,
        };
        run.check_room()?;
        run.dir.write(CONFIG_FILE, config_text.as_bytes())?;
        match last_budget {
            Some(last) => run.log_resume(last)?,
            None => run.log_start()?,
        }
        Ok(run)
    }

    /// Logs the head, and validates the untrained model: what does not fit then shows before anything is trained.
    fn log_start(&mut self) -> Result<(), TrainError> {
        let controller = serde_json::to_string(&self.config.controller);
        let controller = controller.map_err(|error| TrainError::Head(error.to_string()))?;
        self.log(&[Event::RunStarted(RunStarted {
            schema_version: SCHEMA_VERSION,
            job: self.job.name().to_owned(),
            device: self.config.device.clone(),
            seed: self.config.seed,
            effective_batch_size: self.config.loader.effective_batch_size,
            n_steps: self.config.n_steps,
            tasks: self.job.tasks().to_vec(),
            knobs: self.controller.policy().knobs(),
            budget: self.budget,
            controller,
        })])?;
        self.validate()
    }

    /// Logs that the run goes on, and tells the policy when there is more or less memory than there was.
    fn log_resume(&mut self, last: Budget) -> Result<(), TrainError> {
        self.log(&[Event::RunResumed(RunResumed { step: self.step })])?;
        if last == self.budget {
            return Ok(());
        }
        self.answer(Event::BudgetChanged(BudgetChanged { step: self.step, budget: self.budget }))
    }

    /// Refuses a capacity that what is resident fills already.
    fn check_room(&self) -> Result<(), TrainError> {
        let step = self.step;
        let resident = self.guarded.read().map_err(|source| TrainError::Step { step, source })?.in_use;
        let Budget { capacity, budget } = self.budget;
        if resident < budget {
            return Ok(());
        }
        let target = self.config.target.get();
        let needed = Bytes::from_f64_ceil(resident.as_f64() / target);
        Err(TrainError::CapacityTooSmall { resident, budget, target, capacity, needed })
    }
}
