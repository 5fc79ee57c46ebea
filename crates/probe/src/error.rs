//! Why a number could not be had.

use std::io;
use std::path::PathBuf;

use plimsoll_types::Bytes;

/// Why memory could not be measured; each message finishes the sentence "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The running program does not count its allocations.
    #[error(
        "measure the heap: this program does not count its allocations; add `#[global_allocator] static HEAP: \
         plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();` to its main.rs (`plimsoll_probe`, where that is \
         what it depends on)"
    )]
    AllocatorNotInstalled,
    /// This build was made without the device.
    #[error(
        "open {device}: this build leaves it out; `cargo add plimsoll --features {feature}` brings it to a program of one's \
         own, `cargo build --release -p plimsoll-cli --features {feature}` to the binary"
    )]
    FeatureMissing {
        /// The device that was asked for.
        device: String,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// The machine has fewer devices of this kind, or none.
    #[error("open {device}: drivers show {available} of that kind, and indices count from 0")]
    NoDevice {
        /// The device that was asked for.
        device: String,
        /// How many there are.
        available: usize,
    },
    /// An environment variable hides devices from this program.
    #[error(
        "open {device}: `{variable}={value}` leaves {available} devices to this program, counted from 0; name more in it, \
         or unset it"
    )]
    DevicesHidden {
        /// The device that was asked for.
        device: String,
        /// How many are left.
        available: usize,
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// The device is there, but does not start.
    #[error("open {device}: {reason}")]
    OpenFailed {
        /// The device that was asked for.
        device: String,
        /// What its runtime said.
        reason: String,
    },
    /// No driver of this vendor is installed.
    #[error("load the {vendor} driver: {library} is not installed, or not where the loader looks")]
    NoDriver {
        /// Whose driver.
        vendor: &'static str,
        /// The library that was looked for.
        library: &'static str,
    },
    /// The driver lacks a function.
    #[error("use the {vendor} driver: it has no {symbol}, so it is too old or damaged")]
    DriverTooOld {
        /// Whose driver.
        vendor: &'static str,
        /// The first function that is missing.
        symbol: &'static str,
    },
    /// The driver refused a query.
    #[error("ask the driver for {what}: {reason}")]
    Driver {
        /// What was asked for.
        what: String,
        /// What the driver said.
        reason: String,
    },
    /// The device's allocator refused to give memory back.
    #[error("return unused memory of {device}: {reason}")]
    CleanupRefused {
        /// The device.
        device: String,
        /// What its runtime said.
        reason: String,
    },
    /// The device does not say how much memory it has.
    #[error("tell the capacity of {device}: {reason}; a capacity that is set would do")]
    CapacityUnknown {
        /// The device.
        device: String,
        /// Why it is unknown.
        reason: String,
    },
    /// The capacity that was set is more than the device has.
    #[error("cap {device} at {set}: it has only {real}")]
    CapacityTooLarge {
        /// The device.
        device: String,
        /// The capacity that was asked for.
        set: Bytes,
        /// What the device has.
        real: Bytes,
    },
    /// A file of the system could not be read.
    #[error("read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of the system says something else than expected.
    #[error("find {what} in {}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
}
