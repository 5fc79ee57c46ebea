//! What a trained model takes, and what it gives.

use plimsoll_signal::{LOWEST_RATE, LogMel};
use serde::{Deserialize, Serialize};

use super::form::Form;

/// The files that a model of sequences reads, and the labels that it tells apart.
///
/// Kept beside a run's checkpoints, because these hold neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The labels, in the order of the model's outputs.
    pub labels: Vec<String>,
    input: Input,
    /// The most frames of a file; those that follow are cut off.
    longest: u32,
}

/// What the files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Input {
    /// Sound, which is resampled to this rate in Hz.
    Sound { rate: u32 },
    /// Traces of a pen.
    Traces,
}

impl Signature {
    /// Says what a model takes and gives that tells these labels apart, in files of a form whose frames after `longest` are
    /// cut off.
    pub(super) fn of(labels: Vec<String>, form: &Form, longest: u32) -> Self {
        let input = match form {
            Form::Sound(mel) => Input::Sound { rate: mel.rate() },
            Form::Strokes => Input::Traces,
        };
        Self { labels, input, longest }
    }

    /// Reads what [`Self::to_json`] has written.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let signature: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        match signature {
            Self { ref labels, .. } if labels.len() < 2 => {
                Err(format!("`labels` has {}, at least 2 are told apart", labels.len()))
            }
            Self { longest: 0, .. } => Err("`longest` is 0, a file has at least one frame".to_owned()),
            Self { input: Input::Sound { rate }, .. } if rate < LOWEST_RATE => {
                Err(format!("`rate` is {rate} Hz, at least {LOWEST_RATE} are needed"))
            }
            signature => Ok(signature),
        }
    }

    /// Writes it as JSON.
    pub fn to_json(&self) -> String {
        // There is nothing in it that JSON has no word for.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    pub(super) fn form(&self) -> Form {
        match self.input {
            Input::Sound { rate } => Form::Sound(LogMel::new(rate)),
            Input::Traces => Form::Strokes,
        }
    }

    pub(super) fn longest(&self) -> u32 {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_was_spoilt_is_refused() {
        let labels = vec!["a \"b\"".to_owned(), "é".to_owned()];
        for input in [Input::Sound { rate: 8000 }, Input::Traces] {
            let signature = Signature { labels: labels.clone(), input, longest: 90 };
            assert_eq!(Signature::from_json(&signature.to_json()), Ok(signature));
        }
        let refused = |json: &str, part: &str| {
            let reason = Signature::from_json(json).unwrap_err();
            assert!(reason.contains(part), "{reason}");
        };
        refused("[]", "invalid");
        refused(r#"{"labels":["a"],"input":"traces","longest":9}"#, "`labels` has 1");
        refused(r#"{"labels":["a","b"],"input":"traces","longest":0}"#, "`longest` is 0");
        refused(r#"{"labels":["a","b"],"input":{"sound":{"rate":99}},"longest":9}"#, "`rate` is 99 Hz");
        refused(r#"{"labels":["a","b"],"input":"traces","longest":9,"rate":1}"#, "unknown field `rate`");
    }
}
