//! The devices at hand.

use std::path::Path;
use std::time::Instant;

use plimsoll_predict::Dtype;
use plimsoll_probe::DeviceKind;
use plimsoll_proof::plans::Missing;

use crate::jobs::JOBS;
use crate::order::{Reply, Task};
use crate::spawn::Place;

/// Parts of the names of Vulkan devices that are software.
const SOFTWARE: [&str; 3] = ["SwiftShader", "llvmpipe", "lavapipe"];

/// Opens each device in a process of its own, and returns those that are there, and why the others are not.
pub(crate) fn at_hand(kinds: &[DeviceKind], data: Option<&Path>, end: Option<Instant>) -> (Vec<Place>, Vec<Missing>) {
    let (mut places, mut missing) = (Vec::new(), Vec::new());
    for device in kinds {
        let (data, name) = (data.map(Path::to_owned), device.to_string());
        let place = Place { job: JOBS[0], device: *device, checkpointing: false, dtype: Dtype::F32, data, name, end };
        match place.ask(Task::Open) {
            Ok(Reply::Open { name }) => places.push(Place { name, ..place }),
            Ok(_) => missing.push(Missing { what: place.name, reason: "open it".to_owned() }),
            Err(error) => missing.push(Missing { what: place.name, reason: reason(&error.to_string()) }),
        }
    }
    (places, missing)
}

/// Whether a device is a program on the CPU, which takes seconds where a GPU takes milliseconds.
pub(crate) fn is_software(place: &Place) -> bool {
    SOFTWARE.iter().any(|it| place.name.contains(it))
}

/// Returns what the process itself said.
fn reason(error: &str) -> String {
    error.rsplit_once("error: failed to ").map_or(error, |(_, said)| said).to_owned()
}
