//! Sizes, devices and refusals, as people and drivers write them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::limited;
use plimsoll_probe::{DeviceKind, Refusal};
use plimsoll_types::Bytes;

fuzz_target!(|input: &str| limited(|| {
    drop((input.parse::<DeviceKind>(), input.parse::<Refusal>()));
    let Ok(size) = input.parse::<Bytes>() else { return };
    let shown = size.shown_up();
    assert!(
        size <= shown || shown == Bytes(u64::MAX) || size.to_string().parse::<Bytes>().is_err(),
        "{size:?} {shown:?}"
    );
    let json = serde_json::to_string(&size).expect("a size is plain data");
    assert_eq!(serde_json::from_str::<Bytes>(&json).expect("what is written is read"), size);
}));
