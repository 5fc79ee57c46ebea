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
    /// The host has no memory left that it can pin for transfers: no smaller part frees any of it.
    HostMemory,
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

/// Allocations that failed, with their size behind the words.
const SIZED: [&str; 2] = ["out of device memory allocating", "can't allocate buffer of size:"];

/// An allocation for which a cleanup makes room: the allocator tracks no further size of pages.
const NO_PAGE_SIZE: &str = "every page size the memory tracks still holds live allocations";

/// Memory that a driver wanted for itself, of unknown size: for a launch, a module, a stream or an event.
const OF_DRIVER: [&str; 2] = ["CUDA_ERROR_OUT_OF_MEMORY", "An out-of-memory error happened during launch"];

/// `CUDA_ERROR_OUT_OF_MEMORY` where `CubeCL` keeps the number alone.
const STATUS: &str = " failed with status 2";

/// Memory of the host that could not be pinned, whatever else the line says.
const PINNED: [&str; 2] = ["cuMemAllocHost", "Unable to reserve pinned memory"];

/// Tells what an error of a device means; `largest` is the largest allocation that the device serves.
///
/// Burn 0.22 flattens the typed error of `CubeCL` 0.11 to text (a poisoned device aside), so this is the one place that
/// looks at words.
/// A tensor above the page limit and a shortage share their words (`can't allocate buffer of size`), and the CPU runtime
/// of `CubeCL` takes every shortage for the first, so the size decides.
/// Of several failures at once the one counts that a smaller part helps most surely.
///
/// # Sources
///
/// `IoError` and `LaunchError` in `cubecl-runtime` 0.11.3, `server/base.rs`; `DriverError` in `cubecl-server` 0.11.3,
/// `driver.rs`; `launch_failed` and `load_ptx` in `cubecl-cuda` 0.11.3, `compute/context.rs`, and its
/// `compute/storage/cpu.rs`; `DriverError` in `cudarc` 0.19.10; `ExecutionError` in `burn-std` 0.22.1.
pub fn classify(error: DeviceError<'_>, largest: Bytes) -> Cause {
    if error.is_poisoned {
        return Cause::Poisoned;
    }
    let causes = error.text.lines().filter_map(|line| of_line(line, largest));
    let weight = |cause: &Cause| match cause {
        Cause::NeverFits { .. } => 0,
        Cause::OutOfMemory { allocation: Some(_) } => 1,
        Cause::OutOfMemory { allocation: None } => 2,
        Cause::HostMemory | Cause::Poisoned | Cause::Other => 3,
    };
    causes.min_by_key(weight).unwrap_or(Cause::Other)
}

/// Tells what one line of an error says of memory, if anything.
fn of_line(line: &str, largest: Bytes) -> Option<Cause> {
    if PINNED.iter().any(|mark| line.contains(mark)) {
        return Some(Cause::HostMemory);
    }
    if let Some((_, rest)) = SIZED.iter().find_map(|mark| line.split_once(mark)) {
        return Some(match leading_number(rest) {
            Some(allocation) if largest < allocation => Cause::NeverFits { allocation, largest },
            allocation => Cause::OutOfMemory { allocation },
        });
    }
    if line.contains(NO_PAGE_SIZE) {
        return Some(Cause::OutOfMemory {
            allocation: line.split_once("Can't allocate").and_then(|it| leading_number(it.1)),
        });
    }
    let is_of_driver = OF_DRIVER.iter().any(|mark| line.contains(mark)) || line.trim_end().ends_with(STATUS);
    is_of_driver.then_some(Cause::OutOfMemory { allocation: None })
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

    const OUT_OF_MEMORY: Cause = Cause::OutOfMemory { allocation: None };

    #[test]
    fn what_the_driver_of_cuda_lacks_for_itself_is_out_of_memory() {
        let driver = "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")";
        let launch = format!("An unknown error happened during launch\nCaused by:\n  {driver}\nBacktrace\n   0: main");
        check(&launch, OUT_OF_MEMORY);
        let module =
            "A compilation error happened during launch\nCaused by:\n  An error caused the compilation to fail";
        check(&format!("{module}\nCaused by:\n  Unable to load the PTX: {driver}\n"), OUT_OF_MEMORY);
        check("A server error happened\n  cuStreamCreate failed with status 2\n", OUT_OF_MEMORY);
        check("An out-of-memory error happened during launch\nCaused by:\n  hipErrorOutOfMemory", OUT_OF_MEMORY);
    }

    #[test]
    fn sizes_of_pages_that_are_all_in_use_are_out_of_memory_until_a_cleanup() {
        check(
            "Can't allocate 4096 bytes: every page size the memory tracks still holds live allocations\n",
            Cause::OutOfMemory { allocation: Some(Bytes(4096)) },
        );
    }

    #[test]
    fn memory_of_the_host_that_cannot_be_pinned_is_a_cause_of_its_own() {
        for text in [
            "Unknown error happened during execution: cuMemAllocHost_v2 failed with error code: CUDA_ERROR_OUT_OF_MEMORY",
            "Unknown error happened during execution: Unable to reserve pinned memory\n   0: main",
        ] {
            check(text, Cause::HostMemory);
            let both = format!("{text}\nout of device memory allocating 77 bytes\n");
            check(&both, Cause::OutOfMemory { allocation: Some(Bytes(77)) });
        }
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
        check(
            "Unable to load the PTX: DriverError(CUDA_ERROR_INVALID_PTX, \"a PTX JIT compilation failed\")",
            Cause::Other,
        );
        check("cuStreamCreate failed with status 201", Cause::Other);
        check("DriverError(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, \"too many resources requested\")", Cause::Other);
    }
}
