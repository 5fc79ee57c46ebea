//! The steps of a program, one after the other.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsParams;
use plimsoll_guard::{Happened, Means, Now, Obstacle};
use plimsoll_types::{Attempt, Budget, Bytes, Fraction, MemoryReading, StepShape};

use crate::commit::Commit;
use crate::elsewhere::Elsewhere;
use crate::error::StepError;
use crate::gradients::gradient_bytes;
use crate::guarded::GuardedStep;
use crate::outcome::StepOutcome;
use crate::passes::PredictShape;
use crate::program::{ProgramNeeds, Room, Shown};
use crate::recovery::OptimizerRecovery;
use crate::replicas::Replicas;
use crate::request::{Rescale, StepPart, StepRequest};
use crate::rules::{SettingError, StepRules};

/// Runs the steps of a program in as few parts as are certain to fit, and learns from each what later ones will need.
///
/// A step is [attempted](Self::attempt), [committed](Self::commit), and [learnt from](Self::learn).
/// Before anything is known, some of its longest samples run forward and backward, and what they need is all that is taken
/// from them.
pub struct ProgramSteps {
    guarded: GuardedStep,
    needs: ProgramNeeds,
    rules: StepRules,
    target: Fraction,
    /// The capacity, and when it was read.
    capacity: Option<(Instant, Bytes)>,
    /// Whether the optimizer has made what its later steps find.
    has_stepped: bool,
    /// Whether it is known whether forward passes change the model.
    has_looked: bool,
}

/// How long a reading of the capacity stands: it costs 50 µs on Linux, which shows in steps of a few milliseconds.
const CAPACITY_AGE: Duration = Duration::from_millis(50);

/// A step that is to be run.
#[derive(Clone, Copy)]
pub struct NextStep<'a> {
    /// Its number, of which its seed is made: one that comes again has failed before.
    pub number: u64,
    /// The length of each sample, the longest first; one sample at least.
    pub lengths: &'a [u32],
    /// What each sample counts in the mean that the losses are; `None` for what the rules say.
    pub units: Option<&'a [u64]>,
    /// What its losses are multiplied by, where they are.
    pub loss_scale: Option<f64>,
    /// Whether its batch is there already, so that it runs at once, and only once, or not at all.
    pub is_whole: bool,
    /// What it may be divided between.
    pub replicas: Option<&'a Replicas>,
}

/// Runs the passes of a request; what they bring beside gradients is kept until the optimizer has stepped.
pub type RunPasses<'a, T, E> =
    &'a mut dyn FnMut(&mut GuardedStep, &StepRequest, PredictShape<'_>) -> Result<(StepOutcome, T), Stopped<E>>;

/// Why a step is not ready for the optimizer.
#[derive(Debug)]
pub enum Stopped<E = Infallible> {
    /// It did not happen.
    Step(StepError),
    /// Its passes failed in a way of their own.
    Passes(E),
}

impl<E> From<StepError> for Stopped<E> {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}

/// A step that is ready for the optimizer.
pub struct Ran<T> {
    /// What it was asked to do.
    pub request: StepRequest,
    /// What it came to.
    pub outcome: StepOutcome,
    /// What its passes have brought beside gradients.
    pub brought: T,
    /// Whether forward passes change the model, where the step ran in several parts and no earlier one has said so.
    pub changes_statistics: bool,
    number: u64,
    may_run_again: bool,
    /// Bytes of what was brought.
    held: Bytes,
}

impl ProgramSteps {
    /// Runs the steps of a program by these rules.
    ///
    /// # Errors
    ///
    /// [`SettingError`] for rules that make no sense.
    pub fn try_new(guarded: GuardedStep, needs: ProgramNeeds, rules: StepRules) -> Result<Self, SettingError> {
        let target = rules.check()?;
        let guarded = guarded.of_mixed_shapes();
        Ok(Self { guarded, needs, rules, target, capacity: None, has_stepped: false, has_looked: false })
    }

    /// Returns what runs the passes.
    pub fn guarded(&self) -> &GuardedStep {
        &self.guarded
    }

    /// Lends what runs the passes.
    pub fn guarded_mut(&mut self) -> &mut GuardedStep {
        &mut self.guarded
    }

    /// Returns what is known of the program.
    pub fn needs(&self) -> &ProgramNeeds {
        &self.needs
    }

    /// Begins again, with another model and another state of its optimizer.
    pub fn begin_again(&mut self) {
        self.needs.forget();
        self.guarded.others_mut().iter_mut().for_each(|it| it.needs_mut().forget());
        (self.has_stepped, self.has_looked) = (false, false);
    }

    /// Goes on with what the steps of another process have shown of the same program, if it took some.
    ///
    /// `elsewhere` is what they have shown on other devices, in their order.
    pub fn recall(&mut self, shown: Shown, elsewhere: Vec<Shown>, has_stepped: bool) {
        self.needs.recall(shown);
        for (other, shown) in self.guarded.others_mut().iter_mut().zip(elsewhere) {
            other.needs_mut().recall(shown);
        }
        self.has_stepped = has_stepped;
    }

    /// Returns what a step may use on the first device: reads the capacity of each, which others may change at any time, unless
    /// that was just done.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when the capacity cannot be read.
    pub fn budget(&mut self) -> Result<Budget, StepError> {
        let known = self.capacity.filter(|(read, _)| read.elapsed() < CAPACITY_AGE);
        let (_, capacity) = if let Some(known) = known {
            known
        } else {
            let target = self.target;
            self.guarded.others_mut().iter_mut().try_for_each(|it| it.read_budget(target))?;
            *self.capacity.insert((Instant::now(), self.guarded.probe().capacity()?))
        };
        Ok(Budget { capacity, budget: capacity.scale(self.target) })
    }

    /// Runs the passes of all samples, and learns from the parts that ran out of memory.
    ///
    /// # Errors
    ///
    /// [`Stopped`]; nothing has happened then.
    pub fn attempt<M: Module, T, E>(
        &mut self,
        model: &M,
        next: &NextStep<'_>,
        passes: RunPasses<'_, T, E>,
    ) -> Result<Ran<T>, Stopped<E>> {
        let budget = self.budget()?;
        if self.rules.micro_batch.is_none() && self.may_divide(next) {
            self.sound(model, next, budget, passes)?;
        }
        let gradients = gradient_bytes(model);
        // The first step of an optimizer makes what later ones find: two moments of each weight, for most.
        let moments = if self.has_stepped { Bytes::ZERO } else { gradients.saturating_mul(2) };
        let resident = self.read_in_use()?.saturating_add(moments);
        let parts = self.parts(model, next, Room { resident, gradients, budget: budget.budget });
        let request = self.request(parts, next, budget);
        self.seed(next);
        let needs = &self.needs;
        let predict = |shape: StepShape, resident| needs.predict(shape, resident);
        let tried = passes(&mut self.guarded, &request, &predict);
        let ran = tried.as_ref().map_or(&[][..], |(outcome, _)| &outcome.parts);
        self.needs.learn_failures(&self.guarded.failures, ran);
        self.guarded.others_mut().iter_mut().for_each(Elsewhere::learn_failures);
        let (outcome, brought) = tried?;
        let seen = self.look(model, outcome.parts.len()).and_then(|it| Ok((it, self.held::<T>(&outcome, gradients)?)));
        let (changes_statistics, held) = seen.inspect_err(|_| self.guarded.discard(model))?;
        let (number, may_run_again) = (next.number, !next.is_whole);
        Ok(Ran { request, outcome, brought, changes_statistics, number, may_run_again, held })
    }

    /// Lets the optimizer step, as `update` does it with the gradients, up to a capacity; returns none where that ran out of
    /// memory, and the same step is to be attempted again from the copy that was kept.
    ///
    /// # Errors
    ///
    /// [`StepError::OutOfMemory`] where the state from before is back and nothing is left to be tried, [`StepError::Damaged`]
    /// where there was no copy; others as [`GuardedStep::commit`].
    pub fn commit<T>(
        &mut self,
        mut ran: Ran<T>,
        update: impl FnOnce(&mut GuardedStep, GradientsParams, (Bytes, OptimizerRecovery)) -> Result<Commit, StepError>,
    ) -> Result<Option<(Ran<T>, MemoryReading)>, StepError> {
        let recovery = self.rules.recovery;
        let capacity = match recovery {
            OptimizerRecovery::Keep => ran.request.budget.capacity,
            // Where there is no way back, an update that is there is good, whatever it took; the next step knows it.
            OptimizerRecovery::Restore => Bytes::MAX,
        };
        let gradients = std::mem::take(&mut ran.outcome.gradients);
        if let Commit::Done { reading, .. } = update(&mut self.guarded, gradients, (capacity, recovery))? {
            self.has_stepped = true;
            self.has_looked |= 1 < ran.outcome.parts.len();
            return Ok(Some((ran, reading)));
        }
        // How much room the optimizer finds is a matter of the last part, and of whoever else held memory: neither is for good.
        let last = ran.outcome.parts.last().map(|it| Attempt::new(it.part.shape(), it.resident));
        self.needs.learn_failures(last.as_slice(), &[]);
        let (means, may_run_again) = (Means { step: ran.number, ..Means::default() }, ran.may_run_again);
        drop(ran);
        let now = self.guarded.guard().on(Happened::Asked(means));
        match now {
            Now::TakeAgain | Now::GiveUp(Obstacle::Update { has_copy: true }) => self.guarded.give_back()?,
            _ => return Err(StepError::Damaged),
        }
        if now == Now::TakeAgain && may_run_again {
            return Ok(None);
        }
        Err(StepError::OutOfMemory("the optimizer's step".to_owned()))
    }

    /// Learns what a step needed, after which memory reads so on the first device.
    pub fn learn<T>(&mut self, ran: &mut Ran<T>, MemoryReading { in_use, peak, packed, .. }: MemoryReading) {
        let outcome = &mut ran.outcome;
        outcome.parts.last_mut().into_iter().for_each(|it| it.follow(outcome.in_use, peak));
        outcome.peak = outcome.peak.max(peak);
        // What was brought is there still, and the gradients are not any more.
        let kept = in_use.saturating_sub(outcome.resident).saturating_sub(ran.held);
        self.needs.note_packed(packed);
        self.needs.learn(&outcome.parts, kept);
        self.guarded.others_mut().iter_mut().for_each(Elsewhere::learn);
    }

    /// Reads what is in use on each device, and returns it of the first.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when memory cannot be measured.
    pub fn read_in_use(&mut self) -> Result<Bytes, StepError> {
        for other in self.guarded.others_mut() {
            other.read_in_use()?;
        }
        Ok(self.guarded.read()?.in_use)
    }

    /// Runs some of the longest samples where nothing is known yet of as long ones, and keeps what they need.
    fn sound<M: Module, T, E>(
        &mut self,
        model: &M,
        next: &NextStep<'_>,
        budget: Budget,
        passes: RunPasses<'_, T, E>,
    ) -> Result<(), Stopped<E>> {
        for n_done in 0.. {
            let resident = self.read_in_use()?;
            let room = Room { resident, gradients: Bytes::ZERO, budget: budget.budget };
            let (needs, is_first) = (&self.needs, !self.has_stepped);
            let others: Vec<_> = self.guarded.others().iter().map(|it| (it.needs(), it.bare_room())).collect();
            let all = || [(needs, room)].into_iter().chain(others.iter().copied());
            // What one device has shown, another may not have.
            let asks = all().find_map(|(it, room)| it.sounding(n_done, next.lengths, is_first, room));
            let Some(part) = asks.filter(|part| all().all(|(it, room)| it.may_fit(part.shape(), room))) else { break };
            let (lengths, units) =
                (&next.lengths[part.samples.clone()], next.units.map(|it| &it[part.samples.clone()]));
            let request = self.request(vec![part], &NextStep { lengths, units, ..*next }, budget);
            // What it needs does not depend on a scale, by which a gradient may overflow.
            let request = StepRequest { rescale: Rescale::default(), ..request };
            self.seed(next);
            let sounded = passes(&mut self.guarded, &request, &|_, _| None);
            self.needs.learn_failures(&self.guarded.failures, &[]);
            self.guarded.others_mut().iter_mut().for_each(Elsewhere::learn_failures);
            let parts = match sounded {
                Ok((StepOutcome { parts, .. }, _)) => parts,
                // The step itself says what is to be said.
                Err(Stopped::Step(_)) => break,
                Err(error) => return Err(error),
            };
            self.guarded.discard(model);
            let kept = self.guarded.read()?.in_use.saturating_sub(resident);
            self.needs.learn(&parts, kept);
            self.guarded.others_mut().iter_mut().for_each(Elsewhere::learn);
        }
        Ok(())
    }

    fn may_divide(&self, next: &NextStep<'_>) -> bool {
        self.rules.may_divide && !next.is_whole
    }

    /// Divides the samples of a step, between replicas where its parts may run side by side.
    fn parts<M: Module>(&self, model: &M, next: &NextStep<'_>, room: Room) -> Vec<StepPart> {
        let micro_batch = if self.may_divide(next) { self.rules.micro_batch } else { Some(u32::MAX) };
        let replicas = next.replicas.filter(|_| micro_batch.is_none() && self.guarded.runs_beside(model));
        if let Some(replicas) = replicas {
            return self.needs.divide_between(replicas, next.lengths, room);
        }
        let others = self.guarded.others().iter().map(|it| (it.needs(), it.room(model, self.has_stepped)));
        let devices: Vec<_> = [(&self.needs, room)].into_iter().chain(others).collect();
        ProgramNeeds::divide(next.lengths, micro_batch, &devices)
    }

    fn request(&self, micro_batches: Vec<StepPart>, next: &NextStep<'_>, budget: Budget) -> StepRequest {
        let unit = |length: &u32| if self.rules.by_length { u64::from(*length) } else { 1 };
        StepRequest {
            micro_batches,
            units: next.units.map_or_else(|| next.lengths.iter().map(unit).collect(), <[u64]>::to_vec),
            lengths: next.lengths.to_vec(),
            task_probes: Vec::new(),
            budget,
            rescale: Rescale { loss_scale: next.loss_scale, max_norm: self.rules.max_norm },
            may_halve: self.may_divide(next),
        }
    }

    /// Seeds the device, where that is wanted.
    fn seed(&self, next: &NextStep<'_>) {
        if let Some(seed) = self.rules.seed {
            self.guarded.seed_step(seed, next.number);
        }
    }

    /// Whether the forward passes of a step in several parts have changed the model, unless an earlier one has said so.
    fn look<M: Module>(&self, model: &M, n_parts: usize) -> Result<bool, StepError> {
        Ok(!self.has_looked && 1 < n_parts && self.guarded.has_changed(model)?)
    }

    /// Returns what is in use beside gradients of so many bytes, where the passes of a step have brought something.
    fn held<T>(&self, outcome: &StepOutcome, gradients: Bytes) -> Result<Bytes, StepError> {
        if size_of::<T>() == 0 {
            return Ok(Bytes::ZERO);
        }
        let in_use = self.guarded.read()?.in_use;
        Ok(in_use.saturating_sub(outcome.resident).saturating_sub(gradients))
    }
}
