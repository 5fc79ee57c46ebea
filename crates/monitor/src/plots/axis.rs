//! From values to positions along an axis, with ticks at round values.

use crate::text::short;

/// One axis of a panel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
    /// Decimals of a tick's label; `None` writes as many as the value has.
    decimals: Option<usize>,
}

/// Largest value over smallest from which a linear axis would hide the small ones.
const LOGARITHMIC_FROM: f64 = 20.0;
/// Values that differ by less than this part are shown close together: their ticks would have too many digits.
const SAME: f64 = 1e-4;
/// A tick of more decimals is written with a power of ten.
const MOST_DECIMALS: usize = 6;
/// Fewer ticks do not say whether an axis is linear, nor where a value between them lies.
const LEAST_TICKS: usize = 3;
/// So many steps of an axis always have that many ticks.
const ENOUGH_STEPS: u32 = 6;

impl Axis {
    /// Covers `low..=high` with round ticks, at most `n_ticks` steps of them and no less than [`LEAST_TICKS`].
    pub(super) fn linear(low: f64, high: f64, n_ticks: u32) -> Self {
        let high = if low < high { high } else { low + 1.0 };
        let of_steps = |n: f64| Self::with_step(low, high, round_up((high - low) / n, [1.0, 2.0, 5.0, 10.0]));
        Self::with_enough_ticks(n_ticks, of_steps)
    }

    /// Covers `low..=high` with ticks at whole numbers only, as batch and patch sizes are; of a few, it covers three.
    pub(super) fn whole(low: f64, high: f64, n_ticks: u32) -> Self {
        let high = high.max(low + LEAST_TICKS as f64 - 1.0);
        let of_step = |step: f64| Self::with_step(low, high, step.max(1.0));
        let axis = of_step(round_up((high - low) / f64::from(n_ticks), [1.0, 2.0, 4.0, 10.0]));
        if LEAST_TICKS <= axis.ticks.len() {
            return axis;
        }
        Self::with_enough_ticks(n_ticks, |n| of_step(round_up((high - low) / n, [1.0, 2.0, 4.0, 8.0, 10.0])))
    }

    /// Covers the steps of a run up to its end.
    pub(super) fn steps(end: f64, n_ticks: u32) -> Self {
        if end < f64::from(ENOUGH_STEPS) {
            return Self::whole(0.0, end, n_ticks);
        }
        Self::with_enough_ticks(n_ticks, |n| {
            Self::with_step(0.0, end, round_up(end / n, [1.0, 2.0, 5.0, 10.0]).max(1.0))
        })
    }

    /// Covers the finite ones of `values` with some room around them, logarithmically where they span much.
    pub(super) fn around(values: impl Iterator<Item = f64>, n_ticks: u32) -> Self {
        let (low, high) = values
            .filter(|it| it.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| (low.min(it), high.max(it)));
        if high < low {
            return Self::linear(0.0, 1.0, n_ticks);
        }
        if 0.0 < low && LOGARITHMIC_FROM <= high / low {
            return Self::log(low / 1.15, high * 1.15);
        }
        let room = if low < high { (0.06 * (high - low)).max(SAME * high.abs()) } else { (0.1 * high.abs()).max(1e-9) };
        let bottom = if 0.0 <= low && low < 0.4 * high { 0.0 } else { low - room };
        Self::linear(bottom, high + room, n_ticks)
    }

    /// Leaves the ticks to whoever draws names in their place.
    pub(super) fn without_ticks(self) -> Self {
        Self { ticks: Vec::new(), ..self }
    }

    /// Returns how far along the axis a value lies: 0 to 1 inside.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns the ticks with their labels.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(|it| (*it, self.label(*it)))
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    fn label(&self, tick: f64) -> String {
        match self.decimals {
            Some(decimals) if MOST_DECIMALS < decimals && tick != 0.0 => scientific(tick, decimals),
            Some(decimals) => format!("{tick:.decimals$}"),
            None if tick.abs() < 1e-4 || 1e5 <= tick.abs() => short(tick),
            None => format!("{tick}"),
        }
    }

    /// Returns the first axis, of more and more steps, that has enough ticks.
    fn with_enough_ticks(n_ticks: u32, of_steps: impl Fn(f64) -> Self) -> Self {
        let finer = (n_ticks..=n_ticks.max(ENOUGH_STEPS)).map(|it| of_steps(it.into()));
        finer
            .into_iter()
            .find(|it| LEAST_TICKS <= it.ticks.len())
            .unwrap_or_else(|| of_steps(n_ticks.max(ENOUGH_STEPS).into()))
    }

    fn with_step(low: f64, high: f64, step: f64) -> Self {
        let ticks = multiples(low, high, step);
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=9 above")]
        let decimals = Some(decimals as usize);
        Self { low, high, logarithmic: false, ticks, decimals }
    }

    fn log(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor(), high.log10());
        let ticks = |powers: f64, of_each: &[f64]| -> Vec<f64> {
            let decades = multiples(first, last, powers).into_iter().map(|it| 10f64.powf(it));
            decades
                .flat_map(|it| of_each.iter().map(move |of| of * it))
                .filter(|it| low <= *it && *it <= high)
                .collect()
        };
        let fine = ticks(1.0, &[1.0, 2.0, 5.0]);
        // Ten of them hold three powers of ten.
        let ticks = if fine.len() < 10 { fine } else { ticks(((last - first) / 8.0).ceil(), &[1.0]) };
        Self { low, high, logarithmic: true, ticks, decimals: None }
    }
}

/// Writes a tick with a power of ten, to as many decimals after the point of the whole number.
fn scientific(tick: f64, decimals: usize) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a power of ten, and positive")]
    let before = (-tick.abs().log10().floor()).max(0.0) as usize;
    let digits = decimals.saturating_sub(before);
    format!("{tick:.digits$e}")
}

/// Returns the smallest of these multiples of a power of ten that is at least `step`.
fn round_up<const N: usize>(step: f64, multiples: [f64; N]) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    multiples.into_iter().map(|it| it * power).find(|it| step <= it * (1.0 + 1e-9)).unwrap_or(step)
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step - 1e-9).ceil();
    (0..100).map(|it| (first + f64::from(it)) * step).take_while(|it| *it <= high + 1e-9 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axis: &Axis, labels: &[&str]) {
        assert_eq!(axis.ticks().map(|it| it.1).collect::<Vec<_>>(), labels);
    }

    #[test]
    fn ticks_are_round() {
        check(&Axis::linear(0.0, 203.0, 5), &["0", "50", "100", "150", "200"]);
        check(&Axis::linear(26.9, 31.2, 4), &["27", "28", "29", "30", "31"]);
        check(&Axis::linear(0.0, 1.0, 5), &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        check(&Axis::whole(0.0, 2.3, 4), &["0", "1", "2"]);
        check(&Axis::linear(0.9e-7, 1.1e-7, 4), &["9.0e-8", "9.5e-8", "1.00e-7", "1.05e-7", "1.10e-7"]);
        check(
            &Axis::around([24.493_235_77, 24.493_235_85].into_iter(), 6),
            &["24.491", "24.492", "24.493", "24.494", "24.495"],
        );
        check(&Axis::whole(0.0, 0.0, 4), &["0", "1", "2"]);
    }

    #[test]
    fn values_that_span_much_are_shown_logarithmically() {
        check(&Axis::around([0.02, 0.9].into_iter(), 5), &["0.02", "0.05", "0.1", "0.2", "0.5", "1"]);
        check(
            &Axis::around([1e-30, 1.0].into_iter(), 5),
            &["1.00e-28", "1.00e-24", "1.00e-20", "1.00e-16", "1.00e-12", "1.00e-8", "0.0001", "1"],
        );
        check(
            &Axis::around([1e-6, 1.0].into_iter(), 5),
            &["1.00e-6", "1.00e-5", "0.0001", "0.001", "0.01", "0.1", "1"],
        );
    }

    #[test]
    fn values_that_say_nothing_still_give_an_axis() {
        for values in [vec![], vec![f64::NAN], vec![0.0], vec![5.0, 5.0], vec![-3.0], vec![f64::INFINITY, 1.0]] {
            let axis = Axis::around(values.iter().copied(), 4);
            assert!(axis.low < axis.high && LEAST_TICKS <= axis.ticks.len(), "{values:?} {axis:?}");
        }
    }

    #[test]
    fn the_ends_of_an_axis_are_placed_at_its_ends() {
        for axis in [Axis::linear(-2.0, 3.0, 4), Axis::log(0.1, 1000.0)] {
            assert!(axis.place(axis.low).abs() < 1e-12 && (axis.place(axis.high) - 1.0).abs() < 1e-12);
        }
    }
}
