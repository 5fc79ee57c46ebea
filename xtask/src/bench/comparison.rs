//! What got slower or larger since another measurement.

use std::fmt;

use super::figures::{Figure, Figures};

/// What differs between two measurements.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    base: &'a Figures,
    now: &'a Figures,
    /// Ratio to the base from which on a figure is worse.
    above: f64,
    /// Figures that both have, with their ratio to the base; the worst first.
    ratios: Vec<(f64, &'a str)>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(base: &'a Figures, now: &'a Figures, above: f64) -> Self {
        let both =
            now.by_name.iter().filter_map(|(name, it)| Some((ratio(base.by_name.get(name)?, it)?, name.as_str())));
        let mut ratios: Vec<_> = both.collect();
        ratios.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        Self { base, now, above, ratios }
    }

    /// Returns how many figures both have.
    pub(crate) fn n_common(&self) -> usize {
        self.ratios.len()
    }

    /// Returns how many figures are worse.
    pub(crate) fn n_worse(&self) -> usize {
        self.ratios.iter().filter(|(ratio, _)| self.above < *ratio).count()
    }

    /// Returns the names that one has and the other lacks, or has in another unit.
    fn only_in<'b>(one: &'b Figures, other: &'b Figures) -> impl Iterator<Item = &'b str> {
        let is_alike = |name: &String, it: &Figure| other.by_name.get(name).is_some_and(|other| other.unit == it.unit);
        one.by_name.iter().filter(move |(name, it)| !is_alike(name, it)).map(|(name, _)| name.as_str())
    }
}

/// Returns how many times the base it is; of other units there is no ratio.
fn ratio(base: &Figure, now: &Figure) -> Option<f64> {
    // Of nothing, something is more by any factor, and nothing as much.
    let ratio = if base.median.max(now.median) > 0.0 { now.median / base.median } else { 1.0 };
    (base.unit == now.unit).then_some(ratio)
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.base.machine != self.now.machine {
            writeln!(
                f,
                "the base is of another machine, times say little: {}; here {}",
                self.base.machine, self.now.machine
            )?;
        }
        let (worse, others) = self.ratios.split_at(self.n_worse());
        for (ratio, name) in worse {
            let (base, now) = (&self.base.by_name[*name], &self.now.by_name[*name]);
            writeln!(f, "{ratio:>8.3}  {name}: {} {}, before {}", rounded(now.median), now.unit, rounded(base.median))?;
        }
        for (names, missing) in
            [(Self::only_in(self.base, self.now), "now"), (Self::only_in(self.now, self.base), "in the base")]
        {
            names.into_iter().try_for_each(|name| writeln!(f, "not measured {missing}, or in another unit: {name}"))?;
        }
        let better = others.iter().filter(|(ratio, _)| *ratio < 1.0 / self.above).count();
        let (n_worse, n) = (worse.len(), self.ratios.len());
        write!(f, "{n_worse} of {n} are more than {} times the base, {better} less than its inverse", self.above)
    }
}

/// Returns a number with four digits.
fn rounded(number: f64) -> String {
    let digits = if number < 1000.0 && 0.0 < number { 3.0 - number.log10().floor() } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "digits of a number that is shown")]
    let digits = digits.clamp(0.0, 9.0) as usize;
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(machine: &str, medians: &[(&str, f64, &str)]) -> Figures {
        let mut figures = Figures { machine: machine.to_owned(), ..Figures::default() };
        for (name, median, unit) in medians {
            figures.add((*name).to_owned(), *median, unit).unwrap();
        }
        figures
    }

    #[test]
    fn the_worst_comes_first_and_what_one_lacks_is_named() {
        let base = [
            ("a", 100.0, "ns"),
            ("b", 0.25, "share"),
            ("c", 8.0, "ns"),
            ("d", 5.0, "ns"),
            ("e", 0.0, "steps"),
            ("gone", 1.0, "ns"),
        ];
        let now = [
            ("a", 120.0, "ns"),
            ("b", 0.5, "share"),
            ("c", 8.4, "ns"),
            ("d", 4.0, "ns"),
            ("e", 3.0, "steps"),
            ("new", 1.0, "ns"),
        ];
        let (base, now) = (figures("x", &base), figures("x", &now));
        let comparison = Comparison::new(&base, &now, 1.1);
        let expected = "     inf  e: 3.000 steps, before 0
   2.000  b: 0.5000 share, before 0.2500
   1.200  a: 120.0 ns, before 100.0
not measured now, or in another unit: gone
not measured in the base, or in another unit: new
3 of 5 are more than 1.1 times the base, 1 less than its inverse";
        assert_eq!((comparison.to_string().as_str(), comparison.n_worse()), (expected, 3));
    }

    #[test]
    fn what_is_as_it_was_is_not_worse() {
        let same = figures("x", &[("a", 100.0, "ns"), ("late", 0.0, "steps")]);
        let comparison = Comparison::new(&same, &same, 1.0);
        assert_eq!(comparison.n_worse(), 0);
        assert_eq!(comparison.to_string(), "0 of 2 are more than 1 times the base, 0 less than its inverse");
    }

    #[test]
    fn another_unit_and_another_machine_are_said() {
        let (base, now) = (figures("x", &[("a", 1.0, "us")]), figures("y", &[("a", 1000.0, "ns")]));
        let expected = "the base is of another machine, times say little: x; here y
not measured now, or in another unit: a
not measured in the base, or in another unit: a
0 of 0 are more than 2 times the base, 0 less than its inverse";
        assert_eq!(Comparison::new(&base, &now, 2.0).to_string(), expected);
    }
}
