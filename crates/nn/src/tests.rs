use burn::nn::conv::Conv2dConfig;
use burn::nn::{LayerNormConfig, PaddingConfig2d, RmsNormConfig};
use burn::tensor::{Device, Distribution, Int, TensorData};

use super::*;

/// A device whose random numbers are the same whenever a test runs alone.
fn device() -> Device {
    let device = Device::flex().autodiff();
    device.seed(7);
    device
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 2.0), &device()).require_grad()
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().iter().collect()
}

/// Compares what two ways make of `x`, and the gradients of its sum with weights: of `x`, and of what `others` returns.
#[track_caller]
fn check<const D: usize>(
    x: &Tensor<D>,
    ours: impl Fn(Tensor<D>) -> Tensor<D>,
    burns: impl Fn(Tensor<D>) -> Tensor<D>,
    others: impl Fn(&burn::tensor::Gradients) -> Vec<f32>,
) {
    let all = |made: Tensor<D>| {
        let n = i64::try_from(made.dims().iter().product::<usize>()).unwrap();
        let weights = Tensor::<1, Int>::arange(0..n, &x.device()).float().sin().reshape(made.dims());
        let gradients = (made.clone() * weights).sum().backward();
        let of_x = x.grad(&gradients).map(numbers).unwrap();
        [numbers(made), of_x, others(&gradients)]
    };
    let [ours, burns] = [all(ours(x.clone())), all(burns(x.clone()))];
    for (ours, burns) in ours.iter().zip(&burns) {
        assert_eq!(ours.len(), burns.len());
        let far = |(a, b): (&f32, &f32)| (a - b).abs() > 5e-5 * (1.0 + b.abs()) || a.is_nan();
        let differing = ours.iter().zip(burns).filter(|it| far(*it)).collect::<Vec<_>>();
        assert!(differing.is_empty(), "{} of {} differ: {:?}", differing.len(), ours.len(), differing[0]);
    }
}

#[test]
fn a_convolution_is_burns_with_its_gradients() {
    for (n, channels, channels_out, height, width) in [
        (3, 5, 7, 6, 9),
        (1, 3, 16, 32, 32),
        (19, 4, 12, 8, 8),
        (2, 4, 4, 1, 1),
        (2, 4, 4, 1, 5),
        (2, 4, 4, 5, 1),
        (3, 2, 5, 7, 2),
    ] {
        for stride in [1, 2] {
            let config = Conv2dConfig::new([channels, channels_out], [3, 3]).with_stride([stride, stride]);
            let layer = config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(&device());
            let parameters = |gradients: &_| {
                let bias = layer.bias.as_ref().unwrap().val().grad(gradients).map(numbers).unwrap();
                [numbers(layer.weight.val().grad(gradients).unwrap()), bias].concat()
            };
            let x = random([n, channels, height, width]);
            check(&x, |x| conv2d(&layer, x), |x| layer.forward(x), parameters);
        }
    }
}

#[test]
fn a_convolution_of_images_without_gradients_is_burns_too() {
    let layer = Conv2dConfig::new([3, 16], [3, 3]).with_padding(PaddingConfig2d::Same).init(&Device::flex());
    let x = Tensor::<4>::random([2, 3, 12, 20], Distribution::Default, &Device::flex());
    let [ours, burns] = [conv2d(&layer, x.clone()), layer.forward(x)].map(numbers);
    assert!(ours.iter().zip(&burns).all(|(a, b)| (a - b).abs() < 1e-5));
}

#[test]
fn a_convolution_of_another_form_is_burns_own() {
    let around = Conv2dConfig::new([4, 6], [3, 3]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
    for config in [
        Conv2dConfig::new([4, 6], [3, 3]),
        Conv2dConfig::new([4, 6], [5, 5]).with_padding(PaddingConfig2d::Same),
        Conv2dConfig::new([65, 2], [3, 3]).with_padding(PaddingConfig2d::Same),
        around.clone().with_padding(PaddingConfig2d::Explicit(1, 1, 0, 0)),
        around.clone().with_stride([2, 1]),
        around.clone().with_stride([3, 3]),
        around.clone().with_dilation([2, 2]),
        around.clone().with_groups(2),
        around.with_bias(false),
    ] {
        let (layer, x) = (config.init(&Device::flex()), [2, config.channels[0], 8, 9]);
        let x = Tensor::<4>::random(x, Distribution::Default, &Device::flex());
        let [ours, burns] = [conv2d(&layer, x.clone()), layer.forward(x)];
        assert_eq!(ours.dims(), burns.dims(), "{config}");
        assert_eq!(numbers(ours), numbers(burns), "{config}");
    }
}

#[test]
fn neighbours_are_those_that_burn_joins_with_their_gradients() {
    for ([batch_size, n, width], radius) in
        [([2, 7, 3], 2), ([3, 4, 16], 1), ([2, 1, 5], 2), ([1, 2, 4], 3), ([2, 3, 2], 0)]
    {
        // A sum over copies, so that what is made is as large as what it is made of.
        let share = |x: Tensor<3>| {
            let weights = Tensor::<1, Int>::arange(0..i64::try_from(2 * radius + 1).unwrap(), &x.device()).float();
            let weights = (weights + 1.0).reshape([1, 1, 2 * radius + 1, 1]);
            (x.reshape([batch_size, n, 2 * radius + 1, width]) * weights).sum_dim(2).reshape([batch_size, n, width])
        };
        let x = random([batch_size, n, width]);
        check(&x, |x| share(with_neighbours(x, radius)), |x| share(join_neighbours(x, radius)), |_| Vec::new());
        let [ours, burns] = [with_neighbours(x.clone(), radius), join_neighbours(x, radius)].map(numbers);
        assert_eq!(ours, burns);
    }
    let x = Tensor::from_data([[[1.0, 2.0], [3.0, 4.0]]], &Device::flex());
    assert_eq!(numbers(with_neighbours(x, 1)), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
}

#[test]
fn a_normalisation_is_burns_with_its_gradients() {
    for width in [2, 17, 64] {
        let layer = LayerNormConfig::new(width).init(&device());
        let parameters = |gradients: &_| {
            let beta = layer.beta.as_ref().unwrap().val().grad(gradients).map(numbers).unwrap();
            [numbers(layer.gamma.val().grad(gradients).unwrap()), beta].concat()
        };
        check(&random([2, 5, width]), |x| layer_norm(&layer, x), |x| layer.forward(x), parameters);
        // Numbers that do not lie in their order.
        let turned = |x: Tensor<3>| x.swap_dims(0, 1);
        check(&random([3, 5, width]), |x| layer_norm(&layer, turned(x)), |x| layer.forward(turned(x)), parameters);
    }
}

#[test]
fn a_normalisation_by_the_root_mean_square_is_burns_with_its_gradients() {
    for width in [2, 17, 64] {
        let layer = RmsNormConfig::new(width).with_epsilon(0.25).init(&device());
        let parameters = |gradients: &_| numbers(layer.gamma.val().grad(gradients).unwrap());
        check(&random([2, 5, width]), |x| rms_norm(&layer, x), |x| layer.forward(x), parameters);
        // Numbers that do not lie in their order.
        let turned = |x: Tensor<3>| x.swap_dims(0, 1);
        check(&random([3, 5, width]), |x| rms_norm(&layer, turned(x)), |x| layer.forward(turned(x)), parameters);
    }
}

#[test]
fn gelu_and_softmax_are_burns_with_their_gradients() {
    for shape in [[1, 1, 1], [2, 3, 5], [4, 2, 24], [3, 7, 67]] {
        let (x, turned) = (random(shape), |x: Tensor<3>| x.swap_dims(0, 2));
        check(&x, gelu, activation::gelu, |_| Vec::new());
        check(&x, softmax, |x| activation::softmax(x, 2), |_| Vec::new());
        check(&x, |x| gelu(turned(x)), |x| activation::gelu(turned(x)), |_| Vec::new());
        check(&x, |x| softmax(turned(x)), |x| activation::softmax(turned(x), 2), |_| Vec::new());
    }
}

#[test]
fn gelu_is_right_where_it_is_nearly_nothing_or_all() {
    let (device, values) = (Device::flex(), [-1e4, -20.0, -5.5, -1e-3, 0.0, 1e-3, 5.5, 20.0, 1e4]);
    let x = || Tensor::<1>::from_data(TensorData::from(values), &device);
    let [ours, burns] = [gelu(x()), activation::gelu(x())].map(numbers);
    assert!(ours.iter().zip(&burns).all(|(a, b)| (a - b).abs() <= 2e-6 * b.abs().max(1.0)), "{ours:?} {burns:?}");
}

#[test]
fn what_is_out_of_sight_has_no_share_at_all() {
    let (device, far) = (Device::flex(), f32::NEG_INFINITY);
    let x = Tensor::<2>::from_data(TensorData::from([[0.0, far, 0.0, far], [-1e4, -1e4, 3.0, far]]), &device);
    assert_eq!(numbers(softmax(x)), [0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn attention_in_runs_is_that_of_scores_with_all_others_out_of_sight() {
    let heads = 3;
    for (n, width, runs) in
        [(5, 6, vec![0..2, 2..5]), (150, 12, vec![0..150, 150..150]), (140, 12, vec![0..3, 3..70, 72..73, 80..140])]
    {
        let [query, key, value] = [(); 3].map(|()| random([n, width]));
        let slopes = [0.5_f32, 0.25, 0.0];
        let sees = |row: usize, at: usize| at <= row && runs.iter().any(|run| run.contains(&row) && run.contains(&at));
        let bias = |head: usize, row: usize, at: usize| match sees(row, at) {
            true => -slopes[head] * (row - at) as f32,
            // What is in no run sees itself here, and is left out of what is compared.
            false if row == at => 0.0,
            false => f32::NEG_INFINITY,
        };
        let biases = (0..heads).flat_map(|head| (0..n * n).map(move |it| (head, it / n, it % n)));
        let biases = biases.map(|(head, row, at)| bias(head, row, at)).collect::<Vec<_>>();
        let biases = Tensor::<3>::from_data(TensorData::new(biases, [heads, n, n]), &device());
        let is_in = (0..n).map(|row| f32::from(u8::from(sees(row, row)))).collect::<Vec<_>>();
        let is_in = Tensor::<2>::from_data(TensorData::new(is_in, [n, 1]), &device());
        let by_head = |x: Tensor<2>| x.reshape([n, heads, width / heads]).swap_dims(0, 1);
        let burns = |query: Tensor<2>| {
            let scores = by_head(query).matmul(by_head(key.clone()).swap_dims(1, 2));
            let scores = scores / (width as f64 / heads as f64).sqrt() + biases.clone();
            let mixed = activation::softmax(scores, 2).matmul(by_head(value.clone()));
            mixed.swap_dims(0, 1).reshape([n, width]) * is_in.clone()
        };
        let runs = Runs::new(runs.clone().into(), slopes);
        let ours = |query: Tensor<2>| attention(&[query, key.clone(), value.clone()], &runs).unwrap();
        let others = |gradients: &_| [&key, &value].map(|it| numbers(it.grad(gradients).unwrap())).concat();
        check(&query, ours, burns, others);
    }
}

#[test]
fn a_cross_entropy_is_burns_with_its_gradients() {
    for (n, width, vocabulary) in [(1, 3, 5), (150, 12, 37), (300, 8, 64)] {
        let (features, embedding) = (random([n, width]), random([vocabulary, width]));
        let targets: Vec<_> = (0..n).map(|row| i32::try_from(row * 7 % vocabulary).unwrap()).collect();
        let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [n]), &device());
        let weights: Vec<_> = (0..n).map(|row| (row % 3) as f32 / 2.0).collect();
        let weights = Tensor::<1>::from_data(TensorData::new(weights, [n]), &device());
        let ours =
            |x: Tensor<2>| linear_cross_entropy(x, embedding.clone(), targets.clone(), weights.clone()).reshape([n, 1]);
        let burns = |x: Tensor<2>| {
            let all = activation::log_softmax(x.matmul(embedding.clone().transpose()), 1);
            (all.gather(1, targets.clone().reshape([n, 1])) * weights.clone().reshape([n, 1])).neg()
        };
        let others = |gradients: &_| numbers(embedding.grad(gradients).unwrap());
        check(&features, ours, burns, others);
        // What is done where it is not ours, as in 64 bits.
        let elsewhere = |x: Tensor<2>| {
            let [x, embedding] = [x, embedding.clone()].map(|it| it.cast(DType::F64));
            linear_cross_entropy(x, embedding, targets.clone(), weights.clone()).reshape([n, 1])
        };
        check(&features, ours, elsewhere, others);
        // Each of as much gradient, as in a loss.
        let twice = |it: Tensor<2>| it.sum().reshape([1, 1]).repeat_dim(0, 2);
        check(&features, |x| twice(ours(x)), |x| twice(burns(x)), others);
    }
}
