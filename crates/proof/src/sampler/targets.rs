//! What is asked of the sampler, and whether it is met.

use super::report::Report;
use super::target::Target;

/// Nanoseconds a sample on one core, of a million.
const MOST_NS: [(&str, f64); 3] = [("one axis", 13.0), ("two axes", 40.0), ("packed", 20.0)];

/// The share of rows that is filled, of batch mates that are kept, and of padding on two axes.
const LEAST_FILLED: f64 = 0.995;
const MOST_MATES: f64 = 0.04;
const MOST_PADDING: f64 = 0.01;

/// The entropy of tasks in groups of eight batches, over that of random groups.
const LEAST_ENTROPY: f64 = 0.95;

/// Samples by which a share is off in any stretch of steps.
const MOST_OFF: f64 = 1.0;

const MOST_POSITION: f64 = 4096.0;
const MOST_RESUME_MS: f64 = 0.2;

/// Holds a report against what is asked; times are those of sets of `n_timed` samples.
pub(super) fn targets(report: &Report, n_timed: usize) -> Vec<Target> {
    [of_time(report, n_timed), of_rows(report), of_two_axes(report, n_timed), of_shares(report), of_positions(report)]
        .concat()
}

fn of_time(report: &Report, n_timed: usize) -> Vec<Target> {
    let [one, two, packed] = MOST_NS;
    let planned = report.rows.iter().filter(|row| row.n == n_timed && row.setting == "default");
    let planned = planned.map(|row| {
        let (axes, most) = if row.budget.len() == 1 { one } else { two };
        (format!("planning, {axes}: {}", row.data), row.time.ns_per_sample, most)
    });
    let rows = report.packed.iter().filter(|it| it.n == n_timed);
    let rows = rows.map(|it| (format!("planning, {}: {}", packed.0, it.data), it.ns_per_sample, packed.1));
    planned.chain(rows).map(|(figure, ns, most)| Target::at_most(figure, ns, most, "ns a sample")).collect()
}

fn of_rows(report: &Report) -> Vec<Target> {
    let of = |it: &super::packed::Packed| {
        let figure = |what| format!("packed, {what}: {} {}", it.n, it.data);
        let filled = Target::at_least(figure("rows filled"), 1.0 - it.waste, LEAST_FILLED, "share");
        let kept = it.mates_kept.map(|kept| Target::at_most(figure("mates kept"), kept, MOST_MATES, "share"));
        std::iter::once(filled).chain(kept)
    };
    report.packed.iter().flat_map(of).collect()
}

fn of_two_axes(report: &Report, n_timed: usize) -> Vec<Target> {
    let of = |row: &super::row::Row| {
        let figure = |what| format!("two axes, {what}: {} {}", row.n, row.data);
        let entropy = row.mixing.task_entropy_ratio.unwrap_or(0.0);
        [
            Target::at_most(figure("padding"), row.padding.waste, MOST_PADDING, "share"),
            Target::at_most(figure("batches over the budget"), row.padding.over_budget as f64, 0.0, "batches"),
            Target::at_least(figure("entropy of tasks in 8 batches"), entropy, LEAST_ENTROPY, "of random"),
            Target::at_most(figure("mates kept"), row.mixing.mates_kept, MOST_MATES, "share"),
        ]
    };
    let rows = report.rows.iter().filter(|row| row.budget.len() == 2 && row.n == n_timed && row.setting == "default");
    rows.flat_map(of).collect()
}

fn of_shares(report: &Report) -> Vec<Target> {
    let of = |it: &super::mixture::Mixture| {
        let figure = format!("shares of 5 sources in 20 steps, diversity {}", it.diversity_weight);
        Target::at_most(figure, it.most_off, MOST_OFF, "samples off")
    };
    report.mixtures.iter().map(of).collect()
}

fn of_positions(report: &Report) -> Vec<Target> {
    let resume = &report.resume;
    let bytes = |what: String, bytes: usize| Target::at_most(what, bytes as f64, MOST_POSITION, "bytes");
    let changed = report.changes.iter().map(|it| {
        bytes(
            format!("position after {} changes: {} {}, {}", it.n_changes, it.n, it.data, it.setting),
            it.position_bytes,
        )
    });
    let packed = report.packed.iter().max_by_key(|it| it.n).into_iter();
    let packed = packed.map(|it| bytes(format!("position: {} {}, packed", it.n, it.data), it.position_bytes));
    let first = [
        Target::at_most(format!("resuming: {} {}", resume.n, resume.data), resume.cpu_ms, MOST_RESUME_MS, "ms"),
        bytes(format!("position: {} {}", resume.n, resume.data), resume.position_bytes),
    ];
    first.into_iter().chain(changed).chain(packed).collect()
}
