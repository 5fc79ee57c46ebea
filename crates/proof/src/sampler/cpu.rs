//! Processor time.

use std::time::Duration;

/// What [`cpu_time`] reads.
#[cfg(unix)]
pub const CLOCK: &str = "processor time of one thread, user and system (CLOCK_THREAD_CPUTIME_ID)";

/// What [`cpu_time`] reads.
#[cfg(not(unix))]
pub const CLOCK: &str = "wall-clock time";

/// Returns the processor time of this thread since some moment, to the nanosecond.
#[cfg(unix)]
pub fn cpu_time() -> Duration {
    read(rustix::time::ClockId::ThreadCPUTime)
}

/// Returns the processor time of all threads of this process.
#[cfg(unix)]
pub fn process_time() -> Duration {
    read(rustix::time::ClockId::ProcessCPUTime)
}

#[cfg(unix)]
fn read(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// Returns the wall-clock time since some moment, where no better clock is at hand.
#[cfg(not(unix))]
pub fn cpu_time() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Returns the wall-clock time since some moment, where no better clock is at hand.
#[cfg(not(unix))]
pub fn process_time() -> Duration {
    cpu_time()
}

/// Returns what the work makes, and its time.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = cpu_time();
    let made = work();
    (made, cpu_time().saturating_sub(begun))
}

#[cfg(all(test, unix))]
mod tests {
    use std::hint::black_box;
    use std::thread;

    use super::*;

    #[test]
    fn work_counts_and_sleep_does_not() {
        let ((), slept) = timed(|| thread::sleep(Duration::from_millis(50)));
        assert!(slept < Duration::from_millis(25), "{slept:?}");
        let (_, worked) = timed(|| (0..1_000_000u64).fold(0, |sum, it| black_box(sum ^ it)));
        assert!(worked > Duration::from_micros(100), "{worked:?}");
    }
}
