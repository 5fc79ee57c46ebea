//! A program's own step, as a planner takes it.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Arguments;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Tensor};
use plimsoll_plan::Blank;
use plimsoll_step::{Loss, TrainState};
use plimsoll_train::uploaded;
use plimsoll_types::StepShape;

use crate::error::Error;
use crate::place::Named;

/// Makes a model and its optimizer.
type Make<'a, M> = dyn Fn() -> (M, ModuleOptimizer) + 'a;

/// Returns the loss over a blank batch of a shape.
type LossOf<'a, M> = dyn Fn(&M, StepShape, &Doing) -> Tensor<1> + 'a;

/// What a program brings of a step of its own.
pub(crate) struct Own<'a, M> {
    /// The one that is measured.
    device: Device,
    /// The devices that the model lies on.
    named: Vec<Device>,
    make: Rc<Make<'a, M>>,
    loss: Rc<LossOf<'a, M>>,
    doing: Doing,
}

impl<M> Clone for Own<'_, M> {
    fn clone(&self) -> Self {
        let Self { device, named, make, loss, doing } = self;
        let (device, named) = (device.clone(), named.clone());
        Self { device, named, make: Rc::clone(make), loss: Rc::clone(loss), doing: doing.clone() }
    }
}

impl<'a, M: Module> Own<'a, M> {
    pub(crate) fn new<B>(
        device: &Device,
        make: impl Fn() -> (M, ModuleOptimizer) + 'a,
        blank_batch: impl Fn(usize, usize) -> B + 'a,
        mean_loss: impl Fn(&M, B) -> Tensor<1> + 'a,
    ) -> Self {
        let own = device.clone();
        let loss = move |model: &M, shape: StepShape, doing: &Doing| {
            doing.note(format_args!("make a batch of shape {shape}"));
            let batch = uploaded(blank_batch(shape.samples as usize, shape.edge() as usize), &own);
            doing.note(format_args!("run a step of shape {shape}"));
            mean_loss(model, batch)
        };
        let (device, named) = (device.clone(), vec![device.clone()]);
        Self { device, named, make: Rc::new(make), loss: Rc::new(loss), doing: Doing::default() }
    }

    /// Names another device that the model lies on.
    pub(crate) fn also_on(mut self, device: &Device) -> Self {
        self.named.push(device.clone());
        self
    }

    /// Returns the devices that the model lies on, none twice.
    pub(crate) fn named(&self) -> Result<Named, Error> {
        Named::try_new(&self.named)
    }

    /// Measures one of the devices.
    pub(crate) fn measured_on(&self, device: &Device) -> Self {
        Self { device: device.clone(), ..self.clone() }
    }

    /// Returns what the program is doing.
    pub(crate) fn doing(&self) -> &Doing {
        &self.doing
    }
}

impl<M: Module> Blank for Own<'_, M> {
    type Model = M;

    fn device(&self) -> &Device {
        &self.device
    }

    fn is_on_several(&self) -> bool {
        1 < self.named.len()
    }

    /// The loop may be the program's own.
    fn keeps_pages(&self) -> bool {
        true
    }

    fn start(&self) -> TrainState<M> {
        self.doing.note(format_args!("make the model"));
        let (model, optimizer) = (self.make)();
        if model.num_params() == 0 {
            refuse(Error::NoParameters { model: std::any::type_name::<M>() });
        }
        if let Err(error) = self.named().and_then(|it| it.check(&model)) {
            refuse(error);
        }
        TrainState::new(model, optimizer)
    }

    fn mean_loss(&self, model: &M, shape: StepShape) -> Loss {
        let loss = (self.loss)(model, shape, &self.doing);
        match loss.dims() {
            [1] => loss.into(),
            [n_values] => refuse(Error::LossIsNotScalar { n_values }),
        }
    }
}

/// What a program was asked to do last, for whoever has to say where it failed.
#[derive(Clone, Default)]
pub(crate) struct Doing(Rc<RefCell<String>>);

impl Doing {
    pub(crate) fn note(&self, doing: Arguments<'_>) {
        *self.0.borrow_mut() = doing.to_string();
    }

    /// Does something in which the program's own code runs, and says what that did when it panics.
    pub(crate) fn named<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(self.explained(panic)))
    }

    fn explained(&self, panic: Box<dyn Any + Send>) -> Error {
        let panic = match panic.downcast::<Refused>() {
            Ok(refused) => return refused.0,
            Err(panic) => panic,
        };
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        Error::Panicked { doing: self.0.borrow().clone(), message: text.unwrap_or("it did not say why").to_owned() }
    }
}

/// Carries an error out of code that cannot return one, up to [`Doing::named`].
struct Refused(Error);

fn refuse(error: Error) -> ! {
    resume_unwind(Box::new(Refused(error)))
}
