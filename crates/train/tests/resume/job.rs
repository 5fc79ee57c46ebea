//! A job whose steps draw random numbers on the device, and whose metric follows its weights.

use std::ops::Range;
use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use plimsoll_train::{Draw, Goal, Inference, Job, Loss, Metric, Source, SourceError, StepError, Validation};
use plimsoll_types::{Bytes, StepShape};

pub(crate) const N_SAMPLES: u64 = 22;
const WIDTH: usize = 8;

/// Rows of numbers that depend on their id.
pub(crate) struct Rows;

impl Source for Rows {
    type Item = ();
    type Buffer = Vec<f32>;

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(u64::from(largest.samples) * 4 * WIDTH as u64)
    }

    fn buffer(&self, largest: StepShape) -> Vec<f32> {
        vec![0.0; largest.samples as usize * WIDTH]
    }

    fn read(&self, _epoch: u64, _id: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn collate(&self, draw: &Draw, _items: &[()], values: &mut Vec<f32>) -> Result<(), SourceError> {
        for (row, id) in values.chunks_exact_mut(WIDTH).zip(draw.ids()) {
            for (at, value) in row.iter_mut().enumerate() {
                *value = ((id * 31 + at as u64 * 7 + draw.epoch) % 17) as f32 / 17.0;
            }
        }
        Ok(())
    }
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    hidden: Linear,
    out: Linear,
}

pub(crate) struct Noisy;

fn squared_error(net: &Net, rows: Tensor<2>) -> Tensor<1> {
    let target = rows.clone().mean_dim(1);
    (net.out.forward(net.hidden.forward(rows).tanh()) - target).powi_scalar(2).mean()
}

/// What the test of a model comes to: no noise, so that it tells one model from another.
pub(crate) fn tested(net: &Net, device: &Device) -> f64 {
    let rows = (0..32).map(|at| (at * at % 7) as f32 / 7.0).collect();
    let rows = Tensor::from_data(TensorData::new(rows, [32 / WIDTH, WIDTH]), device);
    f64::from(squared_error(net, rows).into_scalar::<f32>())
}

impl Job for Noisy {
    type Source = Rows;
    type Model = Net;
    type Batch = Tensor<2>;

    fn name(&self) -> &'static str {
        "noisy"
    }

    fn program(&self) -> String {
        self.fingerprint()
    }

    fn fingerprint(&self) -> String {
        "noisy".to_owned()
    }

    fn source(&self) -> Arc<Rows> {
        Arc::new(Rows)
    }

    fn init(&self, device: &Device) -> Net {
        Net { hidden: LinearConfig::new(WIDTH, 6).init(device), out: LinearConfig::new(6, 1).init(device) }
    }

    fn batch(&self, values: &Vec<f32>, samples: Range<usize>, device: &Device) -> Tensor<2> {
        let data = values[samples.start * WIDTH..samples.end * WIDTH].to_vec();
        Tensor::from_data(TensorData::new(data, [samples.len(), WIDTH]), device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Tensor<2> {
        Tensor::zeros([shape.samples as usize, WIDTH], device)
    }

    fn mean_loss(&self, net: &Net, rows: Tensor<2>, _task_weights: &[f32]) -> Loss {
        let noise = Tensor::random(rows.dims(), Distribution::Normal(0.0, 0.1), &rows.device());
        squared_error(net, rows + noise).into()
    }

    fn blank_forward(&self, net: &Net, shape: StepShape, device: &Device) -> Tensor<1> {
        squared_error(net, self.blank_batch(shape, device))
    }

    fn has_test(&self) -> bool {
        true
    }

    fn test(&self, net: &Net, device: &Device, _: &mut Inference<'_>) -> Result<Option<Validation>, StepError> {
        Ok(Metric { name: "error".to_owned(), value: tested(net, device), baseline: 1.0, goal: Goal::Lowest }.into())
    }

    fn validate(&self, net: &Net, device: &Device, _: &mut Inference<'_>) -> Result<Option<Validation>, StepError> {
        let noise = Tensor::random([4, WIDTH], Distribution::Default, device);
        let value = squared_error(net, noise).into_scalar::<f32>();
        let (name, value) = ("error".to_owned(), f64::from(value));
        Ok(Metric { name, value, baseline: 1.0, goal: Goal::Lowest }.into())
    }
}
