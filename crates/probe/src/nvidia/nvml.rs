//! Who else is on the device, as NVML tells it.

use std::collections::BTreeMap;
use std::fmt::Write;

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use plimsoll_types::Bytes;

/// Returns the bytes that other processes hold on the device, if NVML can tell them from this one.
///
/// This process must have a context on the device when it asks: finding itself is how it knows that the process ids
/// are its own system's.
pub(super) fn held_by_others(nvml: &Nvml, uuid: &str) -> Option<Bytes> {
    let device = nvml.device_by_uuid(uuid).ok()?;
    let compute = device.running_compute_processes().ok()?;
    let graphics = device.running_graphics_processes().unwrap_or_default();
    let processes = compute.into_iter().chain(graphics).map(|it| match it.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => (it.pid, Some(Bytes(bytes))),
        UsedGpuMemory::Unavailable => (it.pid, None),
    });
    sum_of_others(std::process::id(), processes)
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

/// Writes a device id as NVML does: `GPU-` and five groups of hexadecimal digits.
pub(super) fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if matches!(index, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
        // Writing to a text never fails.
        let _ = write!(text, "{dash}{byte:02x}");
    }
    text
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
    fn an_id_is_written_in_five_groups() {
        let bytes = std::array::from_fn(|index| u8::try_from(index * 17).unwrap());
        assert_eq!(uuid_text(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
