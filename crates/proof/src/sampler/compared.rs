//! Plans beside those of other tools' rules.

use std::fmt;
use std::hint::black_box;

use plimsoll_sampler::{PackConfig, PackPlanner, SampleIndex, SamplerError};
use serde::Serialize;

use super::audit::{Audit, Kept};
use super::cpu::timed;
use super::peers::{CELLS, PADDED, ROWS, Rule};
use super::reference::Filled;
use super::resume::median_and_most;
use super::set::{Set, Setting};

/// What plans of ours are called.
const OURS: &str = "plimsoll";

/// What came of one rule; shares are from 0 to 1, times those of `CLOCK`.
///
/// What is a peer's is no figure of ours, so that its names are not those of [`Row`](super::Row).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What the lengths are of.
    pub data: String,
    /// The tool, and what of it.
    pub rule: &'static str,
    /// Where the rule is published.
    pub source: &'static str,
    /// Number of samples.
    pub n: usize,
    /// The most that batch size times longest may be on each axis; the length of a row where samples are packed.
    pub budget: Vec<u64>,
    /// Nanoseconds a sample to plan an epoch, the median.
    pub rule_ns: f64,
    /// `rule_ns` over that of ours.
    pub ratio_to_ours: f64,
    /// The share of padding, on the axis that has most.
    pub rule_waste: f64,
    /// Number of batches, or of rows.
    pub batches: u64,
    /// Batches above the budget.
    pub over_budget: u64,
    /// The part of the budget that the largest batch takes: above 1 where it exceeds it.
    pub most_of_budget: f64,
    /// The share of a batch's pairs that share a batch in the next epoch, each batch counted alike.
    pub rule_mates_kept: f64,
    /// Samples that are missing or come more than once.
    pub not_once: u64,
}

/// Something that plans epochs.
struct Planning<'a> {
    rule: &'static str,
    source: &'static str,
    plan: Box<dyn Fn(u64) -> Filled + 'a>,
    /// Does no more than what is timed.
    work: Box<dyn Fn(u64) + 'a>,
}

impl Compared {
    /// Plans a set by ours and by the rules for one axis, in turn.
    ///
    /// # Errors
    ///
    /// As [`Set::planner`].
    pub fn padded(set: &Set<1>, n_repeats: usize) -> Result<Vec<Self>, SamplerError> {
        Self::of_set(set, &PADDED, n_repeats)
    }

    /// Plans a set by ours and by the rules for two axes, in turn.
    ///
    /// # Errors
    ///
    /// As [`Set::planner`].
    pub fn cells(set: &Set<2>, n_repeats: usize) -> Result<Vec<Self>, SamplerError> {
        Self::of_set(set, &CELLS, n_repeats)
    }

    fn of_set<const AXES: usize>(
        set: &Set<AXES>,
        rules: &[Rule<AXES>],
        n_repeats: usize,
    ) -> Result<Vec<Self>, SamplerError> {
        let Set { lengths, budget, .. } = set;
        let planner = set.planner(Setting::Default.config(lengths)?)?;
        let ours = Planning {
            rule: OURS,
            source: "BatchPlanner with the defaults",
            plan: Box::new(|epoch| Filled::of(planner.plan_epoch(epoch).iter().map(|it| it.ids))),
            work: Box::new(|epoch| drop(black_box(planner.plan_epoch(epoch)))),
        };
        let all: Vec<_> =
            std::iter::once(ours).chain(rules.iter().map(|rule| planning(rule, lengths, *budget))).collect();
        let audit = |filled: &Filled| Audit::of(lengths, *budget, filled.iter().map(|ids| (ids, [0; AXES])));
        Ok(compared(&set.name, lengths[0].len(), budget, &all, n_repeats, audit))
    }

    /// Packs samples into rows by ours and by the rules for rows, in turn; what is longer than a row is cut before.
    ///
    /// # Errors
    ///
    /// [`SamplerError`] when a length is zero.
    pub fn packed(data: &str, lengths: &[u32], row_len: u32, n_repeats: usize) -> Result<Vec<Self>, SamplerError> {
        let lengths = [pieces(lengths, row_len)];
        let planner = PackPlanner::try_new(SampleIndex::try_new(lengths.clone())?, PackConfig::new(row_len))?;
        let ours = Planning {
            rule: OURS,
            source: "PackPlanner with the defaults",
            plan: Box::new(|epoch| {
                let rows = planner.plan_epoch(epoch);
                let ids: Vec<Vec<u32>> = rows.iter().map(|row| row.iter().map(|piece| piece.id).collect()).collect();
                Filled::of(ids.iter().map(Vec::as_slice))
            }),
            work: Box::new(|epoch| drop(black_box(planner.plan_epoch(epoch)))),
        };
        let budget = [u64::from(row_len)];
        let all: Vec<_> =
            std::iter::once(ours).chain(ROWS.iter().map(|rule| planning(rule, &lengths, budget))).collect();
        let audit = |filled: &Filled| of_rows(&lengths, row_len, filled);
        Ok(compared(data, lengths[0].len(), &budget, &all, n_repeats, audit))
    }
}

fn planning<'a, const AXES: usize>(
    rule: &Rule<AXES>,
    lengths: &'a [Vec<u32>; AXES],
    budget: [u64; AXES],
) -> Planning<'a> {
    let Rule { name, source, plan } = *rule;
    Planning {
        rule: name,
        source,
        plan: Box::new(move |epoch| plan(lengths, budget, epoch)),
        work: Box::new(move |epoch| drop(black_box(plan(lengths, budget, epoch)))),
    }
}

fn compared(
    data: &str,
    n: usize,
    budget: &[u64],
    all: &[Planning<'_>],
    n_repeats: usize,
    audit: impl Fn(&Filled) -> Audit,
) -> Vec<Compared> {
    let mut times = vec![Vec::new(); all.len()];
    for epoch in (0..).take(n_repeats.max(1)) {
        for (planning, times) in all.iter().zip(&mut times) {
            let ((), time) = timed(|| (planning.work)(epoch));
            times.push(1e9 * time.as_secs_f64() / n as f64);
        }
    }
    let times: Vec<f64> = times.iter_mut().map(|times| median_and_most(times).0).collect();
    let row = |(Planning { rule, source, plan, .. }, rule_ns): (&Planning<'_>, f64)| {
        let (here, next) = (plan(0), plan(1));
        let audit = audit(&here);
        Compared {
            data: data.to_owned(),
            rule,
            source,
            n,
            budget: budget.to_vec(),
            rule_ns,
            ratio_to_ours: rule_ns / times[0],
            rule_waste: audit.most_waste(),
            batches: audit.n_batches,
            over_budget: audit.over_budget,
            most_of_budget: audit.most_of_budget,
            rule_mates_kept: Kept::new(here.iter(), next.iter()).by_batch,
            not_once: audit.not_once,
        }
    };
    all.iter().zip(times.iter().copied()).map(row).collect()
}

/// The lengths of pieces no longer than a row.
fn pieces(lengths: &[u32], row_len: u32) -> Vec<u32> {
    let of = |length: &u32| {
        let (n_whole, rest) = (length / row_len, length % row_len);
        std::iter::repeat_n(row_len, n_whole as usize).chain((rest > 0).then_some(rest))
    };
    lengths.iter().flat_map(of).collect()
}

/// Counts rows of samples that lie end to end.
fn of_rows(lengths: &[Vec<u32>; 1], row_len: u32, rows: &Filled) -> Audit {
    let row_len = f64::from(row_len);
    // No sample is above a budget without limit: which are missing is the same for rows and batches.
    let Audit { n_batches, not_once, .. } = Audit::of(lengths, [u64::MAX], rows.iter().map(|ids| (ids, [0])));
    let filled = |ids: &[u32]| ids.iter().map(|id| f64::from(lengths[0][*id as usize])).sum::<f64>() / row_len;
    let over_budget = rows.iter().filter(|ids| filled(ids) > 1.0).count() as u64;
    let waste = vec![1.0 - rows.iter().map(filled).sum::<f64>() / n_batches as f64];
    let most_of_budget = rows.iter().map(filled).fold(0.0, f64::max);
    Audit { n_batches, over_budget, not_once, most_of_budget, waste }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, n, rule, rule_ns, ratio_to_ours, batches, over_budget, most_of_budget, .. } = self;
        let [waste, kept] = [self.rule_waste, self.rule_mates_kept].map(|share| format!("{:.2} %", 100.0 * share));
        write!(f, "{data:<24.24} {n:>9} {rule:<24} {rule_ns:>7.1} {ratio_to_ours:>6.1} {waste:>8} {batches:>8}")?;
        write!(f, " {over_budget:>6} {most_of_budget:>6.2} {kept:>8} {:>8}", self.not_once)
    }
}

/// Returns the names of a [`Compared`]'s columns: nanoseconds a sample and their ratio to ours, padding, batches, those above
/// the budget and the largest in parts of it, mates kept, and samples that are not there once.
pub fn compared_head() -> String {
    format!(
        "{:<24} {:>9} {:<24} {:>7} {:>6} {:>8} {:>8} {:>6} {:>6} {:>8} {:>8}",
        "data", "n", "rule", "ns", "ratio", "padding", "batches", "over", "most", "mates", "not once"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_first_and_what_rows_hold_is_counted_from_their_samples() {
        let all = Compared::packed("documents", &super::super::documents(3_000), 4_096, 1).unwrap();
        assert_eq!(all.len(), 1 + ROWS.len());
        assert!(all[0].rule == OURS && (all[0].ratio_to_ours - 1.0).abs() < 1e-12);
        for it in &all {
            assert_eq!((it.over_budget, it.not_once), (0, 0), "{it}");
            assert!(it.most_of_budget <= 1.0 && (0.0..0.05).contains(&it.rule_waste), "{it}");
        }
        assert_eq!(pieces(&[5, 10, 12, 3], 5), [5, 5, 5, 5, 5, 2, 3]);
        let rows = Filled::of([&[0, 1][..], &[2]]);
        let audit = of_rows(&[vec![3, 8, 5]], 10, &rows);
        assert_eq!((audit.over_budget, audit.not_once, audit.n_batches), (1, 0, 2));
        assert!((audit.most_waste() - 0.2).abs() < 1e-12 && (audit.most_of_budget - 1.1).abs() < 1e-12);
    }
}
