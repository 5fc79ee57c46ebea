//! Loading that somebody watches.

use std::ops::ControlFlow;

/// Told how many of how many pieces are loaded; whoever breaks ends it.
///
/// What a piece is depends on the data, and each pass over them counts anew.
pub type Watch<'a> = &'a mut (dyn FnMut(usize, usize) -> ControlFlow<()> + Send);

/// Whoever watches has asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("load the data: interrupted")]
pub struct Interrupted;

/// Watches, and never asks for the end.
pub(crate) fn unwatched(_n_done: usize, _n: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Tells how far it is, and hears whether to go on.
pub(crate) fn tell(watch: Watch<'_>, n_done: usize, n: usize) -> Result<(), Interrupted> {
    if watch(n_done, n).is_break() { Err(Interrupted) } else { Ok(()) }
}
