//! Who else is on the device, as NVML tells it.

use std::collections::BTreeMap;
use std::fmt::Write;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use plimsoll_types::Bytes;

/// What each process holds; `None` where the driver does not say.
type Holders = Vec<(u32, Option<Bytes>)>;

/// Returns the bytes that other processes hold on the device, if NVML can tell them from this one.
///
/// This process must have a context on the device when it asks: finding itself is how it knows that the process ids
/// are its own system's, and on which slice of a card it is.
pub(super) fn held_by_others(nvml: &Nvml, uuid: [u8; 16]) -> Option<Bytes> {
    let devices = names(uuid).into_iter().filter_map(|name| nvml.device_by_uuid(name).ok()).flat_map(slices);
    others_beside(std::process::id(), devices.filter_map(|device| holders(&device)))
}

/// Returns the MIG slices of a card, or the device itself where it has none: the driver may have named the card only.
fn slices(device: Device<'_>) -> Vec<Device<'_>> {
    let count = device.mig_device_count().unwrap_or(0);
    let slices: Vec<_> = (0..count).filter_map(|index| device.mig_device_by_index(index).ok()).collect();
    if slices.is_empty() { vec![device] } else { slices }
}

fn holders(device: &Device<'_>) -> Option<Holders> {
    let compute = device.running_compute_processes().ok()?;
    let graphics = device.running_graphics_processes().unwrap_or_default();
    let held = |process: ProcessInfo| match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => (process.pid, Some(Bytes(bytes))),
        UsedGpuMemory::Unavailable => (process.pid, None),
    };
    Some(compute.into_iter().chain(graphics).map(held).collect())
}

/// Adds up what others hold on the first device that this process is on.
fn others_beside(own_pid: u32, mut devices: impl Iterator<Item = Holders>) -> Option<Bytes> {
    let own = devices.find(|holders| holders.iter().any(|(pid, _)| *pid == own_pid))?;
    sum_of_others(own_pid, own.into_iter())
}

/// Adds up what all but `own_pid` hold; a process that both computes and draws is listed twice and counted once.
fn sum_of_others(own_pid: u32, processes: impl Iterator<Item = (u32, Option<Bytes>)>) -> Option<Bytes> {
    let mut by_pid = BTreeMap::new();
    for (pid, held) in processes {
        let known = by_pid.entry(pid).or_insert(held);
        *known = (*known).zip(held).map(|(known, held)| known.max(held));
    }
    by_pid.remove(&own_pid)?;
    by_pid.into_values().sum()
}

/// Writes a device id as NVML does, for a card and for a MIG slice: a prefix and five groups of hexadecimal digits.
fn names(uuid: [u8; 16]) -> [String; 2] {
    let mut groups = String::new();
    for (index, byte) in uuid.iter().enumerate() {
        let dash = if matches!(index, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
        // Writing to a text never fails.
        let _ = write!(groups, "{dash}{byte:02x}");
    }
    ["GPU", "MIG"].map(|prefix| format!("{prefix}{groups}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_are_summed_once_each() {
        let list = [(7, Some(Bytes(100))), (8, Some(Bytes(30))), (9, Some(Bytes(5))), (8, Some(Bytes(30)))];
        assert_eq!(sum_of_others(7, list.into_iter()), Some(Bytes(35)));
        assert_eq!(sum_of_others(7, [(7, None)].into_iter()), Some(Bytes::ZERO));
    }

    #[test]
    fn a_list_that_does_not_name_this_process_or_its_bytes_tells_nothing() {
        assert_eq!(sum_of_others(7, [(8, Some(Bytes(30)))].into_iter()), None);
        assert_eq!(sum_of_others(7, [(7, Some(Bytes(1))), (8, None)].into_iter()), None);
        assert_eq!(sum_of_others(7, std::iter::empty()), None);
    }

    #[test]
    fn of_the_slices_of_a_card_the_one_with_this_process_counts() {
        let slices = || [vec![(8, Some(Bytes(30)))], vec![(9, Some(Bytes(5))), (7, Some(Bytes(100)))]].into_iter();
        assert_eq!(others_beside(7, slices()), Some(Bytes(5)));
        assert_eq!(others_beside(6, slices()), None);
    }

    #[test]
    fn an_id_is_written_in_five_groups() {
        let bytes = std::array::from_fn(|index| u8::try_from(index * 17).unwrap());
        let groups = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(names(bytes), [format!("GPU-{groups}"), format!("MIG-{groups}")]);
    }
}
