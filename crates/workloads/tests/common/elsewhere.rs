//! Samples that another rank reads.

use std::ops::Range;

use burn::tensor::Device;
use plimsoll_train::{Draw, Item, Job, Part, Source};
use plimsoll_types::StepShape;

/// Holds the rows of a step that a rank runs, where it has read no others, against those of a rank that has read all; and what
/// stands for a sample against the sample.
#[track_caller]
pub(crate) fn check_stand_ins<J: Job>(job: &J, model: &J::Model, draw: &Draw, own: &Range<usize>, largest: StepShape) {
    let (source, device) = (job.source(), Device::flex());
    let told = |it: &<J::Source as Source>::Item| (it.extent(), it.counted_positions(), it.task());
    for id in 0..source.n_samples() {
        let (read, stand_in) = (source.read(draw.epoch, id).unwrap(), source.stand_in(id).unwrap());
        assert_eq!(told(&stand_in), told(&read), "sample {id}");
    }
    let rows = draw.parts.iter().flat_map(Part::row_sizes).enumerate();
    let is_own: Vec<_> = rows.flat_map(|(row, size)| std::iter::repeat_n(own.contains(&row), size)).collect();
    let losses = |reads: &dyn Fn(bool) -> bool| {
        let item = |(id, is_own): (u64, bool)| {
            if reads(is_own) { source.read(draw.epoch, id).unwrap() } else { source.stand_in(id).unwrap() }
        };
        let items: Vec<_> = draw.ids().zip(is_own.iter().copied()).map(item).collect();
        let mut buffer = source.buffer(largest);
        source.collate(draw, &items, &mut buffer).unwrap();
        let loss = |row: usize| {
            let batch = job.batch(&buffer, row..row + 1, &device);
            job.mean_loss(model, batch, &vec![1.0; job.tasks().len()]).mean.into_scalar::<f32>()
        };
        own.clone().map(loss).collect::<Vec<_>>()
    };
    let of_all = losses(&|_| true);
    assert!(!of_all.is_empty() && of_all.iter().all(|it| it.is_finite()), "{of_all:?}");
    assert_eq!(losses(&|is_own| is_own), of_all);
    assert_ne!(losses(&|is_own| !is_own), of_all, "what others read has no content here");
}
