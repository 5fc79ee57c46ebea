//! A step of a batcher that fails.

#[expect(dead_code, reason = "its `main` is Burn's own loop")]
#[path = "../../examples/text.rs"]
mod text;

use burn::data::dataloader::batcher::Batcher;
use burn::optim::AdamConfig;
use burn::tensor::Device;
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
