//! A recurrent network.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig, Lstm, LstmConfig};
use burn::tensor::{Device, Tensor};

use super::Foreign;

/// Values of a frame.
const N_VALUES: usize = 12;

const HIDDEN: usize = 32;

/// Two recurrent layers that predict each frame from those before it.
#[derive(Module, Debug)]
pub(crate) struct SequenceModel {
    first: Lstm,
    second: Lstm,
    head: Linear,
}

impl Foreign for SequenceModel {
    const NAME: &'static str = "lstm";

    fn init(device: &Device) -> Self {
        Self {
            first: LstmConfig::new(N_VALUES, HIDDEN, true).init(device),
            second: LstmConfig::new(HIDDEN, HIDDEN, true).init(device),
            head: LinearConfig::new(HIDDEN, N_VALUES).init(device),
        }
    }

    fn sample(edge: usize) -> Vec<usize> {
        vec![edge, N_VALUES]
    }

    fn outputs(&self, samples: Tensor<2>, edge: usize) -> Tensor<1> {
        self.forward(frames(samples, edge)).flatten(0, 2)
    }

    fn loss(&self, samples: Tensor<2>, edge: usize) -> Tensor<1> {
        let frames = frames(samples, edge);
        let [n, _, _] = frames.dims();
        let predicted = self.forward(frames.clone()).slice([0..n, 0..edge - 1]);
        (predicted - frames.slice([0..n, 1..edge])).powi_scalar(2).mean()
    }
}

impl SequenceModel {
    fn forward(&self, frames: Tensor<3>) -> Tensor<3> {
        let (hidden, _) = self.first.forward(frames, None);
        let (hidden, _) = self.second.forward(hidden, None);
        self.head.forward(hidden)
    }
}

fn frames(samples: Tensor<2>, edge: usize) -> Tensor<3> {
    let [n, _] = samples.dims();
    samples.reshape([n, edge, N_VALUES])
}
