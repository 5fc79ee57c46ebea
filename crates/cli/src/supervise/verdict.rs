//! What a worker died of.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use plimsoll_probe::{OomKills, Refusal};
use signal_hook::consts::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV};
use signal_hook::low_level::signal_name;

use crate::exit::{POISONED, SIGNALLED};

/// Signals that end a process which did not ask for them.
const FATAL: [i32; 6] = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV];

/// The codes with which this program ends by itself, as `docs/exit-codes.md` has them.
const ANSWERS: [i32; 6] = [0, 1, 2, 101, 130, 143];

/// How a worker ended without saying that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A signal that did not come through the supervisor.
    Signal(i32),
    /// Its device was lost to it.
    Poisoned,
    /// What had started it lost it, as when a machine is gone, and ended with this code.
    Lost(i32),
}

/// What a worker died of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// An allocation that was refused: by the system, or because it would have passed the line.
    Refused(Refusal),
    /// The kernel, because the control group had no memory left.
    GroupFull,
    /// The kernel, because the machine had no memory left.
    MachineFull,
    /// Something other than memory.
    Other,
}

impl Ended {
    /// Returns how a worker died, or `None` when it ended with a code of its own.
    pub(super) fn of(status: ExitStatus) -> Option<Self> {
        match status.code() {
            Some(code) if code == i32::from(POISONED) => Some(Self::Poisoned),
            Some(_) => None,
            None => Some(Self::Signal(status.signal().unwrap_or(0))),
        }
    }

    /// Whether it may have been for want of memory, though nobody has said so: by the kernel, perhaps of another machine.
    pub(super) fn may_be_of_memory(self) -> bool {
        matches!(self, Self::Signal(SIGKILL) | Self::Lost(_))
    }

    /// Returns how a rank died, as its launcher's code says it, or `None` when they ended with a code of their own: Open MPI adds
    /// 128 to the signal, and MPICH does not. A code that no rank ends with is the launcher's.
    pub(super) fn of_launcher(status: ExitStatus) -> Option<Self> {
        let signal = |code: i32| if SIGNALLED < code { code - SIGNALLED } else { code };
        match status.code() {
            Some(code) if FATAL.contains(&signal(code)) => Some(Self::Signal(signal(code))),
            Some(code) if code != i32::from(POISONED) && !ANSWERS.contains(&code) => Some(Self::Lost(code)),
            _ => Self::of(status),
        }
    }
}

impl Verdict {
    /// Judges by what the worker noted, and by the kernel's counts before its start and after its end.
    pub(super) fn of(ended: Ended, refusal: Option<Refusal>, before: OomKills, after: OomKills) -> Self {
        let rose = |count: fn(OomKills) -> Option<u64>| count(before).unwrap_or(0) < count(after).unwrap_or(0);
        match (ended, refusal) {
            // A program that lives on after a refusal may die of anything later, but not by this signal.
            (Ended::Signal(SIGABRT), Some(refusal)) => Self::Refused(refusal),
            (Ended::Signal(SIGKILL), _) if rose(|it| it.group) => Self::GroupFull,
            (Ended::Signal(SIGKILL), _) if rose(|it| it.machine) => Self::MachineFull,
            _ => Self::Other,
        }
    }

    pub(super) fn is_memory(&self) -> bool {
        *self != Self::Other
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisoned => f.write_str("lost its device"),
            Self::Lost(code) => write!(f, "lost by its launcher, which ended with code {code},"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(Refusal { asked, held, line, at_work }) => {
                write!(f, "an allocation of {asked} was refused while {held} were held")?;
                line.map_or(Ok(()), |line| write!(f, ", because the line is at {line}"))?;
                if at_work.is_empty() { Ok(()) } else { write!(f, " ({at_work})") }
            }
            Self::GroupFull => f.write_str("the out-of-memory count of its control group rose"),
            Self::MachineFull => f.write_str("the kernel's out-of-memory count rose"),
            Self::Other => f.write_str("nothing says that memory was the cause"),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Bytes;

    use super::*;

    const REFUSAL: Refusal = Refusal { asked: Bytes::mib(4), held: Bytes::mib(90), line: None, at_work: String::new() };
    const CALM: OomKills = OomKills { group: Some(3), machine: Some(5) };

    #[track_caller]
    fn check(ended: Ended, refusal: Option<Refusal>, after: OomKills, expected: &Verdict) {
        assert_eq!(&Verdict::of(ended, refusal, CALM, after), expected);
    }

    #[test]
    fn a_refused_allocation_counts_with_the_abort_that_follows_it() {
        check(Ended::Signal(SIGABRT), Some(REFUSAL), CALM, &Verdict::Refused(REFUSAL));
        check(Ended::Signal(SIGABRT), None, CALM, &Verdict::Other);
        for ended in [Ended::Signal(SIGKILL), Ended::Signal(SIGSEGV), Ended::Poisoned] {
            check(ended, Some(REFUSAL), CALM, &Verdict::Other);
        }
    }

    #[test]
    fn a_refusal_at_the_line_says_where_the_line_is_and_what_passed_it() {
        let refusal = Refusal { line: Some(Bytes::mib(92)), at_work: "step 3, 1 × 96".to_owned(), ..REFUSAL };
        let expected = "an allocation of 4.00 MiB was refused while 90.00 MiB were held, because the line is at \
                        92.00 MiB (step 3, 1 × 96)";
        assert_eq!(Verdict::Refused(refusal).to_string(), expected);
    }

    #[test]
    fn a_count_that_rose_counts_with_the_signal_that_the_kernel_sends() {
        let group = OomKills { group: Some(4), machine: Some(6) };
        let machine = OomKills { machine: Some(6), ..CALM };
        check(Ended::Signal(SIGKILL), None, group, &Verdict::GroupFull);
        check(Ended::Signal(SIGKILL), None, machine, &Verdict::MachineFull);
        check(Ended::Signal(SIGBUS), None, group, &Verdict::Other);
        check(Ended::Poisoned, None, group, &Verdict::Other);
    }

    #[test]
    fn without_counts_a_kill_is_not_taken_for_memory() {
        check(Ended::Signal(SIGKILL), None, OomKills::default(), &Verdict::Other);
        let verdict = Verdict::of(Ended::Signal(SIGKILL), None, OomKills::default(), OomKills::default());
        assert!(!verdict.is_memory());
    }

    #[test]
    fn a_launcher_says_by_which_signal_a_rank_died() {
        let of = |code: i32| Ended::of_launcher(ExitStatus::from_raw(code << 8));
        for signal in FATAL {
            assert_eq!([of(signal), of(128 + signal)], [Some(Ended::Signal(signal)); 2]);
        }
        for answer in ANSWERS {
            assert_eq!(of(answer), None, "{answer}");
        }
        assert_eq!(of(255), Some(Ended::Lost(255)));
        assert_eq!(of(75), Some(Ended::Poisoned));
        assert_eq!(Ended::of_launcher(ExitStatus::from_raw(SIGKILL)), Some(Ended::Signal(SIGKILL)));
    }

    #[test]
    fn codes_are_answers_and_not_deaths() {
        let code = |code: i32| ExitStatus::from_raw(code << 8);
        for answer in ANSWERS {
            assert_eq!(Ended::of(code(answer)), None);
        }
        assert_eq!(Ended::of(code(75)), Some(Ended::Poisoned));
        assert_eq!(Ended::of(ExitStatus::from_raw(SIGKILL)).unwrap().to_string(), "killed by SIGKILL");
    }
}
