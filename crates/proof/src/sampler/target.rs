//! A figure and its limit.

use std::fmt;

use serde::Serialize;

/// A figure and its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// What is measured.
    pub figure: String,
    /// The most that it may be, or the least where more is better.
    pub limit: f64,
    /// What it is.
    pub measured: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub is_least: bool,
    /// Whether it is met.
    pub passes: bool,
}

impl Target {
    pub(super) fn at_most(figure: String, measured: f64, limit: f64, unit: &'static str) -> Self {
        Self { figure, limit, measured, unit, is_least: false, passes: measured <= limit }
    }

    pub(super) fn at_least(figure: String, measured: f64, limit: f64, unit: &'static str) -> Self {
        Self { figure, limit, measured, unit, is_least: true, passes: limit <= measured }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, limit, measured, unit, is_least, passes } = self;
        let (verdict, bound) = (if *passes { "pass" } else { "FAIL" }, if *is_least { "≥" } else { "≤" });
        let show = |value: f64| match *unit {
            "share" => format!("{:.2} %", 100.0 * value),
            "bytes" | "batches" => format!("{value:.0} {unit}"),
            _ => format!("{value:.2} {unit}"),
        };
        write!(f, "{verdict} {figure:<58} {:>18} ({bound} {})", show(*measured), show(*limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_on_its_limit_passes_and_one_beyond_it_does_not() {
        let of = |measured| Target::at_most("padding".to_owned(), measured, 0.01, "share");
        assert!(of(0.01).passes && !of(0.010_001).passes);
        assert!(Target::at_least(String::new(), 0.95, 0.95, "of random").passes);
        assert!(!Target::at_least(String::new(), 0.949, 0.95, "of random").passes);
        assert_eq!(
            of(0.02).to_string().split_whitespace().collect::<Vec<_>>().join(" "),
            "FAIL padding 2.00 % (≤ 1.00 %)"
        );
        assert!(!of(f64::NAN).passes);
    }
}
