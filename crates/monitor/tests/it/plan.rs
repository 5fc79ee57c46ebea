//! Memory plans that nobody made, the same at every call.

use plimsoll_monitor::{PlanCell, PlanSource, PlanView};
use plimsoll_types::{Bytes, Extent, StepShape};

/// What a small convolutional net would need: a constant, and planes of so many bytes per pixel.
fn cell(batch: u32, edge: u32, source: PlanSource) -> PlanCell {
    let planes = Bytes(u64::from(batch) * u64::from(edge).pow(2) * 8_400);
    let in_use = Bytes::mib(24).saturating_add(planes);
    let reserved = Some(Bytes(in_use.0.next_multiple_of(Bytes::mib(2).0)));
    PlanCell { shape: StepShape::new(batch, edge), reserved, in_use: Some(in_use), source }
}

/// A plan over these batch sizes and edges, with the cells that `source` gives a source.
fn plan(batches: &[u32], edges: &[u32], source: impl Fn(u32, u32) -> Option<PlanSource>) -> PlanView {
    let shapes = edges.iter().flat_map(|edge| batches.iter().map(move |batch| (*batch, *edge)));
    PlanView {
        job: "sr, training".into(),
        device: "vulkan (software)".into(),
        edge_name: "patch size (px)".into(),
        capacity: Bytes::mib(192),
        budget: Bytes(181_193_932),
        extents: edges.iter().map(|it| Extent::new(*it)).collect(),
        batches: batches.to_vec(),
        cells: shapes.filter_map(|(batch, edge)| Some(cell(batch, edge, source(batch, edge)?))).collect(),
    }
}

/// Nothing.
pub(crate) fn empty() -> PlanView {
    PlanView { cells: Vec::new(), ..single() }
}

/// One cell.
pub(crate) fn single() -> PlanView {
    plan(&[4], &[32], |_, _| Some(PlanSource::DryRun))
}

/// A few cells of every kind.
pub(crate) fn small() -> PlanView {
    let source = |batch, edge| match (batch, edge) {
        (1, 64) => Some(PlanSource::Memo),
        (4, 16) => None,
        (8, _) => Some(PlanSource::Certificate),
        _ => Some(PlanSource::DryRun),
    };
    let mut plan = plan(&[1, 2, 4, 8], &[16, 32, 64], source);
    for it in plan.cells.iter_mut().filter(|it| it.shape == StepShape::new(8, 64)) {
        (it.reserved, it.in_use) = (None, None);
    }
    plan
}

/// Every second cell or so of 5 edges and 25 batch sizes, the largest of which never fit.
#[cfg(feature = "png")]
pub(crate) fn ladder() -> PlanView {
    let batches: Vec<u32> = (1..=16).chain((18..=34).step_by(2)).collect();
    let source = |batch: u32, edge: u32| {
        let near = (60_000..400_000).contains(&(batch * edge * edge * 12)) || batch.is_power_of_two();
        near.then_some(if edge == 80 && batch == 1 { PlanSource::Memo } else { PlanSource::DryRun })
    };
    let mut plan = plan(&batches, &[16, 32, 48, 64, 80], source);
    for it in plan.cells.iter_mut().filter(|it| 8 <= it.shape.samples && 64 <= it.shape.edge()) {
        it.reserved = None;
    }
    plan
}

/// All cells of 40 edges and 30 batch sizes.
pub(crate) fn large() -> PlanView {
    let batches: Vec<u32> = (0..30).map(|it| 1 + it * it).collect();
    let edges: Vec<u32> = (1..=40).map(|it| 4 * it).collect();
    let in_sources = [PlanSource::DryRun, PlanSource::Certificate, PlanSource::Memo];
    plan(&batches, &edges, |batch, edge| Some(in_sources[(batch + edge / 4) as usize % 3]))
}
