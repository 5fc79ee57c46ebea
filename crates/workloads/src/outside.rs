//! Samples whose lengths lie outside what is wanted.

use plimsoll_sampler::{Admit, AdmitCounts, Oversize};

/// A sample that is shorter or longer than wanted, where such are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "use {name}: its length in {unit} is {length}, and `data.shortest` to `data.longest` are {shortest} to {}; widen them, or set \
     `data.outside` to \"skip\" or, where it is too long, to \"truncate\"",
    if *.longest == u32::MAX { "\"none\"".to_owned() } else { longest.to_string() }
)]
pub struct Outside {
    /// The sample, with its file or its line.
    pub name: String,
    /// Its length.
    pub length: u32,
    /// What a length counts.
    pub unit: &'static str,
    /// The least that is wanted.
    pub shortest: u32,
    /// The most that is wanted.
    pub longest: u32,
}

/// Lets samples pass by their lengths, and counts those that do not.
#[derive(Debug)]
pub(crate) struct Gate {
    admit: Admit,
    unit: &'static str,
    pub(crate) counts: AdmitCounts,
}

impl Gate {
    /// Lets pass what is admitted; `unit` is what a length counts.
    pub(crate) fn new(admit: Admit, unit: &'static str) -> Self {
        Self { admit, unit, counts: AdmitCounts::default() }
    }

    /// Returns the length that a sample takes part with, if it does.
    pub(crate) fn pass(&mut self, length: u32, name: impl FnOnce() -> String) -> Result<Option<u32>, Outside> {
        match self.admit.one(0, length, &mut self.counts) {
            Ok(passed) => Ok(passed),
            Err(_) => Err(self.refused(length, name())),
        }
    }

    /// Returns why a sample is refused.
    pub(crate) fn refused(&self, length: u32, name: String) -> Outside {
        let Admit { shortest, longest, .. } = self.admit;
        Outside { name, length, unit: self.unit, shortest, longest }
    }
}

/// Returns where a sample that is too long ends, if such are cut.
pub(crate) fn cut_at(admit: Admit) -> u32 {
    if admit.too_long == Oversize::Truncate { admit.longest } else { u32::MAX }
}

/// Says how many samples are not as they were, for lengths outside of `data.shortest` to `data.longest`; nothing where all are.
///
/// ```
/// use plimsoll_sampler::AdmitCounts;
///
/// let counts = AdmitCounts { too_short: 3, truncated: 1, ..AdmitCounts::default() };
/// let told = "3 shorter than `data.shortest` are skipped, 1 longer than `data.longest` is cut";
/// assert_eq!(plimsoll_workloads::outside_told(&counts), told);
/// assert_eq!(plimsoll_workloads::outside_told(&AdmitCounts::default()), "");
/// ```
pub fn outside_told(counts: &AdmitCounts) -> String {
    let AdmitCounts { empty, too_short, too_long, truncated, .. } = *counts;
    let parts = [
        (empty, "of length 0", "skipped"),
        (too_short, "shorter than `data.shortest`", "skipped"),
        (too_long, "longer than `data.longest`", "skipped"),
        (truncated, "longer than `data.longest`", "cut"),
    ];
    let told =
        |(n, which, what): (u64, &str, &str)| format!("{n} {which} {} {what}", if n == 1 { "is" } else { "are" });
    parts.into_iter().filter(|it| 0 < it.0).map(told).collect::<Vec<_>>().join(", ")
}

/// Says the same after another sentence.
pub(crate) fn also_told(counts: &AdmitCounts) -> String {
    let told = outside_told(counts);
    if told.is_empty() { told } else { format!("; {told}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_named_with_the_keys_and_the_values() {
        let mut gate = Gate::new(Admit { shortest: 3, longest: 9, ..Admit::default() }, "frames");
        assert_eq!(gate.pass(3, || unreachable!("it passes")), Ok(Some(3)));
        let told = gate.pass(10, || "a.wav".to_owned()).unwrap_err().to_string();
        assert!(
            told.starts_with(
                "use a.wav: its length in frames is 10, and `data.shortest` to `data.longest` are 3 to 9;"
            ),
            "{told}"
        );
        let mut any = Gate::new(Admit { shortest: 3, ..Admit::default() }, "frames");
        let told = any.pass(2, || "b.wav".to_owned()).unwrap_err().to_string();
        assert!(told.contains("are 3 to \"none\";"), "{told}");
    }

    #[test]
    fn only_what_is_cut_ends_early() {
        let admit = Admit { longest: 9, too_long: Oversize::Truncate, ..Admit::default() };
        assert_eq!(cut_at(admit), 9);
        assert_eq!(cut_at(Admit { too_long: Oversize::Skip, ..admit }), u32::MAX);
    }
}
