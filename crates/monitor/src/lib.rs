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
//! * What a run comes to is summed up as its events are heard, and takes no more memory for more steps.
//! * The same events give the same bytes, with the fonts of this crate and none of the system's.
//! * Pictures are SVG in every build; the feature `png`, which is on by default, draws PNG files from them too.
//!
//! # Example
//!
//! ```
//! use plimsoll_monitor::{History, RunFacts, TrainingReport, decode, encode, memory_timeline};
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
//! let history = History::of(&log.events);
//! let report = TrainingReport::new(&history, RunFacts { seconds: 12.0, ..RunFacts::default() });
//! assert_eq!((report.metric, report.peak_bytes), (Some(31.5), Some(Bytes::mib(64))));
//! assert_eq!(report.samples_per_second, None, "no step was done");
//! assert!(memory_timeline(&history, &RunFacts::default()).svg.starts_with("<svg"));
//! # Ok::<(), plimsoll_monitor::LogError>(())
//! ```

mod adjustment;
mod change;
mod changes;
mod cloud;
mod comparison;
mod csv;
mod dropped;
mod exposition;
mod facts;
mod findings;
mod foreseen;
mod gain;
mod history;
mod html;
mod lasting;
mod learning;
mod levers;
mod limit;
mod log;
mod markdown;
mod median;
mod metrics;
mod outlook;
mod pace;
mod plan;
mod plots;
mod policy;
mod progress;
mod ran;
mod ranks;
mod report;
mod rows;
mod series;
mod source;
mod step_settings;
mod summary;
mod summing_up;
mod supply;
mod table;
mod tail;
mod task;
mod tensorboard;
mod text;
mod usage;
mod verdict;
mod view;
mod work;

pub use adjustment::{Adjustment, Setting};
pub use change::SettingChange;
pub use comparison::{ComparedRun, Comparison};
pub use csv::StepsCsv;
pub use dropped::DroppedReport;
pub use exposition::Exposition;
pub use facts::{MatesKept, Restart, RunFacts, UndoneStep};
pub use foreseen::ForeseenReport;
pub use history::History;
pub use lasting::lasting_line;
pub use learning::ValidationReport;
pub use limit::Limit;
pub use log::{Decoder, Log, LogError, decode, decode_bytes, encode, encode_into};
pub use metrics::{BatchMetrics, EpochMetrics};
pub use outlook::Outlook;
pub use pace::{Ahead, Pace};
pub use plan::{PlanCell, PlanSource, PlanView};
pub use plots::{Plot, loss_comparison, memory_timeline, plan_heat_map, step_curves, task_comparison, training_curves};
pub use progress::{Progress, Supply, Validating};
pub use ran::{EdgeSamples, SizeRate};
pub use ranks::RankReport;
pub use rows::Table;
pub use source::SourceReport;
pub use step_settings::{Bound, ChosenBy, Origin, StepSettings};
pub use summary::TrainingReport;
pub use supply::SupplyReport;
pub use task::TaskReport;
pub use tensorboard::TensorBoard;
pub use usage::Usage;
pub use view::{Colors, Drawn, View};
pub use work::Work;
