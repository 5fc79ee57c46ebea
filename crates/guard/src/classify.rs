//! Telling errors of a device apart.

use plimsoll_types::Bytes;

/// What an error of a device means for the step that hit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Not enough memory at this moment: after a cleanup, or in smaller parts, it may fit.
    OutOfMemory {
        /// The allocation that failed, where the error says.
        allocation: Option<Bytes>,
    },
    /// One tensor is larger than the device ever serves: only a smaller part makes a smaller tensor.
    NeverFits {
        /// The allocation that failed.
        allocation: Bytes,
        /// The largest that the device serves.
        largest: Bytes,
    },
    /// The device is lost to this process, which has to end.
    Poisoned,
    /// Anything else; not to be taken for memory.
    Other,
}

/// What is known of an error of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceError<'a> {
    /// What it says.
    pub text: &'a str,
    /// Whether the device is poisoned: the one variant that Burn 0.22 keeps.
    pub is_poisoned: bool,
}

/// Tells what an error of a device means; `largest` is the largest allocation that the device serves.
///
/// Burn 0.22 flattens the typed error of `CubeCL` 0.11 to text (a poisoned device aside), so this is the one place that
/// looks at words.
/// A tensor above the page limit and a shortage share their words (`can't allocate buffer of size`), and the CPU runtime
/// of `CubeCL` takes every shortage for the first, so the size decides.
///
/// # Sources
///
/// `IoError` in `cubecl-runtime` 0.11.3, `server/base.rs`; `ExecutionError` in `burn-std` 0.22.1.
pub fn classify(error: DeviceError<'_>, largest: Bytes) -> Cause {
    if error.is_poisoned {
        return Cause::Poisoned;
    }
    let marks = ["out of device memory allocating", "can't allocate buffer of size:"];
    let Some((_, rest)) = marks.iter().find_map(|mark| error.text.split_once(mark)) else { return Cause::Other };
    match leading_number(rest) {
        Some(allocation) if largest < allocation => Cause::NeverFits { allocation, largest },
        allocation => Cause::OutOfMemory { allocation },
    }
}

fn leading_number(text: &str) -> Option<Bytes> {
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: Bytes = Bytes::gib(1);

    #[track_caller]
    fn check(text: &str, cause: Cause) {
        assert_eq!(classify(DeviceError { text, is_poisoned: false }, LARGEST), cause, "{text}");
    }

    #[test]
    fn the_texts_of_the_allocator_are_out_of_memory_with_the_size() {
        check(
            "Several failures at once\nCaused by: An IO error happened\ncan't allocate buffer of size: 269484032",
            Cause::OutOfMemory { allocation: Some(Bytes(269_484_032)) },
        );
        check(
            "out of device memory allocating 105906176 bytes",
            Cause::OutOfMemory { allocation: Some(Bytes(105_906_176)) },
        );
        check("out of device memory allocating it", Cause::OutOfMemory { allocation: None });
    }

    #[test]
    fn a_tensor_above_what_the_device_serves_never_fits() {
        let allocation = Bytes(LARGEST.0 + 1);
        check(
            &format!("can't allocate buffer of size: {}", allocation.0),
            Cause::NeverFits { allocation, largest: LARGEST },
        );
        check(
            &format!("can't allocate buffer of size: {}", LARGEST.0),
            Cause::OutOfMemory { allocation: Some(LARGEST) },
        );
    }

    #[test]
    fn a_poisoned_device_is_poisoned_whatever_it_says() {
        let error = DeviceError { text: "out of device memory allocating 5 bytes", is_poisoned: true };
        assert_eq!(classify(error, LARGEST), Cause::Poisoned);
    }

    #[test]
    fn other_errors_are_never_taken_for_memory() {
        check("CUDA error: an illegal memory access was encountered", Cause::Other);
        check("failed to allocate a name for the kernel", Cause::Other);
        check("Memory location was never initialized", Cause::Other);
    }
}
