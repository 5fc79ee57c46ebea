//! `plimsoll probe`.

use std::process::ExitCode;

use plimsoll_probe::{DeviceKind, open_among, survey};
use plimsoll_types::Bytes;

use crate::args::ProbeArgs;
use crate::beat::Beat;

pub(crate) fn probe(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let devices = args.layers().load()?.settings.devices();
    // Where nothing is asked for, nothing is to be marked.
    let marked = if devices == [(DeviceKind::Flex, None)] { &[] } else { devices.as_slice() };
    let beat = Beat::start("probing");
    let entries = survey();
    let capacities: Vec<_> = (0..marked.len()).map(|at| open_among(marked, at)?.capacity()).collect();
    drop(beat);
    for entry in entries {
        println!("{entry}{}", mark(&entry.name, marked));
    }
    for ((at, (kind, _)), capacity) in marked.iter().enumerate().zip(&capacities) {
        match capacity {
            Ok(capacity) => println!("device {at} ({kind}): {capacity} to respect"),
            Err(error) => println!("device {at} ({kind}): failed to {error}"),
        }
    }
    let known: Option<Vec<Bytes>> = capacities.iter().map(|it| it.as_ref().ok().copied()).collect();
    if let Some(known) = known.filter(|it| 1 < it.len()) {
        let tightest = known.iter().zip(0..).min().map_or(0, |(_, at)| at);
        let (all, least): (Bytes, _) = (known.iter().copied().sum(), known[tightest]);
        println!("all devices: {all} together; the tightest is device {tightest}, with {least}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which of the configured devices an entry is.
fn mark(name: &str, devices: &[(DeviceKind, Option<Bytes>)]) -> String {
    let places = devices.iter().zip(0..).filter(|(it, _)| it.0.to_string() == name);
    let places: Vec<String> = places.map(|(_, at): (_, usize)| at.to_string()).collect();
    match places.as_slice() {
        [] => String::new(),
        [one] => format!("  <- device {one}"),
        all => format!("  <- devices {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_marked_with_all_devices_that_it_is() {
        let devices = [DeviceKind::Flex, DeviceKind::Cuda(1), DeviceKind::Flex].map(|it| (it, None));
        assert_eq!(mark("flex", &devices), "  <- devices 0, 2");
        assert_eq!(mark("cuda:1", &devices), "  <- device 1");
        assert_eq!(mark("cuda:0", &devices), "");
    }
}
