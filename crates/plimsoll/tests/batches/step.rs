//! A step of a batcher that fails.

#[expect(dead_code, reason = "its `main` is Burn's own loop")]
#[path = "../../examples/text.rs"]
mod text;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, SgdConfig};
use burn::tensor::{Device, Tensor};
use plimsoll::{Batches, Step};

use self::text::{Net, Text, TextBatch, TextBatcher, texts};

/// Panics over a text of so many words.
struct Careless {
    n_words: usize,
}

impl Batcher<Text, TextBatch> for Careless {
    fn batch(&self, items: Vec<Text>, device: &Device) -> TextBatch {
        assert!(items.iter().all(|it| it.words.len() != self.n_words), "a text of {} words", self.n_words);
        TextBatcher.batch(items, device)
    }
}

fn by_length() -> Batches<Text, TextBatch> {
    plimsoll::batches(texts(512), TextBatcher).cost(|it| it.words.len()).build().unwrap()
}

#[test]
fn a_batcher_that_panics_in_a_step_is_told_and_nothing_has_happened() {
    let loss_of_one = |step: &Step<Net>| {
        let one = by_length().epoch(0).next().unwrap().unwrap();
        step.model().loss(TextBatcher.batch(one.items, &Device::flex().autodiff())).into_scalar::<f32>().to_bits()
    };
    let batches = plimsoll::batches(texts(512), Careless { n_words: 4 }).cost(|it| it.words.len());
    let batches = batches.effective_batch(512).build().unwrap();
    let whole = batches.epoch(0).next().unwrap().unwrap();
    // The shortest come last, when another part of the step has run.
    let device = Device::flex().autodiff();
    let step = plimsoll::step(&device, Net::init(&device), AdamConfig::new().init());
    let mut step = step.micro_batch(200).build().unwrap();
    let before = loss_of_one(&step);
    let error = step.run_batches(&batches, &whole, 1e-3, Net::loss).unwrap_err().to_string();
    let said = "run a step: batch 200 samples: the batcher panicked: a text of 4 words, of the indices ";
    assert!(error.starts_with(said) && error.ends_with(" and 192 more"), "{error}");
    assert_eq!(loss_of_one(&step), before);
    let good = by_length();
    assert!(step.run_batches(&good, &good.epoch(0).next().unwrap().unwrap(), 1e-3, Net::loss).is_ok());
    assert_ne!(loss_of_one(&step), before);
}

#[test]
fn a_guarded_step_of_several_axes_is_refused() {
    let batches = plimsoll::batches(texts(64), TextBatcher).lengths(|it| [it.words.len(), 2]).build().unwrap();
    let device = Device::flex().autodiff();
    let mut step = plimsoll::step(&device, Net::init(&device), AdamConfig::new().init()).build().unwrap();
    let samples = batches.epoch(0).next().unwrap().unwrap();
    let error = step.run_batches(&batches, &samples, 1e-3, Net::loss).unwrap_err().to_string();
    assert!(error.starts_with("run a step: take a step of samples of 2 axes"), "{error}");
}

/// Takes the numbers of all samples together.
struct Together;

impl Batcher<Vec<f32>, Tensor<2>> for Together {
    fn batch(&self, items: Vec<Vec<f32>>, device: &Device) -> Tensor<2> {
        Tensor::<1>::from_floats(&*items.concat(), device).reshape([-1, 1])
    }
}

#[test]
fn a_step_in_parts_has_the_mean_over_whatever_a_loss_is_a_mean_over() {
    // From one number to twelve; what they cost says nothing of that.
    let samples = || InMemDataset::new((1..=12).map(|n| vec![n as f32; n]).collect());
    let cost = |it: &Vec<f32>| 20 - it.len();
    let batches = || plimsoll::batches(samples(), Together).cost(cost).effective_batch(12);
    let device = Device::flex().autodiff();
    let layer: Linear = LinearConfig::new(1, 1).init(&device);
    let mean_loss = |layer: &Linear, numbers: Tensor<2>| layer.forward(numbers).powi_scalar(2).mean();
    let loss = |micro_batch: u32, batches: &Batches<Vec<f32>, Tensor<2>>| {
        let step = plimsoll::step(&device, layer.clone(), SgdConfig::new().init()).micro_batch(micro_batch);
        let samples = batches.epoch(0).next().unwrap().unwrap();
        let done = step.build().unwrap().run_batches(batches, &samples, 1e-3, mean_loss).unwrap();
        (done.loss, done.gradient_norm)
    };
    let (by_number, by_sample) = (batches().units(Vec::len).build().unwrap(), batches().build().unwrap());
    let whole = loss(12, &by_number);
    assert_eq!(whole, loss(12, &by_sample), "one part is what its loss says");
    let (in_parts, unweighted) = (loss(5, &by_number), loss(5, &by_sample));
    assert!((in_parts.0 - whole.0).abs() < 1e-5 * whole.0, "{in_parts:?} {whole:?}");
    assert!((in_parts.1 - whole.1).abs() < 1e-5 * whole.1, "{in_parts:?} {whole:?}");
    assert!((unweighted.0 - whole.0).abs() > 1e-2 * whole.0, "{unweighted:?} {whole:?}");
}
