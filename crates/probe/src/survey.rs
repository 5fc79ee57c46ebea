//! Everything that can be seen from here.

use std::fmt;

use plimsoll_types::Bytes;

use crate::{DeviceKind, Host, Probe, ProbeError, open};

/// One place where memory is, and what is known of it.
#[derive(Debug)]
pub struct SurveyEntry {
    /// A short name: a [`DeviceKind`], or `host`, `cgroup`, `nvidia`.
    pub name: String,
    /// What was found, or why nothing was.
    pub found: Result<Survey, ProbeError>,
}

/// What is known of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// What it calls itself, or where the figures come from.
    pub detail: String,
    /// The figures, each with what it means (`total`, `free`, `in use`, …).
    pub figures: Vec<(&'static str, Bytes)>,
}

/// Looks at everything that can be seen: the host and its control groups, this program's heap, Vulkan and CUDA devices,
/// and what the NVIDIA driver says.
///
/// A CUDA device is asked through its driver, and no context stays behind; a Vulkan device stays open, with the little
/// memory that its allocator takes.
pub fn survey() -> Vec<SurveyEntry> {
    let host = Host::new();
    let mut entries = vec![
        SurveyEntry { name: "host".into(), found: host_memory(&host) },
        SurveyEntry { name: "cgroup".into(), found: cgroup_limit(&host) },
    ];
    let kinds = std::iter::once(DeviceKind::Flex).chain(vulkan_kinds()).chain(cuda_kinds());
    entries.extend(kinds.map(|kind| SurveyEntry { name: kind.to_string(), found: probed(kind) }));
    entries.extend(nvidia_entries());
    entries
}

fn host_memory(host: &Host) -> Result<Survey, ProbeError> {
    let memory = host.memory()?;
    let figures = vec![("total", memory.total), ("available", memory.available)];
    Ok(Survey { detail: "memory of this machine".into(), figures })
}

fn cgroup_limit(host: &Host) -> Result<Survey, ProbeError> {
    Ok(match host.cgroup_limit()? {
        Some(group) => Survey { detail: group.path.display().to_string(), figures: vec![("limit", group.limit)] },
        None => Survey { detail: "no limit".into(), figures: Vec::new() },
    })
}

fn probed(kind: DeviceKind) -> Result<Survey, ProbeError> {
    #[cfg(feature = "cuda")]
    if let DeviceKind::Cuda(index) = kind {
        return crate::nvidia::device(index).map(nvidia_figures);
    }
    let probe = open(kind, None)?;
    let reading = probe.read()?;
    let mut figures = vec![("in use", reading.in_use), ("reserved", reading.reserved), ("peak", reading.peak)];
    match probe.capacity() {
        Ok(capacity) => figures.insert(0, ("capacity", capacity)),
        Err(ProbeError::CapacityUnknown { .. }) => {}
        Err(error) => return Err(error),
    }
    let name = probe.name();
    // `vulkan:0 (card)` stands behind `vulkan:0: ` in the list.
    let card = name.strip_prefix(&format!("{kind} (")).and_then(|it| it.strip_suffix(')'));
    Ok(Survey { detail: card.unwrap_or(&name).to_owned(), figures })
}

/// Returns every Vulkan device, or the first one, which then says why it is not there.
fn vulkan_kinds() -> impl Iterator<Item = DeviceKind> {
    #[cfg(feature = "vulkan")]
    let count = crate::VulkanAdapter::all().len();
    #[cfg(not(feature = "vulkan"))]
    let count = 0;
    (0..count.max(1)).map(DeviceKind::Vulkan)
}

/// Returns every CUDA device, or the first one, which then says why it is not there.
fn cuda_kinds() -> impl Iterator<Item = DeviceKind> {
    #[cfg(feature = "cuda")]
    let count = crate::nvidia::count().unwrap_or(0);
    #[cfg(not(feature = "cuda"))]
    let count = 0;
    (0..count.max(1)).map(DeviceKind::Cuda)
}

#[cfg(feature = "nvidia")]
fn nvidia_entries() -> Vec<SurveyEntry> {
    use crate::nvidia;
    match nvidia::count() {
        Ok(0) => vec![SurveyEntry { name: "nvidia".into(), found: Err(nvidia::no_device(0, 0)) }],
        Ok(count) => (0..count)
            .map(|index| SurveyEntry {
                name: format!("nvidia:{index}"),
                found: nvidia::device(index).map(nvidia_figures),
            })
            .collect(),
        Err(error) => vec![SurveyEntry { name: "nvidia".into(), found: Err(error) }],
    }
}

#[cfg(feature = "nvidia")]
fn nvidia_figures(device: crate::nvidia::NvidiaDevice) -> Survey {
    let mut figures = vec![("total", device.total), ("free", device.free)];
    figures.extend(device.other_processes.map(|held| ("other processes", held)));
    let driver = device.driver.map(|it| format!(", driver {it}")).unwrap_or_default();
    Survey { detail: device.name + &driver, figures }
}

#[cfg(not(feature = "nvidia"))]
fn nvidia_entries() -> Vec<SurveyEntry> {
    let error = ProbeError::FeatureMissing { device: "nvidia".into(), feature: "nvidia" };
    vec![SurveyEntry { name: "nvidia".into(), found: Err(error) }]
}

/// Writes `detail: 24.00 GiB total, 1.00 GiB free`.
impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures: Vec<String> = self.figures.iter().map(|(label, size)| format!("{size} {label}")).collect();
        let colon = if figures.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.detail, figures.join(", "))
    }
}

/// Writes `name: what was found`, or `name: failed to …`.
impl fmt::Display for SurveyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Ok(survey) => write!(f, "{}: {survey}", self.name),
            Err(error) => write!(f, "{}: failed to {error}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_there_with_figures_or_a_reason() {
        #[cfg(feature = "nvidia")]
        let _alone = crate::nvidia::ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let entries = survey();
        for name in ["host", "cgroup", "flex", "vulkan:0", "cuda:0", "nvidia"] {
            assert!(entries.iter().any(|it| it.name.starts_with(name)), "{name} is missing in {entries:?}");
        }
        let flex = entries.iter().find(|it| it.name == "flex").unwrap();
        assert!(flex.to_string().starts_with("flex: failed to measure the heap: "), "{flex}");
    }

    #[test]
    fn an_entry_is_one_line() {
        let found =
            Survey { detail: "H200".into(), figures: vec![("total", Bytes::gib(139)), ("free", Bytes::gib(1))] };
        let entry = SurveyEntry { name: "nvidia:0".into(), found: Ok(found) };
        assert_eq!(entry.to_string(), "nvidia:0: H200: 139.00 GiB total, 1.00 GiB free");
    }
}
