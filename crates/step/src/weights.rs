//! Weights, which are the same on all ranks.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use plimsoll_fleet::fingerprint;
use plimsoll_probe::Probe;

use crate::error::{ReadError, StepError, read_data};
use crate::flat::is_trained;
use crate::guarded::GuardedStep;
use crate::readiness::Readiness;

impl GuardedStep {
    /// Takes over the weights of the first rank, those that are not trained too: ranks that drew their own would train models
    /// of their own.
    ///
    /// # Errors
    ///
    /// [`StepError`] where weights cannot be read, or the ranks are not together.
    pub fn take_over<M: Module>(&mut self, model: M) -> Result<M, StepError> {
        if self.team().is_alone() {
            return Ok(model);
        }
        let is_first = self.team().rank() == 0;
        // Weights that were never used are drawn when they are read. Threads of one process draw from one generator, and the
        // first has it for itself, as a run on one device does.
        let first = if is_first { Some(self.weights_of(&model, Which::All)?) } else { None };
        self.team().meet(Readiness::Ready, &[])?;
        let mut bytes = first.map_or_else(|| self.weights_of(&model, Which::All), Ok)?;
        self.team().broadcast(&mut bytes)?;
        Ok(if is_first { model } else { with_weights(model, &bytes) })
    }

    /// Refuses to go on where ranks have come to other weights than the first.
    ///
    /// # Errors
    ///
    /// [`StepError::OtherWeights`], or as [`Self::take_over`].
    pub fn check_weights<M: Module>(&mut self, model: &M) -> Result<(), StepError> {
        if self.team().is_alone() {
            return Ok(());
        }
        // What a forward pass changes is each rank's own.
        let own = fingerprint(&self.weights_of(model, Which::Trained)?);
        let all = self.team().meet(Readiness::Ready, &[own])?;
        let other = (0..).zip(&all).find(|(_, it)| **it != all[0]);
        other.map_or(Ok(()), |(rank, _)| Err(StepError::OtherWeights { rank, step: self.team().step() }))
    }

    fn weights_of<M: Module>(&self, model: &M, which: Which) -> Result<Vec<u8>, StepError> {
        weights(model, which, self.probe()).map_err(|error| match error {
            ReadError::Other(error) => *error,
            ReadError::OutOfMemory { .. } | ReadError::NeverFits { .. } => StepError::Damaged,
        })
    }
}

/// Which weights of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// Those that are not trained too.
    All,
    /// Those that are.
    Trained,
}

/// Returns weights of a model as the bytes of numbers of 32 bits.
fn weights<M: Module>(model: &M, which: Which, probe: &dyn Probe) -> Result<Vec<u8>, ReadError> {
    let bytes = Vec::with_capacity(model.num_params() * size_of::<f32>());
    let mut reader = WeightReader { which, probe, bytes, error: None };
    model.visit(&mut reader);
    reader.error.map_or(Ok(reader.bytes), Err)
}

struct WeightReader<'a> {
    which: Which,
    probe: &'a dyn Probe,
    bytes: Vec<u8>,
    error: Option<ReadError>,
}

impl ModuleVisitor for WeightReader<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.error.is_some() || (self.which == Which::Trained && !is_trained(param)) {
            return;
        }
        match read_data(param.val().inner(), self.probe) {
            Ok(data) => data.iter::<f32>().for_each(|it| self.bytes.extend(it.to_le_bytes())),
            Err(error) => self.error = Some(error),
        }
    }
}

/// Puts the weights into a model that [`weights`] has returned of all.
fn with_weights<M: Module>(model: M, bytes: &[u8]) -> M {
    model.map(&mut WeightWriter { bytes })
}

struct WeightWriter<'a> {
    bytes: &'a [u8],
}

impl ModuleMapper for WeightWriter<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let (shape, dtype, device) = (tensor.shape(), tensor.dtype(), tensor.device());
            let (own, rest) = self.bytes.split_at(shape.num_elements() * size_of::<f32>());
            self.bytes = rest;
            let number = |it: &[u8]| f32::from_le_bytes([it[0], it[1], it[2], it[3]]);
            let values: Vec<_> = own.chunks_exact(size_of::<f32>()).map(number).collect();
            let data = TensorData::new(values, shape).convert_dtype(dtype);
            Tensor::from_data(data, &device).set_require_grad(tensor.is_require_grad())
        })
    }
}
