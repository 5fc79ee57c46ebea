//! What the tests of the jobs share.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use plimsoll_step::squared_norm;

/// Holds the gradient of every split against the one of the undivided step: within 1e-5 of its global norm.
#[track_caller]
pub(crate) fn check_splits<M: Module>(
    model: &M,
    device: &Device,
    undivided: &GradientsParams,
    splits: impl IntoIterator<Item = (String, GradientsParams)>,
) {
    let norm = |it: &GradientsParams| squared_norm(model, it, device).into_scalar::<f64>().sqrt();
    assert!(norm(undivided) > 1e-4, "a gradient of nothing proves nothing");
    for (name, split) in splits {
        let mut difference = Difference { a: undivided, b: &split, of: GradientsParams::new() };
        model.visit(&mut difference);
        let relative = norm(&difference.of) / norm(undivided);
        assert!(relative < 1e-5, "{name}: {relative:e}");
    }
}

struct Difference<'a> {
    a: &'a GradientsParams,
    b: &'a GradientsParams,
    of: GradientsParams,
}

impl ModuleVisitor for Difference<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let difference = self.a.get::<D>(param.id).unwrap() - self.b.get::<D>(param.id).unwrap();
        self.of.register::<D>(param.id, difference);
    }
}
