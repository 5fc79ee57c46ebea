//! What is computed, and read later.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use plimsoll_probe::Probe;
use plimsoll_types::Attempt;

use crate::error::{ReadError, read_values};
use crate::issue::{Loss, read_of_part};

/// What a part has computed, and nobody has read.
pub(super) struct Unread {
    /// The losses, and what depends on everything else that the part has made.
    pub(super) values: Option<Tensor<1>>,
    /// How many of the values are losses.
    pub(super) n_losses: usize,
}

impl Unread {
    /// Gathers what is read of a part; see [`read_of_part`].
    pub(super) fn of<M: Module>(loss: Option<Loss>, checked: Option<(&M, &GradientsParams, &Device)>) -> Self {
        let n_losses = loss.as_ref().map_or(0, |it| 1 + it.of_tasks.as_ref().map_or(0, |it| it.dims()[0]));
        Self { values: read_of_part(loss, checked), n_losses }
    }

    /// Returns how many values are read.
    pub(super) fn n_values(&self) -> usize {
        self.values.as_ref().map_or(0, |it| it.dims()[0])
    }

    /// Reads the losses, which are there only where everything else is.
    pub(super) fn read(self, probe: &dyn Probe) -> Result<Vec<f64>, ReadError> {
        let Some(values) = self.values else { return Ok(Vec::new()) };
        let mut values = read_values(values, probe)?;
        values.truncate(self.n_losses);
        Ok(values)
    }
}

/// A part that is read with the step.
pub(super) struct UnreadPart {
    pub(super) attempt: Attempt,
    pub(super) unread: Unread,
    pub(super) n_units: u64,
}
