//! Telling errors of a device apart.

use plimsoll_types::Bytes;

/// What an error of a device means for the step that hit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Not enough memory at this moment: smaller parts may fit.
    OutOfMemory {
        /// The allocation that failed.
        allocation: Option<Bytes>,
    },
    /// Anything else; not to be taken for memory.
    Other,
}

/// Reads the cause out of an error text of `CubeCL` 0.11.
///
/// Burn 0.22 flattens the typed error to text (a poisoned device aside, which keeps its variant), so this is the one
/// place that looks at words.
/// A tensor above the page limit of the device fails with the same words as a shortage (`can't allocate buffer of
/// size`), so both count as out of memory here: a smaller part makes a smaller tensor, and one sample that still fails
/// never fits.
///
/// # Sources
///
/// `IoError` in `cubecl-runtime` 0.11.3, `server/base.rs`; `ExecutionError` in `burn-std` 0.22.1.
pub fn classify(error: &str) -> Cause {
    let marks = ["out of device memory allocating", "can't allocate buffer of size:"];
    match marks.iter().find_map(|mark| error.split_once(mark)) {
        Some((_, rest)) => Cause::OutOfMemory { allocation: leading_number(rest) },
        None => Cause::Other,
    }
}

fn leading_number(text: &str) -> Option<Bytes> {
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, cause: Cause) {
        assert_eq!(classify(text), cause, "{text}");
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
    }

    #[test]
    fn other_errors_are_never_taken_for_memory() {
        check("CUDA error: an illegal memory access was encountered", Cause::Other);
        check("failed to allocate a name for the kernel", Cause::Other);
    }
}
