//! How much memory will this step need?
//!
//! A [`Predictor`] learns from the peaks of steps that ran and answers, for a step of any other shape, with a
//! [`Prediction`](plimsoll_types::Prediction): the best guess and an upper bound.
//! The bound comes from a [`Certificate`], a linear program over the observed peaks, and not from a statistical margin:
//! it is finite after one observation.
//!
//! # Invariants
//!
//! * No device, clock, file or randomness: the same observations in the same order give the same predictions, and a
//!   restored predictor equals the one that was saved.
//! * `expected` is never above `upper`, and `upper` is never below a peak that was observed at the same shape and is
//!   still kept.
//! * Observations of different [`Key`]s never mix: another phase, or another kernel, is another program.
//! * Arithmetic saturates; no shape and no size panics.
//!
//! # Example
//!
//! ```
//! use plimsoll_predict::{Key, Phase, Predictor, PredictorConfig};
//! use plimsoll_types::{Bytes, Observation, StepShape};
//!
//! let mut predictor = Predictor::try_new(PredictorConfig::default())?;
//! let key = Key { phase: Phase::Train, checkpointing: false, regime: 0 };
//! let resident = Bytes::mib(100);
//! predictor.observe(key, Observation { shape: StepShape::new(2, 64), resident, peak: Bytes::mib(300) })?;
//!
//! // Four times the samples need at most four times the 200 MiB above the resident 100 MiB, and 1 % of rounding.
//! let prediction = predictor.predict(key, StepShape::new(8, 64), resident).ok_or("one observation is enough")?;
//! assert!(prediction.upper >= Bytes::mib(900));
//! assert!(prediction.upper <= Bytes::mib(909));
//! assert!(prediction.expected <= prediction.upper);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is proved, measured, and not covered
//!
//! * **Proved**, when every step of a key is one fixed program and no peak is read too low: the bound is never below
//!   the peak, and no tighter bound follows from the same readings ([`Certificate`]).
//!   *Fixed program* means that each tensor's size is a non-negative combination of
//!   [`StepShape::features`](plimsoll_types::StepShape::features) and is freed at the same point for every shape.
//! * **Measured**: 1 % covers what an allocator's alignment adds ([`PredictorConfig::rounding_margin`]).
//! * **Assumed**: [`PredictorConfig::regime_margin`] for a regime that has not been observed.
//! * **Not covered**: fragmentation that no observation has shown; memory of other processes; a shape whose kernels
//!   differ from those of every observation under the same key. The first peak above the bound widens the whole key
//!   ([`Residual::violated`]), but that one step was not foreseen.
//!
//! # Sources
//!
//! * Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models* (arXiv 2205.05198), for
//!   activations that grow with `B·L` and `B·L²`.
//! * Lawson and Hanson, *Solving Least Squares Problems* (1974), for non-negative least squares.
//! * Bland, *New finite pivoting rules for the simplex method* (1977).

mod certificate;
mod config;
mod estimate;
mod key;
mod model;
mod predictor;
mod simplex;

pub use certificate::{Certificate, ShapeNeed};
pub use config::{PredictError, PredictorConfig};
pub use key::{Key, Phase};
pub use predictor::{Predictor, Residual};
