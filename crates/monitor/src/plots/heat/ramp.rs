//! From a share of the budget to a colour.

use super::super::canvas::Color;

/// Colours of the shares 0, 0.1, …, 1: viridis from its light end to its dark one.
///
/// Lightness falls evenly with the share, which is what people see with any colour vision, and on a grey print.
///
/// # Sources
///
/// Smith and van der Walt, viridis (Matplotlib, CC0).
const WITHIN: [Color; 11] = [
    Color(253, 231, 37),
    Color(189, 223, 38),
    Color(122, 209, 81),
    Color(68, 191, 112),
    Color(34, 168, 132),
    Color(33, 145, 140),
    Color(42, 120, 142),
    Color(53, 95, 141),
    Color(65, 68, 135),
    Color(72, 36, 117),
    Color(68, 1, 84),
];
/// Greys of what is just beyond the budget, and of [`FAR`] and more: no colour, no use.
const BEYOND: [Color; 2] = [Color(228, 228, 228), Color(150, 150, 150)];
/// Share of the budget from which on the colour stays the same.
pub(super) const FAR: f64 = 2.0;

/// Returns the colour of a share, of which 1 is the whole budget.
pub(super) fn color(share: f64) -> Color {
    if share <= 1.0 { between(&WITHIN, share) } else { between(&BEYOND, (share - 1.0) / (FAR - 1.0)) }
}

/// Returns how light a colour looks, from 0 to 100.
///
/// # Sources
///
/// CIE L* of an sRGB colour.
pub(super) fn lightness(Color(r, g, b): Color) -> f64 {
    let linear = |channel: u8| (f64::from(channel) / 255.0).powf(2.2);
    let luminance = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    if luminance < 0.008_856 { 903.3 * luminance } else { 116.0 * luminance.cbrt() - 16.0 }
}

/// Interpolates between evenly spaced anchors, 0 being the first and 1 the last.
fn between(anchors: &[Color], at: f64) -> Color {
    let last = anchors.len() - 1;
    let position = at.clamp(0.0, 1.0) * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the anchors above")]
    let index = (position as usize).min(last.saturating_sub(1));
    let part = position - index as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
    let mix = |from: u8, to: u8| (f64::from(from) + part * (f64::from(to) - f64::from(from))).round() as u8;
    let (from, to) = (anchors[index], anchors[index + 1]);
    Color(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lightness_falls_evenly_up_to_the_budget() {
        let steps: Vec<f64> = (0..20)
            .map(|it| f64::from(it) / 20.0)
            .map(|it| lightness(color(it)) - lightness(color(it + 0.05)))
            .collect();
        let mean = steps.iter().sum::<f64>() / 20.0;
        assert!(3.0 < mean && steps.iter().all(|it| (0.6..1.4).contains(&(it / mean))), "{mean} {steps:?}");
    }

    #[test]
    fn what_is_beyond_the_budget_looks_like_nothing_within() {
        assert!(40.0 < lightness(color(1.0 + 1e-9)) - lightness(color(1.0)), "the budget ends with a jump");
        for share in [1.000_001, 1.5, FAR, 7.0, f64::INFINITY] {
            let Color(r, g, b) = color(share);
            assert!(r == g && g == b, "{share} is grey");
        }
        for share in 0..=100 {
            let Color(r, g, b) = color(f64::from(share) / 100.0);
            assert!(40 < r.max(g).max(b) - r.min(g).min(b), "{share} % is a colour");
        }
        assert_eq!(color(FAR), color(f64::INFINITY));
    }
}
