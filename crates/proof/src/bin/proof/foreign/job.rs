//! A foreign model as a job.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use plimsoll_train::{Inference, Job, Loss, StepError, Validation};
use plimsoll_types::{Features, StepShape};

use super::Foreign;
use super::noise::{Noise, NoiseBuffer};

/// A model that trains on noise.
pub(crate) struct ForeignJob<F> {
    source: Arc<Noise>,
    model: PhantomData<fn() -> F>,
}

impl<F: Foreign> ForeignJob<F> {
    /// Returns the job of a model.
    pub(crate) fn new() -> Self {
        Self { source: Arc::new(Noise { n_values: n_values::<F> }), model: PhantomData }
    }
}

fn n_values<F: Foreign>(edge: usize) -> usize {
    F::sample(edge).iter().product()
}

impl<F: Foreign> Job for ForeignJob<F> {
    type Source = Noise;
    type Model = F;
    /// The samples, and their edge.
    type Batch = (Tensor<2>, usize);

    fn name(&self) -> &'static str {
        F::NAME
    }

    fn program(&self) -> String {
        F::NAME.to_owned()
    }

    fn fingerprint(&self) -> String {
        F::NAME.to_owned()
    }

    fn features(&self) -> Features {
        F::features()
    }

    fn source(&self) -> Arc<Noise> {
        Arc::clone(&self.source)
    }

    fn init(&self, device: &Device) -> F {
        F::init(device)
    }

    fn batch(&self, buffer: &NoiseBuffer, samples: Range<usize>, device: &Device) -> Self::Batch {
        let edge = buffer.edges[samples.start] as usize;
        let start = buffer.edges[..samples.start].iter().map(|it| n_values::<F>(*it as usize)).sum::<usize>();
        let shape = [samples.len(), n_values::<F>(edge)];
        let values = buffer.values[start..start + shape[0] * shape[1]].to_vec();
        (Tensor::from_data(TensorData::new(values, shape), device), edge)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Self::Batch {
        let edge = shape.edge() as usize;
        (Tensor::zeros([shape.samples as usize, n_values::<F>(edge)], device), edge)
    }

    fn mean_loss(&self, model: &F, (samples, edge): Self::Batch, _task_weights: &[f32]) -> Loss {
        model.loss(in_format_of(model, samples), edge).into()
    }

    fn blank_forward(&self, model: &F, shape: StepShape, device: &Device) -> Tensor<1> {
        let (samples, edge) = self.blank_batch(shape, device);
        model.outputs(in_format_of(model, samples), edge)
    }

    fn validate(
        &self,
        _model: &F,
        _device: &Device,
        _inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        unreachable!("nothing here is trained to be validated")
    }
}

/// Returns samples in the number format of the weights that they meet.
fn in_format_of(model: &impl Module, samples: Tensor<2>) -> Tensor<2> {
    let mut format = Format { of_weights: samples.dtype() };
    model.visit(&mut format);
    samples.cast(format.of_weights)
}

/// Reads the number format of a model.
struct Format {
    of_weights: DType,
}

impl ModuleVisitor for Format {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.of_weights = param.val().dtype();
    }
}
