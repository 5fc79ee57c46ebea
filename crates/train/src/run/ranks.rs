//! What the ranks of a run agree on: who runs which samples, when all end, and where all go back to.
//!
//! Every rank has a controller, a log and a plan of its own, and all that each does beside the others is done alike: they draw
//! the same steps, of which each runs its share. Shares follow from how fast each rank was in the steps before, which they tell
//! each other too, and what a rank holds at once is the size of its micro-batches.

use std::time::Instant;

use plimsoll_sampler::{Speeds, Worked};
use plimsoll_step::{Readiness, StepError, Team};
use plimsoll_types::{Bytes, EndReason, Event};

use super::Run;
use super::control::Control;
use super::shares::{Agreed, heard_work, limits, told_work};
use super::under_way::UnderWay;
use crate::checkpoint::{Checkpoint, RankState};
use crate::config::FitConfig;
use crate::error::TrainError;
use crate::job::Job;
use crate::loader::Wanted;
use crate::resume::Kept;
use crate::run_dir::{folders_of_ranks, undo_in};
use crate::stopwatch::Lap;

/// Numbers that a rank tells first before a step: how it ends, and by which signal.
const BEFORE_WORK: usize = 2;

/// The same with what it has run of the last step, and how long that took; its limits follow, and which cells it does not hold.
const BEFORE_LIMITS: usize = BEFORE_WORK + 2;

/// Where ranks are that have not begun a step, or go back to one.
const BETWEEN_STEPS: u64 = u64::MAX;

/// Holds what this rank was told against what the first was, and agrees on what the first steps are filled with, and on the
/// memory that they wait in: how far a stream is read ahead decides what is in which of its steps.
pub(super) fn agree_before_start<J: Job>(
    team: &mut Team,
    (job, kept): (&J, &Kept),
    config: &FitConfig,
    control: &Control<'_>,
) -> Result<(Option<Agreed>, Bytes), TrainError> {
    if team.is_alone() {
        return Ok((None, config.loader.buffer_limit));
    }
    let failed = |source| TrainError::Step { step: 0, source };
    team.set_step(BETWEEN_STEPS);
    let own = kept.of_ranks(job, config);
    let first = Kept::parse(&team.first_says(own.to_text().as_bytes()).map_err(failed)?);
    let change = first.change(&own);
    let differs = team.meet(Readiness::Ready, &[change.is_some().into()]).map_err(failed)?;
    if let Some(change) = change {
        let (n_ranks, rank, change) = (team.n_ranks(), team.rank(), Box::new(change));
        return Err(TrainError::OtherRanks { n_ranks, rank, change });
    }
    if let Some((rank, _)) = (0..).zip(&differs).find(|(_, it)| it[0] == 1) {
        return Err(TrainError::RefusedRank { rank });
    }
    let limits = limits(control);
    team.set_width(BEFORE_LIMITS + limits.len() + config.loader.cells.len());
    let told: Vec<_> = [config.loader.buffer_limit.0].into_iter().chain(limits).collect();
    let all = team.meet(Readiness::Ready, &told).map_err(failed)?;
    let limits: Vec<_> = all.iter().map(|it| &it[1..]).collect();
    let agreed = Agreed::of(&control.wanted(), team.rank(), &limits, Speeds::unknown(all.len()));
    Ok((Some(agreed), Bytes(all.iter().map(|it| it[0]).min().unwrap_or(0))))
}

fn code(reason: Option<EndReason>) -> u64 {
    match reason {
        None => 0,
        Some(EndReason::Completed) => 1,
        Some(EndReason::StoppedEarly) => 2,
        Some(EndReason::Interrupted) => 3,
    }
}

fn reason(code: u64) -> Option<EndReason> {
    match code {
        0 => None,
        1 => Some(EndReason::Completed),
        2 => Some(EndReason::StoppedEarly),
        _ => Some(EndReason::Interrupted),
    }
}

impl<J: Job> Run<'_, '_, J> {
    /// Whether this is the rank that validates, and writes what belongs to all.
    pub(super) fn is_first(&self) -> bool {
        self.training.rank() == 0
    }

    /// Returns what a step is filled with.
    pub(super) fn wanted(&self) -> Wanted {
        self.agreed.as_ref().map_or_else(|| self.control.wanted(), |it| it.wanted.clone())
    }

    /// Whether there is another step to take; several ranks agree on that, and on what it is filled with.
    pub(crate) fn goes_on(&mut self) -> Result<bool, TrainError> {
        loop {
            let signal = self.stop.signal();
            let ends = if self.is_under_way() && signal.is_none() { None } else { Some(self.end_reason()) };
            if self.agreed.is_none() {
                return Ok(ends.is_none());
            }
            let begun = Instant::now();
            let agreed = self.agree(ends, signal);
            // It is time of the step that follows.
            let took = begun.elapsed();
            self.journal.book(Lap::Ranks, took);
            self.journal.book(Lap::Step, took);
            match agreed {
                Ok(ends) => return Ok(!ends),
                Err(StepError::Apart { .. }) => self.return_together()?,
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Tells the others whether this rank ends, how fast it was and what it holds; returns whether all end.
    fn agree(&mut self, ends: Option<EndReason>, signal: Option<i32>) -> Result<bool, StepError> {
        let too_large = self.feed.own_too_large(self.control.budget().budget);
        let head: [u64; BEFORE_WORK] = [code(ends), signal.map_or(0, |it| u64::from(it.unsigned_abs()))];
        // Clocks have no say where weights are to be the same bits another time.
        let worked = std::mem::take(&mut self.worked);
        let worked = if self.config.deterministic { Worked::default() } else { worked };
        let cells = too_large.into_iter().map(u64::from);
        let told: Vec<_> =
            head.into_iter().chain(told_work(worked)).chain(limits(&self.control)).chain(cells).collect();
        let step = self.step();
        let team = self.training.team();
        team.set_step(step);
        let all = team.meet(Readiness::Ready, &told)?;
        // How a run ends the first rank knows, which validates; a signal may come to any.
        let sent = all.iter().map(|it| it[1]).find(|it| *it != 0);
        let ended = reason(all[0][0]).or_else(|| sent.map(|_| EndReason::Interrupted));
        if let Some(signal) = sent.and_then(|it| i32::try_from(it).ok()) {
            self.stop.hear(signal);
        }
        self.ended = ended;
        let cells = &self.config.loader.cells;
        let (limits, too_large): (Vec<_>, Vec<_>) = all
            .iter()
            .map(|it| it[BEFORE_LIMITS..told.len()].split_at(told.len() - BEFORE_LIMITS - cells.len()))
            .unzip();
        let is_of_any = |at: usize| too_large.iter().any(|it| it[at] == 1);
        self.feed.agree_on(cells.iter().enumerate().filter(|(at, _)| is_of_any(*at)).map(|(_, it)| *it).collect());
        let mut speeds = self.agreed.take().map_or_else(|| Speeds::unknown(all.len()), |it| it.speeds);
        speeds.hear(&all.iter().map(|it| heard_work(&it[BEFORE_WORK..])).collect::<Vec<_>>());
        self.agreed = Some(Agreed::of(&self.control.wanted(), self.training.rank(), &limits, speeds));
        Ok(ended.is_some())
    }

    /// Returns why the run ends.
    pub(super) fn end_reason(&self) -> EndReason {
        self.ended.or_else(|| self.reached()).unwrap_or(EndReason::Interrupted)
    }

    /// Tells the others that this rank does not go on; returns how the one stands that stands worst, where there are others.
    pub(super) fn tell(&mut self, standing: Readiness) -> Result<Option<Readiness>, TrainError> {
        if self.agreed.is_none() {
            return Ok(None);
        }
        match self.training.team().meet(standing, &[]) {
            Err(StepError::Apart { standing, .. }) => Ok(Some(standing)),
            Err(error) => Err(self.failed(error)),
            Ok(_) => unreachable!("this rank is not ready"),
        }
    }

    /// Does what a rank that does not go on with a step asks of all; returns none where they are at another step then.
    pub(super) fn follow(&mut self, step: UnderWay<J>, standing: Readiness) -> Result<Option<UnderWay<J>>, TrainError> {
        match standing {
            Readiness::Ready => unreachable!("a rank that is ready asks for nothing"),
            Readiness::GoesBack => self.return_together().map(|()| None),
            Readiness::LeavesOut { extent } => {
                self.feed.agree_on_also(extent);
                self.without_unfit(step).map(Some)
            }
        }
    }

    /// Goes back to the last checkpoint, as all ranks do.
    pub(super) fn return_together(&mut self) -> Result<(), TrainError> {
        if self.is_first() {
            self.return_to_last()?;
            self.say_where(true)?;
        } else if let Some(step) = self.wait_for_first()? {
            self.return_to(step)?;
        }
        self.catch_up()
    }

    /// Tells the others where the run goes on: from the checkpoint of this step, or from its beginning.
    pub(super) fn say_where(&mut self, is_saved: bool) -> Result<(), TrainError> {
        let step = self.step();
        self.meet_between(&[is_saved.into(), step]).map(drop)
    }

    /// Waits until the first rank is where the run goes on; returns the step of its checkpoint, if any.
    pub(super) fn wait_for_first(&mut self) -> Result<Option<u64>, TrainError> {
        let first = self.meet_between(&[0, 0])?;
        Ok((first[0] == 1).then_some(first[1]))
    }

    /// Meets the others; returns what the first has told, or nothing where there are none.
    fn meet_between(&mut self, own: &[u64]) -> Result<Vec<u64>, TrainError> {
        let team = self.training.team();
        if team.is_alone() {
            return Ok(own.to_vec());
        }
        team.set_step(BETWEEN_STEPS);
        let all = team.meet(Readiness::Ready, own);
        all.map(|mut it| it.swap_remove(0)).map_err(|error| self.failed(error))
    }

    /// Goes back to a checkpoint that the first rank has written, with what this one has saved beside it.
    pub(super) fn return_to(&mut self, step: u64) -> Result<Vec<Event>, TrainError> {
        let checkpoint = Checkpoint::of_step(&self.root, step, &self.kept)?;
        let own = RankState::read(self.journal.path(), step)?;
        // One that took no part then goes on after the last checkpoint of which it did.
        let mark = own.as_ref().map_or_else(|| RankState::mark(self.journal.path(), step), |it| Ok(it.log_bytes))?;
        RankState::remove_after(self.journal.path(), Some(step))?;
        let own = own.map(|it| (it.controller, it.budget));
        let own = own.unwrap_or_else(|| (self.control.controller().clone(), self.control.budget()));
        self.load(&checkpoint, Some(own))?;
        Ok(self.journal.undo_after(mark)?)
    }

    /// Undoes what ranks have logged after the checkpoint which took part once, and do not any more.
    pub(super) fn leave_no_others(&mut self, is_saved: bool) -> Result<(), TrainError> {
        let (step, n_ranks) = (self.step(), self.training.team().n_ranks());
        for (_, folder) in folders_of_ranks(&self.root).into_iter().filter(|it| n_ranks <= it.0) {
            let mark = if is_saved { RankState::mark(&folder, step)? } else { 0 };
            RankState::remove_after(&folder, is_saved.then_some(step))?;
            undo_in(&folder, mark)?;
        }
        Ok(())
    }

    /// Lets all ranks begin with the weights of the first.
    pub(super) fn take_over(&mut self) -> Result<(), TrainError> {
        self.training.take_over().map_err(|error| self.failed(error))
    }

    /// Saves what is this rank's own, before the first one writes what all have in common; returns whether that is all there is
    /// to do here.
    pub(super) fn save_own(&mut self) -> Result<bool, TrainError> {
        if self.agreed.is_none() {
            return Ok(false);
        }
        let step = self.step();
        self.training.team().set_step(step);
        match self.training.check_weights() {
            Err(StepError::Apart { .. }) => return self.return_together().map(|()| true),
            checked => checked.map_err(|error| self.failed(error))?,
        }
        if !self.is_first() {
            let (log_bytes, budget) = (self.journal.mark(), self.control.budget());
            let state = RankState { step, log_bytes, budget, controller: self.control.controller().clone() };
            state.write(self.journal.path())?;
            RankState::prune(self.journal.path(), &self.root, step)?;
        }
        let met = self.training.team().meet(Readiness::Ready, &[]);
        met.map_err(|error| self.failed(error))?;
        if !self.is_first() {
            self.training.guard().note_saved();
            self.log_saved()?;
        }
        Ok(!self.is_first())
    }

    /// Waits until all have logged all, and is not missed from here on.
    pub(super) fn part(&mut self) -> Result<(), TrainError> {
        if self.agreed.is_some() {
            let met = self.training.team().meet(Readiness::Ready, &[]);
            met.map_err(|error| self.failed(error))?;
            self.training.team().leave();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_heard_as_it_was_told() {
        for it in [None, Some(EndReason::Completed), Some(EndReason::StoppedEarly), Some(EndReason::Interrupted)] {
            assert_eq!(reason(code(it)), it);
        }
    }
}
