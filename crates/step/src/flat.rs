//! Gradients as one run of numbers on the host, in the order in which the model is traversed: that is the same on all ranks,
//! and ids of parameters are not.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_probe::Probe;

use crate::error::{ReadError, read_data};

/// The gradients of a model on the host, zero where there is none.
pub(crate) struct FlatGradients {
    /// Those of all trained weights, and then for each of these whether there is any: 1 or 0.
    pub(crate) values: Vec<f32>,
    /// How many numbers the gradient of each trained weight has.
    sizes: Vec<usize>,
}

/// The norms of what ranks have added up to.
pub(crate) struct Norms {
    /// Of all gradients but those of probes.
    pub(crate) of_all: f64,
    /// Of each probe's.
    pub(crate) of_probes: Vec<f64>,
}

impl FlatGradients {
    /// Reads the gradients of a model from its device.
    pub(crate) fn read<M: Module>(model: &M, gradients: GradientsParams, probe: &dyn Probe) -> Result<Self, ReadError> {
        // What grew by doubling would be in memory twice.
        let mut sizes = Sizes(Vec::new());
        model.visit(&mut sizes);
        let n_values = sizes.0.iter().sum::<usize>() + sizes.0.len() + MOST_LOSSES;
        let (flat, presence) = (Self { values: Vec::with_capacity(n_values), sizes: sizes.0 }, Vec::new());
        let mut reader = Reader { gradients, probe, flat, presence, error: None };
        model.visit(&mut reader);
        let Reader { mut flat, presence, error, .. } = reader;
        flat.values.extend(presence);
        error.map_or(Ok(flat), Err)
    }

    fn n_gradients(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Multiplies the gradients.
    pub(crate) fn scale(&mut self, factor: f64) {
        let n = self.n_gradients();
        self.values[..n].iter_mut().for_each(|it| *it = narrowed(f64::from(*it) * factor));
    }

    /// Takes the norms.
    pub(crate) fn norms<M: Module>(&self, model: &M, probes: &[ParamId]) -> Norms {
        let mut squares = SquaresOfHost { flat: self, at: 0, start: 0, probes, of_all: 0.0, of_probes: Vec::new() };
        squares.of_probes.resize(probes.len(), 0.0);
        model.visit(&mut squares);
        Norms { of_all: squares.of_all.sqrt(), of_probes: squares.of_probes.into_iter().map(f64::sqrt).collect() }
    }

    /// Writes them to the device that the model is on, without those of probes.
    pub(crate) fn write<M: Module>(&self, model: &M, probes: &[ParamId], device: &Device) -> GradientsParams {
        let (device, gradients) = (device.clone().inner(), GradientsParams::new());
        let mut writer = Writer { flat: self, at: 0, start: 0, probes, device, gradients };
        model.visit(&mut writer);
        writer.gradients
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a gradient has no more digits")]
fn narrowed(value: f64) -> f32 {
    value as f32
}

/// Whether a weight has a gradient; one that was never used is about to be.
pub(crate) fn is_trained<const D: usize>(param: &Param<Tensor<D>>) -> bool {
    !param.is_initialized() || Tensor::is_require_grad(param)
}

/// More losses than a step has are no error, but take room anew.
const MOST_LOSSES: usize = 64;

/// How many numbers the gradient of each trained weight has.
struct Sizes(Vec<usize>);

impl ModuleVisitor for Sizes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if is_trained(param) {
            self.0.push(param.lazy_shape().num_elements());
        }
    }
}

struct Reader<'a> {
    gradients: GradientsParams,
    probe: &'a dyn Probe,
    flat: FlatGradients,
    presence: Vec<f32>,
    error: Option<ReadError>,
}

impl ModuleVisitor for Reader<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !is_trained(param) || self.error.is_some() {
            return;
        }
        let n = param.lazy_shape().num_elements();
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            self.flat.values.resize(self.flat.values.len() + n, 0.0);
            return self.presence.push(0.0);
        };
        self.presence.push(1.0);
        match read_data(gradient, self.probe) {
            Ok(data) => self.flat.values.extend(data.iter::<f32>()),
            Err(error) => self.error = Some(error),
        }
    }
}

struct SquaresOfHost<'a> {
    flat: &'a FlatGradients,
    at: usize,
    start: usize,
    probes: &'a [ParamId],
    of_all: f64,
    of_probes: Vec<f64>,
}

impl ModuleVisitor for SquaresOfHost<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !is_trained(param) {
            return;
        }
        let end = self.start + self.flat.sizes[self.at];
        let squares: f64 = self.flat.values[self.start..end].iter().map(|it| f64::from(*it).powi(2)).sum();
        match self.probes.iter().position(|it| *it == param.id) {
            Some(at) => self.of_probes[at] += squares,
            None => self.of_all += squares,
        }
        (self.at, self.start) = (self.at + 1, end);
    }
}

struct Writer<'a> {
    flat: &'a FlatGradients,
    at: usize,
    start: usize,
    probes: &'a [ParamId],
    device: Device,
    gradients: GradientsParams,
}

impl ModuleVisitor for Writer<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !is_trained(param) {
            return;
        }
        let end = self.start + self.flat.sizes[self.at];
        let is_there = 0.0 < self.flat.values[self.flat.n_gradients() + self.at];
        if is_there && !self.probes.contains(&param.id) {
            let data = TensorData::new(self.flat.values[self.start..end].to_vec(), param.lazy_shape());
            // It has the precision of its weight.
            let data = data.convert_dtype(param.base().dtype());
            self.gradients.register(param.id, Tensor::<D>::from_data(data, &self.device));
        }
        (self.at, self.start) = (self.at + 1, end);
    }
}
