//! Samples of different lengths, in parts of one step.

use plimsoll_train::{Draw, Item, Job, Part, Source};
use plimsoll_types::StepShape;

pub(crate) fn collated<J: Job>(job: &J, parts: &[Part], largest: StepShape) -> <J::Source as Source>::Buffer {
    let source = job.source();
    let (draw, mut buffer) = (Draw { epoch: 0, parts: parts.to_vec() }, source.buffer(largest));
    let items: Vec<_> = draw.ids().map(|id| source.read(0, id).unwrap()).collect();
    source.collate(&draw, &items, &mut buffer).unwrap();
    buffer
}

pub(crate) fn length<J: Job>(job: &J, id: u64) -> u32 {
    job.source().read(0, id).unwrap().extent().edge()
}

/// Parts of two, five and six samples of different lengths, `stride` ids apart, each padded to the longest of its part.
pub(crate) fn parts<J: Job>(job: &J, stride: u64) -> Vec<Part> {
    let mut ids: Vec<_> = (0..13).map(|at| at * stride).collect();
    ids.sort_by_key(|id| length(job, *id));
    let part = |ids: &[u64]| Part::new(ids.to_vec(), length(job, ids[ids.len() - 1]));
    let parts = vec![part(&ids[..2]), part(&ids[2..7]), part(&ids[7..])];
    assert!(parts[0].extent < parts[1].extent && parts[1].extent < parts[2].extent, "{parts:?}");
    parts
}
