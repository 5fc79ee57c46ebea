//! Where a program is to run, and how much of it may be used.

use burn::module::Module;
use burn::tensor::Device;
use plimsoll_plan::{DryRunPlanner, Fingerprint, PlanError};
use plimsoll_predict::{Keys, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe, open};
use plimsoll_step::share_of_capacity;
use plimsoll_train::{
    MEASURED, beside_tensors, device_kind, has_autotune, has_exact_peaks, has_fusion, program_keys, warm_up,
};
use plimsoll_types::{Bytes, Features, Fraction};

use crate::error::Error;

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) budget: f64,
    pub(crate) capacity: Option<Bytes>,
    pub(crate) features: Features,
}

impl Default for Limits {
    fn default() -> Self {
        Self { budget: 0.9, capacity: None, features: Features::default() }
    }
}

/// A device that is measured.
pub(crate) struct Place {
    pub(crate) kind: DeviceKind,
    /// The capacity that was set.
    limit: Option<Bytes>,
    /// What there is.
    pub(crate) capacity: Bytes,
    /// The part of it that may be used, less what the program holds already where no reading of a step includes that.
    pub(crate) target: Fraction,
    pub(crate) keys: Keys,
    pub(crate) predictor: PredictorConfig,
    pub(crate) exact_peaks: bool,
    name: String,
}

impl Place {
    /// Measures a device, which must have gradients where a model is trained on it.
    pub(crate) fn try_new(
        device: &Device,
        has_gradients: bool,
        Limits { budget, capacity: limit, features }: Limits,
    ) -> Result<Self, Error> {
        let kind = measured(device, has_gradients)?;
        let share = share_of_capacity(budget)?;
        let mut probe = open(kind, limit)?;
        warm_up(kind, device);
        // What is fused with later operations is not there yet, and what was dropped still is.
        drop(device.flush());
        let (capacity, exact_peaks, name) = (probe.capacity()?, probe.has_exact_peak(), probe.name());
        let free = if exact_peaks { capacity } else { capacity.saturating_sub(held(&mut *probe)?) };
        let keys = program_keys(kind, device, &name);
        let target = Fraction::try_new(share.get() * free.share_of(capacity)).unwrap_or(share);
        let predictor = PredictorConfig { beside: beside_tensors(kind), ..PredictorConfig::of_lengths(features)? };
        Ok(Self { kind, limit, capacity, target, keys, predictor, exact_peaks, name })
    }

    pub(crate) fn open(&self) -> Result<Box<dyn Probe>, PlanError> {
        Ok(open(self.kind, self.limit)?)
    }

    /// Returns what the program holds there, where exact figures include that.
    pub(crate) fn base(&self) -> Result<Bytes, Error> {
        if self.exact_peaks { Ok(open(self.kind, self.limit)?.read()?.in_use) } else { Ok(Bytes::ZERO) }
    }

    /// Returns what the device calls itself.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Describes what a plan is made for.
    pub(crate) fn fingerprint(&self, model: &str, effective_batch_size: u32) -> Fingerprint {
        Fingerprint {
            model: model.to_owned(),
            optimizer: "the program's own".to_owned(),
            dtype: "the program's own".to_owned(),
            recompute: self.keys.recompute,
            effective_batch_size,
            device: self.name.clone(),
            fusion: has_fusion(self.kind),
            autotune: has_autotune(self.kind),
            versions: Fingerprint::versions(),
        }
    }
}

/// Returns the order in which devices are planned: those first where a step that takes too much ends the process, so that what
/// runs for the others fits there.
pub(crate) fn order(devices: &[(Device, Limits)]) -> Result<Vec<usize>, Error> {
    devices.iter().try_for_each(|(device, _)| measured(device, true).map(drop))?;
    let mut order: Vec<_> = (0..devices.len()).collect();
    order.sort_by_key(|at| has_pools(&devices[*at].0));
    Ok(order)
}

fn has_pools(device: &Device) -> bool {
    device_kind(device).is_some_and(|kind| !has_exact_peaks(kind))
}

/// Runs real steps for a device without pools, where others have some: on a stream of their own, so that the pages of the
/// program's own steps are those of a process that has planned nothing.
pub(crate) fn apart<T>(
    (place, others): (&Place, &[(Device, Limits)]),
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let pools: Vec<_> = others.iter().map(|it| &it.0).filter(|it| has_pools(it)).collect();
    let [first, ..] = *pools else { return work() };
    if !place.exact_peaks {
        return work();
    }
    let kind = measured(first, true)?;
    let done = DryRunPlanner::try_open(kind)?.really(first, work);
    for device in pools {
        device.memory_cleanup();
    }
    done
}

/// Says on which of several devices something went wrong.
pub(crate) fn said_of(place: &Place, n_devices: usize) -> impl Fn(Error) -> Error + '_ {
    move |error| match error {
        error @ (Error::Plan(_) | Error::Find(_)) if 1 < n_devices => {
            Error::Elsewhere { device: place.name.clone(), source: Box::new(error) }
        }
        error => error,
    }
}

/// The devices that a program has named, none twice.
pub(crate) struct Named(Vec<Device>);

impl Named {
    /// Takes the first, and others.
    pub(crate) fn try_new<'a>(devices: impl IntoIterator<Item = &'a Device>) -> Result<Self, Error> {
        let mut named = Self(Vec::new());
        for device in devices {
            if named.has(device) {
                let reason = "it is named twice: `also_on` is for others than the first, once each";
                return Err(Error::Device { device: format!("{device:?}"), reason });
            }
            named.0.push(device.clone().inner());
        }
        Ok(named)
    }

    fn has(&self, device: &Device) -> bool {
        self.0.contains(&device.clone().inner())
    }

    /// Refuses a model that lies on a device that nobody has named.
    pub(crate) fn check<M: Module>(&self, model: &M) -> Result<(), Error> {
        match model.devices().into_iter().find(|it| !self.has(it)) {
            Some(other) => Err(Error::Device { device: format!("{other:?}"), reason: UNNAMED }),
            None => Ok(()),
        }
    }
}

/// Why a model is refused.
const UNNAMED: &str = "the model lies there, and it is not measured: `also_on` names it beside the first";

/// Returns how a device is measured.
pub(crate) fn measured(device: &Device, has_gradients: bool) -> Result<DeviceKind, Error> {
    let refused = |reason| Error::Device { device: format!("{device:?}"), reason };
    match (has_gradients, device.is_autodiff()) {
        (true, false) => Err(refused("it has no gradients, `device.autodiff()` has")),
        (false, true) => Err(refused(
            "it has gradients, and a model on it holds their graph; `model.valid()` on `device.inner()` has none",
        )),
        _ => device_kind(device).ok_or_else(|| refused(MEASURED)),
    }
}

/// Returns what the program holds already.
fn held(probe: &mut dyn Probe) -> Result<Bytes, Error> {
    probe.cleanup()?;
    Ok(probe.read()?.reserved)
}
