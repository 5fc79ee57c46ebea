//! A network of element-wise operations: the software driver computes matrix products wrong.

use std::ops::Range;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};

pub(crate) const N_SAMPLES: usize = 4;
/// Values of a sample: 2 MiB.
pub(crate) const WIDTH: usize = 1 << 19;

/// The values of a parameter, or of its gradient.
pub(crate) type Values = Vec<f32>;

#[derive(Module, Debug)]
pub(crate) struct Net {
    first: Param<Tensor<2>>,
    second: Param<Tensor<2>>,
}

impl Net {
    pub(crate) fn init(device: &Device) -> Self {
        let param = |n: usize| {
            let values: Vec<f32> = (0..WIDTH).map(|at| ((at * n) % 13) as f32 / 13.0 + 0.1).collect();
            Param::from_tensor(Tensor::from_data(TensorData::new(values, [1, WIDTH]), device))
        };
        Self { first: param(7), second: param(5) }
    }

    /// Reads every parameter, or the error of each that cannot be read.
    pub(crate) fn try_values(&self) -> Vec<Result<Values, String>> {
        struct Read(Vec<Result<Values, String>>);
        impl ModuleVisitor for Read {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let data = param.val().inner().try_into_data();
                self.0.push(data.map(|it| it.iter::<f32>().collect()).map_err(|error| error.to_string()));
            }
        }
        let mut read = Read(Vec::new());
        self.visit(&mut read);
        read.0
    }

    /// Writes every parameter.
    pub(crate) fn write(&mut self, values: &[Values]) {
        struct Write<'a>(std::slice::Iter<'a, Values>);
        impl ModuleMapper for Write<'_> {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let values = self.0.next().unwrap().clone();
                param.map(|old| Tensor::from_data(TensorData::new(values, old.dims()), &old.device()).require_grad())
            }
        }
        *self = self.clone().map(&mut Write(values.iter()));
    }
}

/// Reads the gradient of every parameter.
pub(crate) fn values_of(net: &Net, gradients: &GradientsParams) -> Vec<Values> {
    let read = |param: &Param<Tensor<2>>| gradients.get::<2>(param.id).unwrap().into_data().iter::<f32>().collect();
    [&net.first, &net.second].map(read).into()
}

/// Returns the norm of the difference over the norm of `expected`.
pub(crate) fn relative_difference(expected: &[Values], actual: &[Values]) -> f64 {
    let pairs = || expected.iter().flatten().zip(actual.iter().flatten()).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let (difference, norm) = pairs().fold((0.0, 0.0), |(d, n), (a, b)| (d + (a - b).powi(2), n + a.powi(2)));
    (difference / norm).sqrt()
}

pub(crate) fn mean_loss(net: &Net, samples: Range<usize>, device: &Device) -> Tensor<1> {
    let value = |at: usize| ((at * 31 + at / WIDTH) % 17) as f32 / 17.0;
    let values: Vec<f32> = (samples.start * WIDTH..samples.end * WIDTH).map(value).collect();
    let input = Tensor::<2>::from_data(TensorData::new(values, [samples.len(), WIDTH]), device);
    let output = relu(input.clone() * net.first.val()) * net.second.val();
    (output - input).powi_scalar(2).mean()
}
