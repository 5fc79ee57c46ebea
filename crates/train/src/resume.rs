//! Whether a run may go on with these settings.

use plimsoll_types::Event;
use serde_json::Value;

use crate::balance::TaskBalance;
use crate::controller::ControllerConfig;
use crate::error::TrainError;

/// Compares the settings with those in the log's head.
///
/// # Errors
///
/// [`TrainError::Changed`] names the first setting of predictor, policy or device that is not what it was: the state
/// in the checkpoint belongs to the old one.
pub(crate) fn check(head: Option<&Event>, controller: &ControllerConfig, device: &str) -> Result<(), TrainError> {
    let Some(Event::RunStarted(head)) = head else {
        return Err(TrainError::Head("it is not `run_started`".to_owned()));
    };
    let unreadable = |error: serde_json::Error| TrainError::Head(error.to_string());
    let was = without_plan(serde_json::from_str(&head.controller).map_err(unreadable)?);
    let now = without_plan(serde_json::to_value(controller).map_err(unreadable)?);
    let device = (Value::from(head.device.as_str()), Value::from(device));
    let changed = difference("", &was, &now).or_else(|| difference("device", &device.0, &device.1));
    changed.map_or(Ok(()), |(key, was, now)| Err(TrainError::Changed { key, was, now }))
}

/// Compares the settings of a balance in a checkpoint with those of a new one.
///
/// # Errors
///
/// [`TrainError::Changed`].
pub(crate) fn check_balance(was: &TaskBalance, now: &TaskBalance) -> Result<(), TrainError> {
    let (was, now) = (was.settings(), now.settings());
    if was == now { Ok(()) } else { Err(TrainError::Changed { key: "tasks".to_owned(), was, now }) }
}

/// Leaves out what depends on the plan, which the checkpoint holds, and which another capacity changes.
fn without_plan(mut controller: Value) -> Value {
    if let Value::Object(settings) = &mut controller {
        settings.remove("planned");
        let Some(policy) = settings.get_mut("policy").and_then(Value::as_object_mut) else { return controller };
        policy.remove("start");
        if policy.get("from_plan") == Some(&Value::Bool(true)) {
            settings.remove("policy");
        }
    }
    controller
}

/// Returns the path of the first value that differs, with both values.
fn difference(path: &str, was: &Value, now: &Value) -> Option<(String, String, String)> {
    let (Value::Object(before), Value::Object(after)) = (was, now) else {
        return (was != now).then(|| (path.to_owned(), was.to_string(), now.to_string()));
    };
    let below = |key: &String| if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
    let missing = Value::Null;
    before.keys().chain(after.keys()).find_map(|key| {
        difference(&below(key), before.get(key).unwrap_or(&missing), after.get(key).unwrap_or(&missing))
    })
}
