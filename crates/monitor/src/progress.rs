//! Where a run stands, on two lines or one.

use plimsoll_types::{Bytes, Event, Knobs, RunStarted};

use crate::policy::Policy;
use crate::text::{percent, short, time};

/// What a progress line says.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Steps asked for.
    pub n_steps: u64,
    /// Epoch, from 0.
    pub epoch: u64,
    /// Loss of the last step.
    pub loss: f64,
    /// Name of the metric, with its unit.
    pub metric_name: String,
    /// The metric of the last validation.
    pub metric: Option<f64>,
    /// Steps done before it.
    pub metric_step: u64,
    /// The validation under way.
    pub validating: Option<Validating>,
    /// The knobs of the last step.
    pub knobs: Knobs,
    /// Whether its samples have lengths, of which the knobs say the longest.
    pub has_lengths: bool,
    /// What a length counts, such as "tokens".
    pub unit_of_length: String,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Peak of the last step.
    pub peak: Bytes,
    /// Budget of the last step.
    pub budget: Bytes,
    /// Time left in seconds, once it can be told.
    pub seconds_left: Option<f64>,
}

/// How far a validation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validating {
    /// Items that are measured.
    pub n_done: u64,
    /// Items to be measured.
    pub n: u64,
    /// Time that it still takes in seconds, once it can be told.
    pub seconds_left: Option<f64>,
}

/// Cells of the memory bar.
const BAR_CELLS: usize = 6;
/// A cell by how many eighths of it are filled.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

impl Progress {
    /// Describes a run before its first step.
    pub fn new(n_steps: u64, knobs: Knobs, budget: Bytes, unit_of_length: &str, has_lengths: bool) -> Self {
        Self {
            step: 0,
            n_steps,
            epoch: 0,
            loss: f64::NAN,
            metric_name: String::new(),
            metric: None,
            metric_step: 0,
            validating: None,
            knobs,
            has_lengths,
            unit_of_length: unit_of_length.to_owned(),
            samples_per_second: 0.0,
            peak: Bytes::ZERO,
            budget,
            seconds_left: None,
        }
    }

    /// Describes a run that begins, as the head of its log says.
    pub fn of(start: &RunStarted) -> Self {
        let has_lengths = !Policy::of(start).edges.is_empty();
        Self::new(start.n_steps, start.knobs, start.budget.budget, &start.unit_of_length, has_lengths)
    }

    /// Takes over what an event says; what takes a clock is the caller's.
    pub fn hear(&mut self, event: &Event) {
        match event {
            Event::StepDone(done) => {
                (self.step, self.epoch, self.loss) = (done.step + 1, done.epoch, done.loss);
                (self.knobs, self.peak, self.budget) = (done.rung, done.peak, done.budget);
            }
            Event::Validated(validated) => {
                self.metric_name.clone_from(&validated.metric_name);
                (self.metric, self.metric_step) = (Some(validated.metric), validated.step);
            }
            _ => {}
        }
    }

    /// Writes two lines of at most `width` characters each, for a terminal where they replace the ones before.
    ///
    /// Both fit into 80 characters as a rule; what matters least goes first when there is no room.
    pub fn panel(&self, width: usize) -> [String; 2] {
        let memory = format!("{} {} of {}", self.bar(), percent(self.share()), self.budget);
        [fitted(self.learning(), width), fitted(self.running(memory), width)]
    }

    /// Writes one line without bars, for a file or a pipe.
    pub fn plain_line(&self) -> String {
        let memory = format!("peak {} ({} of {})", self.peak, percent(self.share()), self.budget);
        let mut parts = self.learning();
        parts.insert(1, (4, format!("epoch {}", self.epoch)));
        parts.extend(self.running(memory));
        line(&parts)
    }

    /// Returns what the model does, each part with its rank: the part of the highest rank goes first.
    fn learning(&self) -> Vec<(u8, String)> {
        let mut parts = vec![(0, format!("step {}/{}", self.step, self.n_steps))];
        if let Some(it) = self.validating {
            let left = it.seconds_left.map_or_else(String::new, |left| format!(", {} left", time(left)));
            parts.push((1, format!("validating: {} of {}{left}", it.n_done, it.n)));
            return parts;
        }
        parts.push((1, format!("training loss {}", short(self.loss))));
        let metric = |it| format!("held out: {} {} (at {})", self.metric_name, short(it), self.metric_step);
        parts.extend(self.metric.map(|it| (2, metric(it))));
        parts
    }

    /// Returns the sizes of a step.
    fn sizes(&self) -> String {
        let Knobs { patch_size, micro_batch_size } = self.knobs;
        let unit = if self.unit_of_length.is_empty() { "positions" } else { &self.unit_of_length };
        if self.has_lengths {
            format!("batch {micro_batch_size} of {patch_size} {unit}")
        } else {
            self.knobs.to_string()
        }
    }

    /// Returns what the machine does, likewise.
    fn running(&self, memory: String) -> Vec<(u8, String)> {
        let speed = format!("{} samples/s", short(self.samples_per_second));
        let left = self.seconds_left.map(|it| (1, format!("{} left", time(it))));
        [(0, memory), (3, self.sizes()), (2, speed)].into_iter().chain(left).collect()
    }

    fn share(&self) -> f64 {
        self.peak.share_of(self.budget)
    }

    fn bar(&self) -> String {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1")]
        let eighths = (self.share().clamp(0.0, 1.0) * (8 * BAR_CELLS) as f64).round() as usize;
        let mut cells = "█".repeat(eighths / 8);
        if !eighths.is_multiple_of(8) {
            cells.push(EIGHTHS[eighths % 8]);
        }
        format!("▕{cells:<BAR_CELLS$}▏")
    }
}

/// Drops parts until the line fits.
fn fitted(mut parts: Vec<(u8, String)>, width: usize) -> String {
    while width < line(&parts).chars().count() && 1 < parts.len() {
        let least = parts.iter().map(|it| it.0).max();
        parts.retain(|it| Some(it.0) != least);
    }
    line(&parts).chars().take(width).collect()
}

fn line(parts: &[(u8, String)]) -> String {
    let texts: Vec<&str> = parts.iter().map(|it| it.1.as_str()).collect();
    texts.join(" · ")
}
