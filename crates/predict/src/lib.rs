//! How much memory will this step need?
//!
//! A [`Predictor`] learns from the peaks of steps that ran and answers, for a step of any other shape, with a
//! [`Prediction`](plimsoll_types::Prediction): the best guess and an upper bound of the bytes in use.
//! The bound comes from a [`Certificate`], a linear program over the observed peaks, and not from a statistical margin:
//! it is finite after one observation.
//! [`Reserved`] goes on to the bytes that an allocator reserves in pages: by memo of what has run, by what was planned,
//! or by the certificate; a [`Correction`] adds what real steps hold beyond a plan, and a [`PageOwner`] says whose need a
//! reading of pages shows.
//!
//! No bound on reserved bytes of a shape that was neither run nor planned is tight, so that a run uses a finite set of
//! shapes, padded to edges that are chosen once (`edges` and `cells` of `plimsoll-sampler`); where no step can be planned, an
//! [`Explorer`] says which ones to try.
//! A [`Coverage`] states how often a bound was violated, with the sample size that the statement rests on.
//!
//! # Invariants
//!
//! * No device, clock, file or randomness: the same observations in the same order give the same predictions, and a
//!   restored predictor equals the one that was saved.
//! * `expected` is never above `upper`, and `upper` is never below a reading of the same shape that is still kept.
//! * Observations of different [`Key`]s never mix: another phase, [`Platform`] or kernel is another program.
//! * Arithmetic saturates; no shape and no size panics.
//!
//! # Example
//!
//! ```
//! use plimsoll_predict::{Key, Phase, Platform, Predictor, PredictorConfig};
//! use plimsoll_types::{Bytes, Observation, StepShape};
//!
//! let mut predictor = Predictor::try_new(PredictorConfig::default())?;
//! let key = Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 };
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
//!   the job's [`Features`](plimsoll_types::Features) and is freed at the same point for every shape.
//!   Hence also, above what is resident: a larger shape never has a smaller bound, and another observation raises it
//!   nowhere. `k` times the samples have at most `k^s` times the bound, and `k` times all edges at most `k^d` times, where
//!   `s` is the greatest exponent of the samples in a feature, and `d` the greatest sum of the exponents of edges in one.
//!   With the complete features that is `k` and `k²`, over three axes `k` and `k³`; features that a job names may have
//!   exponents of up to [`MAX_EXPONENT`](plimsoll_types::MAX_EXPONENT).
//!   What is packed for a product of matrices is no such combination: the most that ever was stands on top, and rises with a
//!   reading that packed more ([`Predictor`]).
//! * **Proved**, whatever the readings are: a shape that is kept is bounded by what was read of it in its last 16 readings
//!   at least, and by one above its bound for 48 readings of the key; such a one lifts the whole key at once, by the factor
//!   that was lacking, and is counted ([`Predictor::n_violations`]); after it, a [`Ratchet`] is not exceeded again
//!   for 446 observations by anything as large.
//! * **Measured**, on simulated programs: 1 % covers what an allocator's alignment adds
//!   ([`PredictorConfig::rounding_margin`]; 0 of 10 000 shapes above, each program after ten observations); 2 % covers
//!   the noise of a shape that repeats; the certificate route to *reserved* bytes was exceeded by 0.5 % of unseen shapes,
//!   and by 0.05 % where only pages were read ([`Reserved`]); the trials of an [`Explorer`] certify 99 % of what fits.
//!   Shapes of one program are not independent: no interval is claimed beyond these programs.
//! * **Assumed**: [`PredictorConfig::regime_margin`] for a regime that has not been observed; that a planned shape
//!   reserves at least as much as a shape that it covers.
//! * **Not covered**: fragmentation that no observation or plan has shown; what one shape leaves in the pool for the
//!   next, beyond what was planned; memory of other processes; a shape whose kernels differ from those of every
//!   observation under the same key.
//!   Burn 0.22 has such kernels on every device: `Linear` over three axes multiplies all rows at once or sample by sample,
//!   by a rule over the batch, the length and the layer's width (`burn_std::MatmulTransformPolicy`), and gives each sample
//!   a gradient of the layer of its own in the second case; a model that flattens to rows first is one program.
//!   On Flex a batch may take more than single samples say, since permuting the axes of a batch of one copies nothing: from
//!   the first batch on that shows it, what was read of single samples counts as so much more, for good (11 of 10 000
//!   readings above their bounds in a simulation, 309 without).
//!   The first reading above its bound lifts the key ([`Residual::violated`], [`ReservedResidual::widened`]), but that one
//!   step was not foreseen.
//!
//! No statistic of ten readings can promise 99.9 %: that takes a thousand independent ones (see [`Coverage`]).
//! What is promised after ten readings rests on the structure of a step alone.
//!
//! # Sources
//!
//! * Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models* (arXiv 2205.05198), for
//!   activations that grow with `B·L` and `B·L²`.
//! * Lawson and Hanson, *Solving Least Squares Problems* (1974), for non-negative least squares.
//! * Clopper and Pearson, *The use of confidence or fiducial limits illustrated in the case of the binomial* (1934).
//! * Bland, *New finite pivoting rules for the simplex method* (1977).
//! * Gass and Saaty, *The computational algorithm for the parametric objective function* (1955), for all batches of an
//!   extent at once; Harris, *Pivot selection methods of the Devex LP code* (1973).

mod alone;
mod approach;
mod binomial;
mod certificate;
mod config;
mod correction;
mod coverage;
mod error;
mod estimate;
mod explorer;
mod graph;
mod judged;
mod key;
mod lift;
mod model;
mod page;
mod page_owner;
mod platform;
mod predictor;
mod ratchet;
mod reading;
mod recent;
mod reserved;
mod row;
mod shape_readings;
mod simplex;

pub use approach::{Approach, Reach};
pub use certificate::{Certificate, ShapeNeed};
pub use config::PredictorConfig;
pub use correction::{Booked, Correction, Measured};
pub use coverage::{Coverage, clopper_pearson};
pub use error::PredictError;
pub use explorer::{Explorer, Probe, StopReason};
pub use graph::SMALL_GRAPH;
pub use key::{Key, Keys};
pub use page::page_for;
pub use page_owner::{Entered, Found, PageOwner};
pub use platform::{Dtype, Platform};
pub use plimsoll_types::Phase;
pub use predictor::{KEPT_SHARE, Predictor, Residual};
pub use ratchet::Ratchet;
pub use reading::{PartReading, Peak, Violation};
pub use reserved::{Reserved, ReservedObservation, ReservedPrediction, ReservedResidual, Source};

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
