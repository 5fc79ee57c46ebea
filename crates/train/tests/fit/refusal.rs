//! Memory that others take, and that a guess did not know of.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use burn::tensor::Device;
use plimsoll_guard::GuardError;
use plimsoll_plan::{RealSteps, TrialError};
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_predict::Keys;
use plimsoll_probe::{DeviceKind, Probe, ProbeError, open};
use plimsoll_train::{Death, Existing, RunDir, Shell, StepError, StopFlag, TrainError, Trials, fit};
use plimsoll_types::{Bytes, EndReason, Event, Knobs, MemoryReading, StepShape};

use crate::common::{alone, flex_with, run, run_on, steps};
use crate::tiny::{Beside, Tiny, config, fixed};

/// What there is after others have taken the rest.
#[derive(Clone)]
pub(crate) struct Left(Arc<AtomicU64>);

impl Left {
    pub(crate) fn all() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Leaves so much above what is in use.
    fn fall_to(&self, room: Bytes) {
        self.set(open(DeviceKind::Flex, None).unwrap().read().unwrap().in_use.saturating_add(room));
    }

    pub(crate) fn set(&self, capacity: Bytes) {
        self.0.store(capacity.0, Ordering::SeqCst);
    }
}

pub(crate) struct Falling {
    pub(crate) inner: Box<dyn Probe>,
    pub(crate) left: Left,
}

impl Probe for Falling {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        self.inner.read()
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.inner.reset_peak()
    }

    fn has_exact_peak(&self) -> bool {
        true
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        Ok(self.inner.capacity()?.min(Bytes(self.left.0.load(Ordering::SeqCst))))
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        self.inner.largest_allocation()
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.inner.cleanup()
    }
}

/// Takes memory away after so many parts, or validations, and counts what runs.
pub(crate) struct Tenant {
    pub(crate) left: Left,
    parts: usize,
    validations: usize,
    n_parts: AtomicUsize,
    n_items: AtomicUsize,
    n_validations: AtomicUsize,
}

impl Tenant {
    pub(crate) fn after(parts: usize, validations: usize) -> Self {
        let [n_parts, n_items, n_validations] = [0; 3].map(AtomicUsize::new);
        Self { left: Left::all(), parts, validations, n_parts, n_items, n_validations }
    }
}

/// What each item of a validation takes.
pub(crate) const ITEM: Bytes = Bytes::mib(32);

impl Beside for &Tenant {
    fn on_part(&self, _n_samples: usize) {
        if self.n_parts.fetch_add(1, Ordering::SeqCst) + 1 == self.parts {
            self.left.fall_to(Bytes::kib(4));
        }
    }

    fn on_forward(&self, n_items: u32) {
        self.n_items.fetch_add(n_items as usize, Ordering::SeqCst);
        drop(black_box(vec![1_u8; usize::try_from(ITEM.0).unwrap() * n_items as usize]));
    }

    fn on_validated(&self) {
        if self.n_validations.fetch_add(1, Ordering::SeqCst) + 1 == self.validations {
            self.left.fall_to(Bytes(ITEM.0 * 3 / 4));
        }
    }
}

#[test]
fn a_sample_that_was_measured_to_need_more_than_is_left_by_now_does_not_run() {
    let _alone = alone();
    let tenant = Tenant::after(2 * 16, 0);
    let job = Tiny::beside(&tenant);
    let mut config = config(10, PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 64, micro_batch_size: 1 })));
    config.validate_every = 100;
    let probe = Box::new(Falling { inner: flex_with(Bytes::gib(1)), left: tenant.left.clone() });
    let folder = tempfile::tempdir().unwrap();
    let ran = run_on(probe, &job, &config, folder.path(), Existing::Refuse, None);
    let error = ran.outcome.unwrap_err();
    let TrainError::NeverFits { source: StepError::NeverFits { source, capacity }, .. } = &error else {
        panic!("{error}")
    };
    assert!(matches!(source, GuardError::NeverFits { needed: Some(needed), .. } if capacity < needed), "{error}");
    assert_eq!((steps(&ran.events).len(), tenant.n_parts.load(Ordering::SeqCst)), (2, 2 * 16));
}

#[test]
fn an_item_of_a_validation_that_was_measured_to_need_more_than_is_left_by_now_does_not_run() {
    let _alone = alone();
    // Five items each, one by one: two do not fit.
    let tenant = Tenant::after(0, 2);
    let job = Tiny::beside(&tenant);
    let mut config = config(10, fixed());
    config.validate_every = 2;
    let inner = flex_with(Bytes(ITEM.0 * 3 / 2));
    let probe = Box::new(Falling { inner, left: tenant.left.clone() });
    let folder = tempfile::tempdir().unwrap();
    let ran = run_on(probe, &job, &config, folder.path(), Existing::Refuse, None);
    let error = ran.outcome.unwrap_err();
    let TrainError::Validation { step: 4, source: StepError::NeverFits { source, .. }, .. } = &error else {
        panic!("{error}")
    };
    assert!(matches!(source, GuardError::NeverFits { needed: Some(_), .. }), "{error}");
    assert_eq!((steps(&ran.events).len(), tenant.n_items.load(Ordering::SeqCst)), (4, 2 * 5));
}

#[test]
fn a_guess_that_is_a_little_too_low_is_raised_by_that_little() {
    let _alone = alone();
    let (job, config) = (Tiny { n_products: 24, ..Tiny::new() }, config(6, fixed()));
    let fits = |room: &Bytes| {
        let folder = tempfile::tempdir().unwrap();
        run(&job, &config, *room, folder.path(), Existing::Refuse, None).outcome.is_ok()
    };
    let rooms: Vec<_> = (4..160).map(|n| Bytes::kib(256 * n)).collect();
    // A little more, since what is in use moves from run to run.
    let room = rooms[rooms.partition_point(|room| !fits(room)) + 2];
    let probe = flex_with(room);
    let real = probe.capacity().unwrap();
    // Just below it by so little that such a rise is no news by itself.
    let guess = Bytes(real.0 * 16 / 17 + 1);
    let death = Death { what: "it was killed".to_owned(), capacity: Some(guess), ..Death::default() };
    let folder = tempfile::tempdir().unwrap();
    let mut run_dir = RunDir::open(folder.path(), Existing::Refuse).unwrap();
    let shell = Shell {
        run_dir: &mut run_dir,
        existing: Existing::Refuse,
        device: Device::flex().autodiff(),
        probe,
        stop: StopFlag::default(),
        observer: &mut |_, _| (),
        watching: None,
        warn: &mut |_| (),
        death: Some(death),
        plan_sparing: None,
        fleet: Box::new(plimsoll_train::Alone),
        config_text: "",
    };
    assert_eq!(fit(&job, &config, shell).unwrap().reason, EndReason::Completed);
    let raised = |it: &Event| if let Event::BudgetChanged(it) = it { Some(it.budget.capacity) } else { None };
    let events = run_dir.events().unwrap();
    assert_eq!(events.iter().find_map(raised), Some(real), "the guess was enough, so nothing is tested");
}

/// Fails as `CubeCL` does where it has no memory to pass a kernel its arguments.
struct Refusing;

impl Beside for Refusing {
    fn on_forward(&self, _n_items: u32) {
        panic!("can't allocate buffer of size: 4096");
    }
}

#[test]
fn a_forward_pass_that_is_tried_and_panics_for_want_of_memory_did_not_fit() {
    let _alone = alone();
    let job = Tiny::beside(Refusing);
    let mut trials =
        Trials::try_new(&job, Device::flex().autodiff(), Keys::default(), flex_with(Bytes::gib(1))).unwrap();
    let ran = trials.infer(StepShape::new(1, 16));
    assert!(matches!(ran, Err(TrialError::OutOfMemory(_))), "{ran:?}");
}
