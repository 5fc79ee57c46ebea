//! Gradients of a step that is run in parts.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use plimsoll_types::Bytes;

/// Accumulates the gradients of a step's parts, so that their sum is the gradient of the mean over all samples.
///
/// A part of `n_k` of `n` samples (or tokens) with mean loss `l_k` adds `n_k / n · ∇l_k`. Burn's own accumulator sums without
/// weights, which is right for equal parts only.
///
/// Holds one more set of gradients while a step is under way.
pub struct WeightedAccumulator<M> {
    sum: GradientsAccumulator<M>,
    n_total: u64,
    loss_scale: Option<f64>,
}

impl<M: Module> WeightedAccumulator<M> {
    /// Starts a step of `n_total` samples (or tokens, or whatever the losses are means over).
    pub fn new(n_total: u64) -> Self {
        Self { sum: GradientsAccumulator::new(), n_total, loss_scale: None }
    }

    /// Multiplies every loss, so that small gradients of 16 bits do not vanish; their sum is as many times too large.
    pub(crate) fn with_loss_scale(self, loss_scale: Option<f64>) -> Self {
        Self { loss_scale, ..self }
    }

    /// Returns the weighted gradients of one part, without adding them.
    ///
    /// # Shapes
    ///
    /// - `mean_loss`: `[1]`, the mean over the part's `n_units`.
    pub fn backward(&self, model: &M, mean_loss: &Tensor<1>, n_units: u64) -> GradientsParams {
        weighted_backward(model, mean_loss, self.weight(n_units))
    }

    /// Weighs the gradients of one part's mean loss, as [`Self::backward`] does; those of a whole step stay as they are.
    pub fn weigh(&self, model: &M, gradients: GradientsParams, n_units: u64) -> GradientsParams {
        if n_units == self.n_total && self.loss_scale.is_none() {
            return gradients;
        }
        scaled(model, gradients, self.weight(n_units))
    }

    /// Returns what a part's mean loss is multiplied by.
    pub(crate) fn weight(&self, n_units: u64) -> f64 {
        plimsoll_guard::weight(n_units, self.n_total) * self.loss_scale.unwrap_or(1.0)
    }

    /// Adds what [`Self::backward`] returned.
    pub fn add(&mut self, model: &M, gradients: GradientsParams) {
        self.sum.accumulate(model, gradients);
    }

    /// Ends the step.
    pub fn finish(mut self) -> GradientsParams {
        self.sum.grads()
    }
}

/// Returns the gradients of a mean loss, of shape `[1]`, times a weight.
pub(crate) fn weighted_backward<M: Module>(model: &M, mean_loss: &Tensor<1>, weight: f64) -> GradientsParams {
    let is_whole = weight.to_bits() == 1.0_f64.to_bits();
    let weighted = if is_whole { mean_loss.clone() } else { mean_loss.clone() * weight };
    GradientsParams::from_grads(weighted.backward(), model)
}

/// Returns the square of the global norm of the gradients, as a tensor of shape `[1]`.
///
/// It depends on every gradient, so reading it before the optimizer's step tells whether any of them is damaged: a
/// failed allocation on `CubeCL` is silent until something that depends on it is read.
pub fn squared_norm<M: Module>(model: &M, gradients: &GradientsParams, device: &Device) -> Tensor<1> {
    let mut visitor = SquaredNorm { gradients, squares: Squares::default() };
    model.visit(&mut visitor);
    visitor.squares.or_zero(device)
}

/// Takes the gradients of probes out and returns the square of the norm of each, as a tensor of shape `[1]`: zero of a
/// probe without a gradient, since no loss depends on it.
pub(crate) fn probe_squares(gradients: &mut GradientsParams, probes: &[ParamId], device: &Device) -> Vec<Tensor<1>> {
    let square = |id: &ParamId| {
        let squares = gradients.remove::<2>(*id).map(|it| Squares { sums: vec![it.powi_scalar(2).sum()] });
        squares.unwrap_or_default().or_zero(device)
    };
    probes.iter().map(square).collect()
}

/// Returns the sum of the squares of all weights, as a tensor of shape `[1]`: it can be read only where all of them can.
pub(crate) fn squared_weights<M: Module>(model: &M, device: &Device) -> Tensor<1> {
    let mut visitor = Squares::default();
    model.visit(&mut visitor);
    visitor.or_zero(device)
}

/// Returns what the gradients of a model hold: those of its trained weights, in their precision.
pub fn gradient_bytes<M: Module>(model: &M) -> Bytes {
    gradient_bytes_on(model, None)
}

/// Returns what the gradients of a model hold on one device, or on all.
pub(crate) fn gradient_bytes_on<M: Module>(model: &M, device: Option<&Device>) -> Bytes {
    struct Trained {
        device: Option<Device>,
        n_bytes: usize,
    }

    impl ModuleVisitor for Trained {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.device.as_ref().is_some_and(|it| param.lazy_device().inner() != *it) {
                return;
            }
            if !param.is_initialized() {
                self.n_bytes += param.lazy_shape().num_elements() * size_of::<f32>();
            } else if param.base().is_require_grad() {
                self.n_bytes += param.base().shape().num_elements() * param.base().dtype().size();
            }
        }
    }
    let mut trained = Trained { device: device.map(|it| it.clone().inner()), n_bytes: 0 };
    model.visit(&mut trained);
    Bytes(trained.n_bytes as u64)
}

/// Multiplies gradients.
pub(crate) fn scaled<M: Module>(model: &M, gradients: GradientsParams, factor: f64) -> GradientsParams {
    let mut visitor = Scale { gradients, factor };
    model.visit(&mut visitor);
    visitor.gradients
}

struct Scale {
    gradients: GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients.register(param.id, gradient * self.factor);
        }
    }
}

/// Returns numbers of 16 bits as such of 32.
pub(crate) fn widened<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => tensor.cast(FloatDType::F32),
        _ => tensor,
    }
}

/// Brings a tensor without a graph to a device, where it is on another.
pub(crate) fn brought<const D: usize>(tensor: Tensor<D>, device: &Device) -> Tensor<D> {
    let device = device.clone().inner();
    if tensor.device() == device { tensor } else { tensor.to_device(&device) }
}

/// A sum of squares, without a graph: one on each device that has some of them.
#[derive(Default)]
pub(crate) struct Squares {
    sums: Vec<Tensor<1>>,
}

impl Squares {
    pub(crate) fn add<const D: usize>(&mut self, tensor: Tensor<D>) {
        // The square of a number of 16 bits is soon above the largest of them.
        let square = widened(tensor).powi_scalar(2).sum();
        let device = square.device();
        match self.sums.iter().position(|it| it.device() == device) {
            Some(at) => {
                let sum = self.sums.swap_remove(at);
                self.sums.push(sum + square);
            }
            None => self.sums.push(square),
        }
    }

    /// Returns the sum of all on a device.
    pub(crate) fn or_zero(self, device: &Device) -> Tensor<1> {
        let sum = self.sums.into_iter().map(|it| brought(it, device)).reduce(|sum, it| sum + it);
        sum.unwrap_or_else(|| Tensor::zeros([1], &device.clone().inner()))
    }
}

impl ModuleVisitor for Squares {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.add(param.val().inner());
    }
}

struct SquaredNorm<'a> {
    gradients: &'a GradientsParams,
    squares: Squares,
}

impl ModuleVisitor for SquaredNorm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.squares.add(gradient);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};

    use super::*;

    #[derive(Module, Debug)]
    struct Net {
        layers: Vec<Linear>,
    }

    #[test]
    fn a_probe_without_a_gradient_keeps_its_place() {
        let device = Device::flex().autodiff();
        let layer = |_| LinearConfig::new(1, 1).with_bias(false).init(&device);
        let net = Net { layers: (0..3).map(layer).collect() };
        let probes: Vec<_> = net.layers.iter().map(|it| it.weight.id).collect();
        // The layer in the middle has no part in the loss, whose derivatives are 2 and 3.
        let loss = net.layers[0].weight.val().sum() * 2.0 + net.layers[2].weight.val().sum() * 3.0;
        let mut gradients = GradientsParams::from_grads(loss.backward(), &net);
        let squares = probe_squares(&mut gradients, &probes, &device);
        let squares: Vec<f32> = squares.into_iter().map(Tensor::into_scalar).collect();
        assert_eq!(squares, [4.0, 0.0, 9.0]);
    }
}
