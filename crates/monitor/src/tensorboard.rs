//! The numbers of a run as TensorBoard reads them.

mod record;

use plimsoll_types::{Event, StepDone, Validated};

use self::record::{Records, Scalar};
use crate::work::{Work, rate};

/// Turns events into the bytes of an event file, a step at a time; in the steady state without taking memory.
///
/// What is returned for one event after the other is a file. A run that goes on begins another file in the same folder: its
/// first record, and one wherever steps are done again, tells TensorBoard to forget what it knows of the steps from there on.
///
/// # Sources
///
/// `event.proto` and `summary.proto` of TensorFlow. Crates that write such files were looked at: `tensorboard-rs` 0.5.9 reads
/// the clock itself, names its files by it and brings an image library, `tfrecord` 0.15 a protocol compiler; of the format,
/// scalars take five fields.
#[derive(Clone, Debug, Default)]
pub struct TensorBoard {
    records: Records,
    /// The step after the last one in the file.
    next: Option<u64>,
    /// The tags of the loss and of the weight of each task.
    tasks: Vec<[String; 2]>,
    /// Attempts that ran out of memory.
    n_failed: u64,
}

impl TensorBoard {
    /// Returns what an event adds to the file, `wall_time` seconds after 1970: nothing, where it has no number.
    ///
    /// A validation is shown at the step after which it was made, the test at the last step.
    pub fn hear(&mut self, event: &Event, wall_time: f64) -> &[u8] {
        self.records.clear();
        match event {
            Event::RunStarted(it) => self.tasks = it.tasks.iter().map(|it| tags(it)).collect(),
            Event::StepFailed(_) => self.n_failed += 1,
            Event::StepDone(it) => {
                self.begin(it.step, wall_time);
                self.next = Some(it.step + 1);
                self.step(it, wall_time);
            }
            Event::Validated(it) => {
                self.begin(it.step, wall_time);
                self.measured("validation", (it, it.step.saturating_sub(1)), wall_time);
            }
            // At the end of the run, whichever step its model is of: an earlier one would make void what followed.
            Event::Tested(it) => {
                let last = self.next.unwrap_or(it.step).saturating_sub(1);
                self.begin(last + 1, wall_time);
                self.measured("test", (it, last), wall_time);
            }
            _ => {}
        }
        self.records.bytes()
    }

    /// Begins the file, or a step that comes again.
    fn begin(&mut self, step: u64, wall_time: f64) {
        if self.next.is_none() {
            self.records.version(wall_time);
        }
        if self.next.is_none_or(|next| step < next) {
            self.records.begin(step, wall_time);
            self.next = Some(step);
        }
    }

    fn step(&mut self, step: &StepDone, wall_time: f64) {
        let work = Work::of(step);
        let some = |it: &plimsoll_types::Bytes| Some(it.as_f64());
        let scalars: [(&str, Option<f64>); 22] = [
            ("loss/training", Some(step.loss)),
            ("step/gradient_norm", Some(step.gradient_norm)),
            ("step/learning_rate", Some(step.learning_rate)),
            ("step/seconds", Some(step.seconds)),
            ("step/samples", Some(step.n_samples() as f64)),
            ("step/samples_per_second", rate(step.n_samples(), step.seconds)),
            ("step/real_positions_per_second", work.and_then(|it| it.real_positions_per_second)),
            ("step/padding", work.map(|it| it.padding)),
            ("step/out_of_memory_total", Some(self.n_failed as f64)),
            ("sizes/patch_size", Some(step.rung.patch_size.into())),
            ("sizes/micro_batch_size", Some(step.rung.micro_batch_size.into())),
            ("sizes/micro_batches", Some(step.micro_batches.len() as f64)),
            ("stream/waited_seconds", step.supply.map(|it| it.waited_seconds)),
            ("stream/ready_steps", step.supply.map(|it| it.ready_steps.into())),
            ("stream/buffer_fill", step.supply.map(|it| it.buffer_fill)),
            ("memory/peak_bytes", some(&step.peak)),
            ("memory/predicted_bytes", step.predicted.as_ref().and_then(some)),
            ("memory/upper_bytes", step.upper.as_ref().and_then(some)),
            ("memory/budget_bytes", some(&step.budget)),
            ("memory/in_use_bytes", some(&step.in_use)),
            ("memory/reserved_bytes", some(&step.reserved)),
            ("memory/budget_share", Some(step.peak.share_of(step.budget)).filter(|it| it.is_finite())),
        ];
        let known = scalars.iter().filter_map(|(tag, value)| Some(Scalar { tag, value: (*value)? }));
        let of_tasks = self.tasks.iter().zip(&step.tasks).flat_map(|([loss, weight], it)| {
            [it.loss.map(|value| Scalar { tag: loss, value }), Some(Scalar { tag: weight, value: it.weight })]
        });
        self.records.scalars(step.step, wall_time, known.chain(of_tasks.flatten()));
    }

    /// Shows what was measured of samples that are not trained on at a step, below this name.
    fn measured(&mut self, name: &str, (it, step): (&Validated, u64), wall_time: f64) {
        let [metric, baseline, seconds, peak] =
            [it.metric_name.as_str(), "baseline", "seconds", "peak_bytes"].map(|it| format!("{name}/{it}"));
        let scalars = [
            Scalar { tag: &metric, value: it.metric },
            Scalar { tag: &baseline, value: it.baseline },
            Scalar { tag: &seconds, value: it.seconds },
            Scalar { tag: &peak, value: it.peak.as_f64() },
        ];
        self.records.scalars(step, wall_time, scalars.into_iter());
    }
}

fn tags(task: &str) -> [String; 2] {
    [format!("task_loss/{task}"), format!("task_weight/{task}")]
}
