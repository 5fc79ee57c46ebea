//! Samples that are read and collated ahead of need.

use std::sync::mpsc::{Receiver, SyncSender};

use plimsoll_proof::end_to_end::{Batch, Turn};
use plimsoll_train::{Draw, Part, Source, SourceError, Unit};
use plimsoll_types::StepShape;

/// Steps that are collated ahead of the one that runs.
const AHEAD: usize = 2;

/// The samples of one step, on the host.
pub(crate) struct Filled<B> {
    pub(crate) draw: Draw,
    /// What each sample counts.
    pub(crate) units: Vec<u64>,
    pub(crate) buffer: B,
}

/// What comes out of a worker: steps in the order of their draws.
pub(crate) type Filling<S> = Result<Filled<<S as Source>::Buffer>, SourceError>;

/// Returns the steps of a turn, as a source collates them.
pub(crate) fn draws(turn: Turn) -> impl Iterator<Item = Draw> {
    let part = |Batch { ids, edge, packed }: Batch| Part { packed, ..Part::new(ids, edge) };
    turn.steps.into_iter().map(move |step| Draw { epoch: turn.epoch, parts: step.into_iter().map(part).collect() })
}

/// Allocates what a worker fills while another step runs.
pub(crate) fn buffers<S: Source>(source: &S, largest: StepShape) -> Vec<S::Buffer> {
    (0..=AHEAD).map(|_| source.buffer(largest)).collect()
}

/// Reads and collates one draw after the other, until nobody wants more.
pub(crate) fn work<S: Source>(
    (source, unit): (&S, Unit),
    draws: impl Iterator<Item = Draw>,
    free: &Receiver<S::Buffer>,
    filled: &SyncSender<Filling<S>>,
) {
    for draw in draws {
        let Ok(buffer) = free.recv() else { return };
        if filled.send(fill((source, unit), draw, buffer)).is_err() {
            return;
        }
    }
}

fn fill<S: Source>((source, unit): (&S, Unit), draw: Draw, mut buffer: S::Buffer) -> Filling<S> {
    let items = draw.ids().map(|id| source.read(draw.epoch, id)).collect::<Result<Vec<_>, _>>()?;
    source.collate(&draw, &items, &mut buffer)?;
    let units = items.iter().map(|it| unit.of(it)).collect();
    Ok(Filled { draw, units, buffer })
}
