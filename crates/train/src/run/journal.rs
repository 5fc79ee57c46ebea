//! What a run writes and tells, and what all of it took.

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_monitor::Progress;
use plimsoll_types::{Bytes, Event};

use crate::checkpoint::{Background, CheckpointError, Unpublished};
use crate::config::FitConfig;
use crate::controller::Controller;
use crate::fit::{Doing, Observer, Warn, Watching};
use crate::incident::Surroundings;
use crate::incidents::Incidents;
use crate::meter::Meter;
use crate::recorder::Recorder;
use crate::run_dir::{RunDir, RunDirError, Why};
use crate::stopwatch::{Lap, Overhead, Stopwatch};

/// The log of a run, its checkpoints on their way to the disk, those who are told of it, and its clocks.
pub(super) struct Journal<'s> {
    dir: &'s mut RunDir,
    checkpoints: Background,
    listeners: Listeners<'s>,
    meter: Meter,
    recorder: Recorder,
    incidents: Incidents,
    stopwatch: Stopwatch,
}

/// Who is told.
pub(super) struct Listeners<'s> {
    pub(super) observer: Observer<'s>,
    pub(super) watching: Option<Watching<'s>>,
    pub(super) warn: Warn<'s>,
}

impl<'s> Journal<'s> {
    pub(super) fn new(
        dir: &'s mut RunDir,
        listeners: Listeners<'s>,
        config: &FitConfig,
        (controller, budget): (&Controller, Bytes),
        unit: &str,
    ) -> Self {
        Self {
            listeners,
            incidents: Incidents::of(dir.path()),
            dir,
            checkpoints: Background::default(),
            recorder: Recorder::new(controller.clone()),
            meter: Meter::new(0, config, controller.policy().knobs(), budget, unit),
            stopwatch: Stopwatch::with_capacity(usize::try_from(config.n_steps).unwrap_or(0)),
        }
    }

    /// Begins again at a step: what is told counts from there, and the flight recorder knows of nothing before it.
    pub(super) fn begin_again(
        &mut self,
        step: u64,
        config: &FitConfig,
        (controller, budget): (&Controller, Bytes),
        unit: &str,
    ) {
        self.meter = Meter::new(step, config, controller.policy().knobs(), budget, unit);
        self.recorder = Recorder::new(controller.clone());
    }

    /// Logs events, and tells of them.
    pub(super) fn log(&mut self, events: &[Event]) -> Result<(), RunDirError> {
        let Self { dir, listeners, meter, recorder, stopwatch, .. } = self;
        stopwatch.time(Lap::Monitor, || {
            recorder.note(events, dir.log(events)?);
            for event in events {
                meter.update(event);
                (listeners.observer)(event, meter.progress());
            }
            Ok(())
        })
    }

    /// Says what comes next.
    pub(super) fn begin(&mut self, doing: Doing) {
        let (watching, progress) = (&mut self.listeners.watching, self.meter.progress());
        self.stopwatch.time(Lap::Monitor, || watching.iter_mut().for_each(|it| it(doing, progress)));
    }

    /// Tells the user a sentence.
    pub(super) fn warn(&mut self, sentence: &str) {
        (self.listeners.warn)(sentence);
    }

    /// Does something, and books what it took.
    pub(super) fn time<T>(&mut self, lap: Lap, work: impl FnOnce() -> T) -> T {
        self.stopwatch.time(lap, work)
    }

    /// Books what something took.
    pub(super) fn book(&mut self, lap: Lap, time: Duration) {
        self.stopwatch.book(lap, time);
    }

    /// Lets a checkpoint become whole beside the steps, and books what they have waited for it until now.
    pub(super) fn publish(&mut self, checkpoint: Unpublished, waited: Duration) -> Result<(), CheckpointError> {
        self.checkpoints.begin(checkpoint)?;
        self.stopwatch.book_checkpoint(waited);
        Ok(())
    }

    /// Says how the last checkpoint became whole, if it has.
    pub(super) fn check_checkpoint(&mut self) -> Result<(), CheckpointError> {
        self.checkpoints.check()
    }

    /// Waits until the last checkpoint is whole and has its name.
    pub(super) fn wait_for_checkpoint(&mut self) -> Result<(), CheckpointError> {
        let start = Instant::now();
        self.checkpoints.wait()?;
        self.stopwatch.book_wait_for_checkpoint(start.elapsed());
        Ok(())
    }

    /// Returns all that was booked since the last step ended.
    pub(super) fn booked(&self) -> Duration {
        self.stopwatch.booked()
    }

    /// Turns a page of the flight recorder, and ends a step that began when so much was booked already.
    pub(super) fn end_step(
        &mut self,
        (begun, before): (Instant, Duration),
        next_step: u64,
        controller: &Controller,
        look: impl FnOnce() -> Surroundings,
    ) {
        self.recorder.turn(next_step, controller, look);
        let (took, booked) = (begun.elapsed(), self.booked().saturating_sub(before));
        self.stopwatch.book(Lap::Rest, took.saturating_sub(booked));
        self.stopwatch.book(Lap::Step, took);
        self.stopwatch.end_step();
        self.meter.supply(self.stopwatch.waited());
    }

    /// Returns what watching over the run took.
    pub(super) fn overhead(&self) -> Option<Overhead> {
        self.stopwatch.overhead()
    }

    /// Writes what led to a failure beside the log.
    pub(super) fn record(&mut self, failure: String, samples: &[u64], now: Surroundings) -> Result<(), RunDirError> {
        let incident = self.recorder.incident(failure, now.step, samples.to_vec(), now);
        self.incidents.write(self.dir, &incident.to_json())
    }

    /// Whether a failure that a step survived deserves a report.
    pub(super) fn owes_report(&mut self, step: u64) -> bool {
        self.recorder.is_due(step)
    }

    /// Returns how long the run has gone on since it began, or began again, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.meter.seconds()
    }

    /// Returns what a step takes, in seconds, once that is known.
    pub(super) fn seconds_of_step(&self) -> Option<f64> {
        self.meter.seconds_of_step()
    }

    /// Expects validations to take so long from here on, in seconds.
    pub(super) fn expect_validations(&mut self, seconds: f64) {
        self.meter.expect_validations(seconds);
    }

    /// Says that what is held out is measured from here on.
    pub(super) fn begin_validation(&mut self, doing: Doing) {
        self.meter.begin_validation();
        self.begin(doing);
    }

    /// Tells how far a validation or the test is.
    pub(super) fn validating(&mut self, doing: Doing, n_done: u64, n: u64) {
        let progress: &Progress = self.meter.validating(n_done, n);
        if let Some(watching) = &mut self.listeners.watching {
            watching(doing, progress);
        }
    }

    pub(super) fn end_validation(&mut self) {
        self.meter.end_validation();
    }

    /// Returns the run directory.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file of the run directory.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<(), RunDirError> {
        self.dir.write(name, content.as_bytes())
    }

    /// Returns the machine of this rank, where it has lacked memory since the process before this one began there.
    pub(super) fn lacked_memory(&self, rank: u32) -> Option<&str> {
        self.dir.lacked_memory(rank)
    }

    /// Notes that a process works on the run from here on.
    pub(super) fn note_process(&self, step: u64, why: Why, undone_steps: u64) -> Result<(), RunDirError> {
        self.dir.note_process(step, why, undone_steps)
    }

    /// Returns where the log ends now.
    pub(super) fn mark(&self) -> u64 {
        self.dir.mark()
    }

    /// Undoes what was logged after a mark, and returns it.
    pub(super) fn undo_after(&mut self, mark: u64) -> Result<Vec<Event>, RunDirError> {
        self.dir.undo_after(mark)
    }

    /// Returns the last event that was undone, by any process.
    pub(super) fn last_undone(&self) -> Result<Option<Event>, RunDirError> {
        self.dir.last_undone()
    }
}
