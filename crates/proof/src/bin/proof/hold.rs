//! Another program's memory on the device.

use std::thread;
use std::time::Duration;

use burn::tensor::Tensor;
use plimsoll_probe::{DeviceKind, nvidia};
use plimsoll_train::open_device;
use plimsoll_types::Bytes;

use crate::Failed;
use crate::order::Reply;

/// What is taken at a time.
const PIECE: Bytes = Bytes::mib(16);

/// What is taken where no driver says what is free.
const BLIND: Bytes = Bytes::mib(256);

/// How long it is kept at most: nobody's check takes longer.
const LONG: Duration = Duration::from_mins(10);

/// Takes what is free but for some of it, and keeps it.
pub(crate) fn hold(kind: DeviceKind, spare: Bytes) -> Result<Reply, Failed> {
    let device = open_device(kind)?;
    let wanted = nvidia::device(0).map_or(BLIND, |it| it.free.saturating_sub(spare));
    let width = usize::try_from(PIECE.0 / 4)?;
    let mut held = Vec::new();
    for _ in 0..wanted.0 / PIECE.0 {
        held.push(Tensor::<1>::ones([width], &device));
        if device.sync().is_err() {
            break;
        }
    }
    thread::sleep(LONG);
    Err(format!("hold {} pieces of {PIECE} until it is ended", held.len()).into())
}
