//! What an input may cost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_probe::HeapCounters;

/// Processor time above which an input hangs the reader: on a machine with other work to do the clock says nothing.
const MOST_TIME: Duration = Duration::from_secs(2);
/// Above it nobody waits for the reader to return.
const MOST_PATIENCE: Duration = Duration::from_secs(30);
/// The most that a reader may hold beyond what was held before, in bytes.
const MOST_MEMORY: usize = 64 << 20;

const HEAP: &HeapCounters = HeapCounters::of_program();

/// What an input cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) accepted: bool,
    pub(super) time: Duration,
    /// The most that was held beyond what was held before, in bytes.
    pub(super) memory: usize,
}

/// When the input under way began.
static BEGAN: Mutex<Option<Instant>> = Mutex::new(None);

/// Reads an input, or says which limit it broke.
pub(super) fn attempt(input: &[u8], read: &mut dyn FnMut(&[u8]) -> bool) -> Result<Cost, String> {
    watch();
    set_began(Some(Instant::now()));
    let began = processor_time();
    let before = HEAP.current();
    HEAP.reset_peak();
    let result = catch_unwind(AssertUnwindSafe(|| read(input)));
    let (time, memory) = (processor_time().saturating_sub(began), HEAP.peak().saturating_sub(before));
    set_began(None);
    let accepted = result.map_err(|payload| format!("it panics: {}", message(&*payload)))?;
    if time > MOST_TIME {
        return Err(format!("it takes {time:.1?}, {MOST_TIME:?} are allowed"));
    }
    if memory > MOST_MEMORY {
        return Err(format!("it holds {memory} bytes more than before, {MOST_MEMORY} are allowed"));
    }
    Ok(Cost { accepted, time, memory })
}

/// Returns the processor time of this thread.
#[cfg(unix)]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the time since some moment, where there is no better clock.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}

/// Writes a file, and the folder above it.
pub(super) fn save(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn set_began(to: Option<Instant>) {
    *BEGAN.lock().unwrap_or_else(PoisonError::into_inner) = to;
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// Ends the program when an input does: nothing else stops a loop without end.
fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        drop(thread::spawn(|| {
            loop {
                thread::sleep(Duration::from_millis(500));
                let began = *BEGAN.lock().unwrap_or_else(PoisonError::into_inner);
                if began.is_some_and(|it| it.elapsed() > MOST_PATIENCE) {
                    eprintln!("an input has not been read after {MOST_PATIENCE:?}");
                    std::process::abort();
                }
            }
        }));
    });
}
