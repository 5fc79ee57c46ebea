//! Where a run stands, as Prometheus reads it.

use std::fmt::{Display, Write};

use plimsoll_types::{Bytes, Decision, Event, StepDone, SupplyStep, Validated};

/// What a scrape of a run shows: gauges of the last step, and what this process has counted.
///
/// # Sources
///
/// The text exposition format 0.0.4 of Prometheus, and its naming practices: base units, which the name ends in, and `_total`
/// for what only grows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition {
    job: String,
    device: String,
    tasks: Vec<(String, Option<f64>)>,
    n_steps: u64,
    last: Option<Last>,
    validated: Option<Validated>,
    tested: Option<Validated>,
    counts: Counts,
    seconds: f64,
    /// What steps waited for samples that are streamed; `None` where they are not.
    waited: Option<f64>,
    has_ended: bool,
}

/// What is shown of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Last {
    done: u64,
    epoch: u64,
    /// Loss, norm of the gradient, learning rate.
    learning: [f64; 3],
    /// Patch size and micro-batch size.
    sizes: [u32; 2],
    /// Peak, in use, reserved, budget and capacity.
    memory: [Bytes; 5],
    /// Expected peak and its upper bound.
    foreseen: [Option<Bytes>; 2],
    supply: Option<SupplyStep>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    steps: u64,
    given_up: u64,
    samples: u64,
    skipped: u64,
    dropped: u64,
    positions: u64,
    real_positions: u64,
    failures: u64,
    excesses: u64,
    adjustments: u64,
    checkpoints: u64,
}

impl Exposition {
    /// Hears what the run does.
    pub fn hear(&mut self, event: &Event) {
        let counts = &mut self.counts;
        match event {
            Event::RunStarted(it) => {
                (self.job, self.device, self.n_steps) = (it.job.clone(), it.device.clone(), it.n_steps);
                self.tasks = it.tasks.iter().map(|it| (it.clone(), None)).collect();
            }
            Event::StepDone(it) => self.step(it),
            Event::StepFailed(_) => counts.failures += 1,
            Event::BoundExceeded(_) => counts.excesses += 1,
            Event::EpochDone(it) => counts.dropped += it.dropped,
            Event::CheckpointSaved(_) => counts.checkpoints += 1,
            Event::Decided(it) if matches!(it.decision, Decision::Move(_) | Decision::Resize(_)) => {
                counts.adjustments += 1;
            }
            Event::Validated(it) => self.validated = Some(it.clone()),
            Event::Tested(it) => self.tested = Some(it.clone()),
            Event::RunEnded(_) => self.has_ended = true,
            _ => {}
        }
    }

    fn step(&mut self, step: &StepDone) {
        let counts = &mut self.counts;
        self.seconds += step.seconds;
        if let Some(supply) = step.supply {
            self.waited = Some(self.waited.unwrap_or(0.0) + supply.waited_seconds);
        }
        counts.skipped += step.skipped.len() as u64;
        counts.positions += step.padded_positions();
        counts.real_positions += step.real_positions.unwrap_or(0);
        if step.committed {
            (counts.steps, counts.samples) = (counts.steps + 1, counts.samples + step.n_samples());
        } else {
            counts.given_up += 1;
        }
        self.tasks.iter_mut().zip(&step.tasks).for_each(|(task, it)| task.1 = it.loss.or(task.1));
        self.last = Some(Last {
            done: step.step + 1,
            epoch: step.epoch,
            learning: [step.loss, step.gradient_norm, step.learning_rate],
            sizes: [step.rung.patch_size, step.rung.micro_batch_size],
            memory: [step.peak, step.in_use, step.reserved, step.budget, step.capacity],
            foreseen: [step.predicted, step.upper],
            supply: step.supply,
        });
    }

    /// Writes it in the text exposition format; what is not known yet has no line.
    pub fn to_text(&self) -> String {
        let mut page = Page(String::new());
        let labels = [("job", self.job.as_str()), ("device", self.device.as_str())];
        page.gauge("run_info", "What runs where.", &labels, 1);
        page.gauge("run_ended", "1 once the run has ended.", &[], u8::from(self.has_ended));
        page.gauge("target_steps", "Steps that were asked for.", &[], self.n_steps);
        self.write_last(&mut page);
        self.write_counts(&mut page);
        page.head("task_loss", "Loss of the last step that had samples of a task.", "gauge", !self.tasks.is_empty());
        for (name, loss) in &self.tasks {
            if let Some(it) = loss {
                page.line("task_loss", &[("task", name.as_str())], it);
            }
        }
        if let Some(it) = &self.validated {
            let step = "Steps done before the last validation.";
            page.measured(
                "validation",
                [step, "What the last validation measured.", "What the last validation took."],
                it,
            );
        }
        if let Some(it) = &self.tested {
            let step = "Steps that the tested model had done.";
            page.measured("test", [step, "What the test of the best model measured.", "What the test took."], it);
        }
        page.0
    }

    fn write_last(&self, page: &mut Page) {
        let Some(last) = &self.last else { return };
        page.gauge("done_steps", "Steps that are done, those of earlier processes included.", &[], last.done);
        page.gauge("epoch", "Epoch, from 0.", &[], last.epoch);
        let [loss, gradient_norm, learning_rate] = last.learning;
        page.gauge("loss", "Loss of the last step.", &[], loss);
        page.gauge("gradient_norm", "Global norm of the gradient of the last step.", &[], gradient_norm);
        page.gauge("learning_rate", "Learning rate of the last step.", &[], learning_rate);
        let [patch_size, micro_batch_size] = last.sizes;
        page.gauge("patch_size", "Edge that samples are cut or padded to at most.", &[], patch_size);
        page.gauge("micro_batch_samples", "Samples of a micro-batch at most.", &[], micro_batch_size);
        let names = [
            ("memory_peak_bytes", "High-water mark of the last step."),
            ("memory_in_use_bytes", "In use after the last step."),
            ("memory_reserved_bytes", "Reserved after the last step."),
            ("memory_budget_bytes", "What a step may use."),
            ("memory_capacity_bytes", "What the device has, or what was set."),
        ];
        for ((name, help), it) in names.into_iter().zip(last.memory) {
            page.gauge(name, help, &[], it.0);
        }
        let names = [
            ("memory_predicted_bytes", "Expected peak of the last step."),
            ("memory_upper_bytes", "Upper bound of the peak of the last step."),
        ];
        for ((name, help), it) in names.into_iter().zip(last.foreseen) {
            if let Some(it) = it {
                page.gauge(name, help, &[], it.0);
            }
        }
        if let Some(it) = last.supply {
            page.gauge("stream_workers", "Threads that read samples of the stream.", &[], it.workers);
            page.gauge("stream_ready_steps", "Steps that are collated and wait for their turn.", &[], it.ready_steps);
            page.gauge("stream_buffer_samples", "Samples in the look-ahead buffer.", &[], it.buffered_samples);
            page.gauge("stream_buffer_bytes", "Host memory of these.", &[], it.buffered_bytes.0);
            page.gauge("stream_buffer_ratio", "The part of the buffer that is full.", &[], it.buffer_fill);
        }
    }

    fn write_counts(&self, page: &mut Page) {
        let it = &self.counts;
        for (name, help, n) in [
            ("steps_total", "Steps that the optimizer took in this process.", it.steps),
            ("given_up_steps_total", "Steps that were given up.", it.given_up),
            ("samples_total", "Samples of the steps that the optimizer took.", it.samples),
            ("skipped_samples_total", "Samples that could not be read.", it.skipped),
            ("dropped_samples_total", "Samples at the ends of epochs that made no whole step.", it.dropped),
            ("positions_total", "Positions that the kernels saw, padding included.", it.positions),
            ("real_positions_total", "Positions of the samples themselves, where they are padded.", it.real_positions),
            ("out_of_memory_total", "Attempts that ran out of memory.", it.failures),
            ("bounds_exceeded_total", "Peaks above their upper bound.", it.excesses),
            ("adjustments_total", "Changes of the sizes of steps.", it.adjustments),
            ("checkpoints_total", "Checkpoints that were written.", it.checkpoints),
        ] {
            page.head(name, help, "counter", true);
            page.line(name, &[], n);
        }
        if let Some(waited) = self.waited {
            page.head("stream_waited_seconds_total", "What steps waited for samples of the stream.", "counter", true);
            page.line("stream_waited_seconds_total", &[], waited);
        }
        page.head("step_seconds", "What steps took.", "summary", true);
        page.line("step_seconds_sum", &[], self.seconds);
        page.line("step_seconds_count", &[], it.steps + it.given_up);
    }
}

struct Page(String);

impl Page {
    /// Writes what was measured of what is held out, and helps for its step, its metric and its time.
    fn measured(&mut self, what: &str, [step, metric, seconds]: [&str; 3], it: &Validated) {
        let labels = [("metric", it.metric_name.as_str())];
        self.gauge(&format!("{what}_step"), step, &[], it.step);
        self.gauge(&format!("{what}_metric"), metric, &labels, it.metric);
        self.gauge(&format!("{what}_baseline"), "The same of the trivial baseline.", &labels, it.baseline);
        self.gauge(&format!("{what}_seconds"), seconds, &[], it.seconds);
    }

    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: impl Display) {
        self.head(name, help, "gauge", true);
        self.line(name, labels, value);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str, is_there: bool) {
        if is_there {
            let _ = write!(self.0, "# HELP plimsoll_{name} {help}\n# TYPE plimsoll_{name} {kind}\n");
        }
    }

    /// Writes a number; one that is not finite is `NaN`, `inf` or `-inf`, which the format takes.
    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(name, it)| format!("{name}=\"{}\"", label(it))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "plimsoll_{name}{labels} {value}");
    }
}

/// Writes the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
