//! Sums on NVIDIA devices.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use cudarc::nccl::result::{NcclError, get_nccl_version};
use cudarc::nccl::{Comm, Id, ReduceOp};

use crate::error::check;
use crate::{Call, Fleet, FleetError};

/// The values that are on the device at a time: 16 MiB, which keep a network busy.
const VALUES_AT_ONCE: usize = 1 << 22;

/// Ranks that add on their NVIDIA devices, by NCCL; everything else they do as they did before.
///
/// **It has run with one rank only**, on an NVIDIA H100 with NCCL 2.28.9: several have never added anything.
///
/// Values come from the memory of the host and go back there, so that it spares the way between the devices, and not the way to
/// them.
/// It takes 16 MiB of its device, a share of as much, and what NCCL takes for itself.
/// A rank that fails in NCCL leaves the others waiting for as long as that does; no thread but the one that joined can use
/// it.
///
/// Driver and NCCL are looked for when ranks join. Where one is missing, what the bindings say as they panic goes to standard
/// error before it comes back as an error.
pub struct Nccl<F> {
    /// Tells the id, and does what is no sum.
    fleet: F,
    room: Room,
    ranks: Comm,
}

/// What a rank has on its device.
struct Room {
    stream: Arc<CudaStream>,
    /// A piece of what is added, as much for each rank.
    values: CudaSlice<f32>,
    /// The sums of this rank's share of a piece.
    sums: CudaSlice<f32>,
}

impl<F: Fleet> Nccl<F> {
    /// Brings ranks that can tell each other something together on their devices, of which this one has the one of that index.
    ///
    /// All ranks do, each with a device of its own.
    ///
    /// # Errors
    ///
    /// [`FleetError::Nccl`] where driver, device or NCCL are missing, or refuse; [`FleetError::Apart`] where they are for
    /// another rank; and those of [`Fleet::agree`].
    pub fn join(mut fleet: F, device: usize) -> Result<Self, FleetError> {
        let (rank, n_ranks) = (fleet.rank(), fleet.n_ranks());
        let opened = without_panic(|| open(device, n_ranks as usize, rank == 0));
        // Who joined one that cannot would wait for ever.
        let began = fleet.agree(&[u64::from(opened.is_ok())])?;
        let (room, id) = opened?;
        if let Some((rank, _)) = (0..).zip(began).find(|(_, it)| *it == 0) {
            return Err(FleetError::Apart { rank });
        }
        let mut bytes = id.map_or([0; 128], |it| it.internal().map(|it| it.to_ne_bytes()[0]));
        fleet.broadcast(&mut bytes)?;
        let id = Id::uninit(bytes.map(|it| c_char::from_ne_bytes([it])));
        without_panic(|| {
            let ranks =
                Comm::from_rank(Arc::clone(&room.stream), rank as usize, n_ranks as usize, id).map_err(refused)?;
            Ok(Self { fleet, room, ranks })
        })
    }

    /// Tells all ranks some numbers, and refuses what not all are about to do.
    fn tell(&mut self, own: Call, numbers: &[u64]) -> Result<Vec<u64>, FleetError> {
        let is_sum = u64::from(matches!(own, Call::Sum(_)));
        let all = self.fleet.agree(&[&[is_sum], numbers].concat())?;
        let ranks = all.chunks_exact(1 + numbers.len());
        let call = |it: &[u64]| match it {
            [1, n] => Call::Sum(usize::try_from(*n).unwrap_or(usize::MAX)),
            _ => Call::Agree(numbers.len()),
        };
        check(self.rank(), ranks.clone().map(call), own)?;
        Ok(ranks.flat_map(|it| &it[1..]).copied().collect())
    }

    /// Adds a piece: each rank a share of it, which all take, so that all have the same bits.
    fn sum_piece(&mut self, values: &mut [f32]) -> Result<(), FleetError> {
        let (Room { stream, values: room, sums }, n_ranks) = (&mut self.room, self.ranks.world_size());
        let share = values.len().div_ceil(n_ranks);
        stream.memcpy_htod(values, room).map_err(failed)?;
        let mut sums = sums.slice_mut(..share);
        self.ranks.reduce_scatter(&room.slice(..share * n_ranks), &mut sums, &ReduceOp::Sum).map_err(refused)?;
        self.ranks.all_gather(&sums, &mut room.slice_mut(..share * n_ranks)).map_err(refused)?;
        stream.memcpy_dtoh(&room.slice(..values.len()), values).map_err(failed)
    }
}

impl<F: Fleet> Fleet for Nccl<F> {
    fn rank(&self) -> u32 {
        self.fleet.rank()
    }

    fn n_ranks(&self) -> u32 {
        self.fleet.n_ranks()
    }

    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError> {
        self.tell(Call::Agree(own.len()), own)
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<(), FleetError> {
        self.tell(Call::Sum(values.len()), &[values.len() as u64])?;
        values.chunks_mut(self.room.values.len()).try_for_each(|it| without_panic(|| self.sum_piece(it)))
    }

    fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), FleetError> {
        self.fleet.broadcast(bytes)
    }

    fn leave(&mut self) {
        self.fleet.leave();
    }
}

/// Opens a device with room for what is added, and NCCL, which the first rank asks for an id.
fn open(device: usize, n_ranks: usize, is_first: bool) -> Result<(Room, Option<Id>), FleetError> {
    let stream = CudaContext::new(device).and_then(|it| it.new_stream()).map_err(failed)?;
    let share = VALUES_AT_ONCE.div_ceil(n_ranks);
    let values = stream.alloc_zeros(share * n_ranks).map_err(failed)?;
    let sums = stream.alloc_zeros(share).map_err(failed)?;
    get_nccl_version().map_err(refused)?;
    let id = if is_first { Some(Id::new().map_err(refused)?) } else { None };
    Ok((Room { stream, values, sums }, id))
}

/// Makes an error of a panic: the bindings have no other word for a library, or a function of it, that is missing, and asking
/// them whether it is there takes unsafe code.
fn without_panic<R>(call: impl FnOnce() -> Result<R, FleetError>) -> Result<R, FleetError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(FleetError::Nccl(text.unwrap_or("the bindings panicked").to_owned()))
    })
}

fn refused(NcclError(answer): NcclError) -> FleetError {
    FleetError::Nccl(format!("NCCL answers {answer:?}"))
}

fn failed(error: DriverError) -> FleetError {
    FleetError::Nccl(format!("the driver answers {error}"))
}
