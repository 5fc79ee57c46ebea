//! What is configured of tasks, held against those that there are.

use plimsoll_sampler::{PlanError, SamplerError, StreamError, temperature_shares};
use plimsoll_train::Index;

use super::Settings;
use crate::exit::{UserError, user_error};
use crate::values::{BalanceKind, EpochEnds};

impl Settings {
    /// Refuses weights of other tasks than these, and those that would not count.
    pub(crate) fn check_weights(&self, names: &[String]) -> Result<(), UserError> {
        let Some(weights) = &self.tasks.weights.0 else { return Ok(()) };
        if self.tasks.balance == BalanceKind::GradNorm {
            return Err(refused(
                "weights",
                weights,
                "\"default\" where `tasks.balance` is \"gradnorm\", which finds them",
            ));
        }
        if weights.len() == names.len() && weights.iter().all(|it| 0.0 < *it) {
            return Ok(());
        }
        Err(refused("weights", weights, &format!("a number above 0 {}, or \"default\"", for_each(names))))
    }

    /// Returns the share of each task that `tasks.temperature` makes of how many samples it has, where that is 1 only if
    /// `tasks.ends` asks for shares.
    pub(crate) fn shares_by_temperature(&self, index: Option<&Index>) -> Result<Option<Vec<f64>>, UserError> {
        let temperature = self.tasks.temperature;
        let is_own = (temperature - 1.0).abs() < f64::EPSILON;
        let refused = |allowed: &str| {
            let (key, value) = if is_own {
                ("ends", format!("{:?}", self.tasks.ends.word()))
            } else {
                ("temperature", temperature.to_string())
            };
            user_error(format!("use the configuration: `tasks.{key}` is {value}, allowed is {allowed}"))
        };
        if is_own && (self.tasks.ends == EpochEnds::AllOnce || self.tasks.shares.0.is_some()) {
            return Ok(None);
        }
        if self.tasks.shares.0.is_some() {
            return Err(refused("1 where `tasks.shares` are given"));
        }
        let tasks = index.and_then(Index::tasks);
        let usual = if is_own { "\"all-once\"" } else { "1" };
        let tasks = tasks.ok_or_else(|| refused(&format!("{usual} for samples of one task, or that are streamed")))?;
        let mut sizes = vec![0; tasks.iter().max().map_or(1, |most| usize::from(*most) + 1)];
        for task in tasks {
            sizes[usize::from(*task)] += 1;
        }
        temperature_shares(&sizes, temperature)
            .map(Some)
            .map_err(|error| refused(&format!("a number above 0: {error}")))
    }

    /// Says why samples of these tasks cannot be mixed as they are asked to be.
    pub(crate) fn refused_shares(&self, error: &SamplerError, names: &[String]) -> UserError {
        let shares = self.tasks.shares.0.as_deref().unwrap_or_default();
        let allowed = match error {
            SamplerError::Plan(PlanError::ShareCount { .. }) => format!("a number {}, or \"default\"", for_each(names)),
            SamplerError::Plan(PlanError::Share { task, n_samples, .. }) => {
                let name = names.get(*task).map_or("a task", String::as_str);
                format!("a number above 0 for `{name}`, which has {n_samples} samples")
            }
            SamplerError::Plan(PlanError::ShareSum { sum }) => {
                let sum = (sum * 1e6).round() / 1e6;
                format!("a sum of 1, and not {sum}, unless `tasks.normalize_shares` is true")
            }
            SamplerError::Stream(StreamError::StreamShares) => {
                "\"default\" for samples that are streamed, which have the tasks that come".to_owned()
            }
            other => return user_error(format!("use the configuration: `tasks.shares`: {other}")),
        };
        refused("shares", shares, &allowed)
    }
}

fn for_each(names: &[String]) -> String {
    format!("for each of {} tasks ({})", names.len(), names.join(", "))
}

fn refused(key: &str, numbers: &[f64], allowed: &str) -> UserError {
    let numbers = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    user_error(format!("use the configuration: `tasks.{key}` is \"{numbers}\", allowed is {allowed}"))
}
