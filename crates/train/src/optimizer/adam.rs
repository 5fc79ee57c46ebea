//! The optimizer that a job has by default.

use burn::optim::{AdamConfig, AdamState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// How much of each moment a step keeps, by default.
const BETAS: [f32; 2] = [0.9, 0.999];

/// What is added to the root of the second moment, by default.
const EPSILON: f32 = 1e-5;

/// Adam as [`AdamConfig`] makes it by default, to the last bit, with the same state.
///
/// On a CPU it goes through the numbers of a parameter once and changes them where they lie; Burn goes through them in 13
/// operations, and takes one more tensor (`docs/upstream/burn-optim-adam-2026-11-30.md`). Elsewhere, and for numbers of other
/// precision, it is Burn's.
///
/// # Sources
///
/// Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, <https://arxiv.org/abs/1412.6980>.
#[derive(Clone)]
pub struct Adam(burn::optim::Adam);

impl Default for Adam {
    fn default() -> Self {
        Self(AdamConfig::new().build())
    }
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        if !is_of_cpu(&tensor) || gradient.dtype() != DType::F32 {
            return self.0.step(rate, tensor, gradient, state);
        }
        let (device, dims) = (tensor.device(), tensor.dims());
        let zeros = || Tensor::zeros(dims, (&device, DType::F32));
        let known = state.map(|it| it.momentum);
        let AdaptiveMomentumState { time, moment_1, moment_2, .. } =
            known.unwrap_or_else(|| AdaptiveMomentumState::new(0, zeros(), zeros()));
        let time = time + 1;
        let mut data = [tensor, moment_1, moment_2].map(Tensor::into_data);
        let [tensor, first, second] = data.each_mut().map(numbers);
        update(rate, time, gradient.into_data().as_slice().unwrap_or_else(|_| no_numbers()), tensor, [first, second]);
        let [tensor, first, second] = data.map(|it| Tensor::from_data(it, (&device, DType::F32)));
        (tensor, Some(AdamState::new(AdaptiveMomentumState::new(time, first, second))))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        burn::optim::Adam::to_device(state, device)
    }
}

/// Takes a step of this number, counted from 1, and follows the moments.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as Burn counts and rounds them")]
fn update(rate: f64, time: usize, gradient: &[f32], tensor: &mut [f32], [first, second]: [&mut [f32]; 2]) {
    let [kept, kept_of_squares] = BETAS;
    let [new, new_of_squares] = BETAS.map(|it| 1.0 - it);
    let root = (1.0 - kept_of_squares.powi(time as i32)).sqrt();
    let (rate, factor, epsilon) = (rate as f32, root / (1.0 - kept.powi(time as i32)), EPSILON * root);
    for (((x, first), second), gradient) in tensor.iter_mut().zip(first).zip(second).zip(gradient) {
        *first = *first * kept + gradient * new;
        *second = *second * kept_of_squares + gradient * gradient * new_of_squares;
        *x -= *first * factor / (second.sqrt() + epsilon) * rate;
    }
}

fn numbers(data: &mut TensorData) -> &mut [f32] {
    data.as_mut_slice().unwrap_or_else(|_| no_numbers())
}

fn no_numbers() -> ! {
    unreachable!("all are numbers of 32 bits")
}

#[cfg(feature = "flex")]
fn is_of_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && tensor.device() == Device::flex()
}

#[cfg(not(feature = "flex"))]
fn is_of_cpu<const D: usize>(_: &Tensor<D>) -> bool {
    false
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    /// A parameter and what an optimizer knows of it.
    type Known = (Tensor<2>, Option<AdamState<2>>);

    fn words((tensor, state): &Known) -> [Vec<f32>; 3] {
        let AdaptiveMomentumState { moment_1, moment_2, .. } = state.clone().unwrap().momentum;
        [tensor.clone(), moment_1, moment_2].map(|it| it.into_data().try_to_vec().unwrap())
    }

    #[test]
    fn it_is_burns_to_the_last_bit_and_either_goes_on_from_the_others_state() {
        let device = Device::flex();
        let (own, burns) = (Adam::default(), AdamConfig::new().build());
        let begun = || Tensor::random([37, 19], Distribution::Normal(0.0, 1.0), &device);
        let [mut by_own, mut by_burn, mut by_turns]: [Known; 3] = {
            let tensor: Tensor<2> = begun();
            [(tensor.clone(), None), (tensor.clone(), None), (tensor, None)]
        };
        for step in 0..60 {
            // Zeros, and numbers from the smallest to large ones; every third lies otherwise.
            let power = f32::from(i8::try_from(step % 30).unwrap() - 20);
            let gradient: Tensor<2> = begun().mul_scalar(power.exp()).clamp_min(0.0);
            let gradient =
                if step % 3 == 0 { gradient.clone().transpose().reshape([19, 37]).transpose() } else { gradient };
            let rate = 1e-3 * f64::from(step + 1);
            by_own = own.step(rate, by_own.0, gradient.clone(), by_own.1);
            by_burn = burns.step(rate, by_burn.0, gradient.clone(), by_burn.1);
            by_turns = match step % 2 {
                0 => own.step(rate, by_turns.0, gradient, by_turns.1),
                _ => burns.step(rate, by_turns.0, gradient, by_turns.1),
            };
            assert_eq!(words(&by_own), words(&by_burn), "step {step}");
            assert_eq!(words(&by_turns), words(&by_burn), "step {step}");
        }
        assert_eq!(by_own.1.unwrap().momentum.time, 60);
    }

    #[test]
    fn what_somebody_else_holds_stays_as_it_is() {
        let device = Device::flex();
        let tensor = Tensor::<2>::ones([2, 3], &device);
        let one = Adam::default().step(1.0, tensor.clone(), tensor.clone(), None);
        let kept = one.clone();
        let two = Adam::default().step(1.0, one.0, tensor.clone(), one.1);
        assert_eq!(tensor.into_data().try_to_vec::<f32>().unwrap(), [1.0; 6]);
        let [was, is] = [kept, two].map(|it| words(&it));
        assert!(was.iter().zip(&is).all(|(was, is)| was != is), "{was:?} and {is:?}");
    }
}
