//! What happened?
//!
//! Turns the events of a run into the lines of its log, and a log into metrics, a report, a page, pictures and a progress
//! line, what other tools read, and several logs into a comparison; and a memory plan, which says what will happen, into a picture and tables.
//!
//! # Invariants
//!
//! * Text and bytes out, nothing else: no clock, no file, no terminal. The shell writes what it is given.
//! * No metric of its own: every number is an event's, or a sum, maximum, mean or median of events' numbers.
//!   What the events do not say is `null`, never a guess.
//! * The same events give the same bytes, with the fonts of this crate and none of the system's.
//!
//! # Example
//!
//! ```
//! use plimsoll_monitor::{RunFacts, TrainingReport, decode, encode, memory_timeline};
//! use plimsoll_types::{Bytes, Event, Goal, Validated};
//!
//! let line = encode(&Event::Validated(Validated {
//!     step: 50,
//!     metric_name: "PSNR (dB)".into(),
//!     metric: 31.5,
//!     baseline: 28.0,
//!     goal: Some(Goal::Highest),
//!     part: None,
//!     tasks: Vec::new(),
//!     others: Vec::new(),
//!     peak: Bytes::mib(64),
//!     seconds: 0.5,
//! }));
//! let log = decode(&line)?;
//! assert!(!log.truncated);
//!
//! let report = TrainingReport::new(&log.events, RunFacts { seconds: 12.0, ..RunFacts::default() });
//! assert_eq!((report.metric, report.peak_bytes), (Some(31.5), Some(Bytes::mib(64))));
//! assert_eq!(report.samples_per_second, None, "no step was done");
//! assert!(memory_timeline(&log.events, &RunFacts::default()).svg.starts_with("<svg"));
//! # Ok::<(), plimsoll_monitor::LogError>(())
//! ```

mod adjustment;
mod change;
mod comparison;
mod csv;
mod exposition;
mod facts;
mod gain;
mod html;
mod learning;
mod levers;
mod limit;
mod log;
mod metrics;
mod outlook;
mod pace;
mod plan;
mod plots;
mod policy;
mod progress;
mod ranks;
mod report;
mod run;
mod summary;
mod table;
mod task;
mod tensorboard;
mod text;
mod usage;
mod verdict;
mod work;

pub use adjustment::{Adjustment, Setting};
pub use change::SettingChange;
pub use comparison::{ComparedRun, Comparison};
pub use csv::steps_csv;
pub use exposition::Exposition;
pub use facts::{Restart, RunFacts};
pub use learning::ValidationReport;
pub use limit::{Bound, ChosenBy, Limit, Origin, StepSettings};
pub use log::{Log, LogError, decode, decode_bytes, encode, encode_into};
pub use metrics::{batch_metrics, epoch_metrics};
pub use outlook::Outlook;
pub use pace::{Ahead, Pace};
pub use plan::{PlanCell, PlanSource, PlanView};
pub use plots::{Plot, loss_comparison, memory_timeline, plan_heat_map, step_curves, task_comparison, training_curves};
pub use progress::{Progress, Validating};
pub use ranks::RankReport;
pub use summary::TrainingReport;
pub use task::TaskReport;
pub use tensorboard::TensorBoard;
pub use usage::Usage;
pub use work::Work;
