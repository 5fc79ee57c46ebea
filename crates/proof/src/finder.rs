//! How many trials, and how many out of memory, does it take to find a batch size, and how good is it?
//!
//! Every [`Rule`] searches on the same devices through an [`Oracle`], which counts its trials.
//! The rules of other tools are written from their public descriptions; none of their code is used.
//! [`compare`] runs all rules on [`simulated`](Simulated) devices; a real device is driven in the same way, by an
//! oracle whose `step` runs a step and measures it.
//!
//! # What is compared
//!
//! * `trials` and `ooms`: steps that a rule runs, and those that run out of memory, at most over all devices.
//!   One trial is one step here, also where a tool runs several.
//! * `share_of_best`: the answer over the best batch, which is the largest whose need without noise is within the
//!   budget; the mean over all devices, and no safety margin is taken off any answer.
//!   Above 1 the answer rests on luck.
//! * `may_fail`: the share of devices on which the noise can lift a later step of the answer above the budget.
//!   At the best batch it nearly always can.
//!
//! Our rules are told how large the noise is at most, and stay so far below the budget: 0.98 is the most that they can
//! reach on devices whose resident bytes are few.
//! Without a dry run they search by the predictor's bounds from what pages hold, as `plimsoll_plan` does for a program that has
//! none, such as one that lies on several devices; a CPU tells exact peaks, and is searched for real.
//!
//! # Not compared
//!
//! What a trial costs: some tools start the whole training function anew for each.

mod device;
mod oracle;
mod own;
mod random;
mod report;
mod rules;

pub use self::device::{MAX_BATCH, NOISE, Simulated};
pub use self::oracle::{Oracle, Outcome, Pool, Reading, Setting, Tally};
pub use self::random::Random;
pub use self::report::{Answer, Comparison, Row, compare};
pub use self::rules::{RULES, Rule};
