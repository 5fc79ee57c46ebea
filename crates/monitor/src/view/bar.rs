//! Parts of a whole, drawn with letters.

/// Cells of a bar.
const CELLS: usize = 10;
/// A cell by how many eighths of it are filled, from the left and from below.
const FROM_LEFT: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const FROM_BELOW: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a part of a whole as a bar, which is full where it is more.
pub(super) fn bar(part: f64) -> String {
    let eighths = eighths(part, CELLS);
    let mut cells = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        cells.push(FROM_LEFT[eighths % 8]);
    }
    format!("▕{cells:<CELLS$}▏")
}

/// Draws parts of a whole beside each other, a column each.
pub(super) fn history(parts: impl Iterator<Item = f64>) -> String {
    parts.map(|it| FROM_BELOW[eighths(it, 1)]).collect()
}

/// Returns how many eighths of so many cells a part fills.
fn eighths(part: f64, cells: usize) -> usize {
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 1.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1")]
    let eighths = (part * (8 * cells) as f64).round() as usize;
    eighths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stays_inside_its_frame() {
        for (part, drawn) in [(0.0, "▕          ▏"), (0.506, "▕█████    ▏"), (1.0, "▕██████████▏")]
        {
            assert_eq!(bar(part).chars().count(), CELLS + 2, "{part}");
            assert_eq!(bar(part).matches('█').count(), drawn.matches('█').count(), "{part}");
        }
        assert_eq!(bar(7.0), bar(1.0));
        assert_eq!(bar(f64::NAN), bar(1.0));
        assert_eq!(bar(0.51), "▕█████▏    ▏");
    }

    #[test]
    fn a_history_has_a_column_for_each_part() {
        assert_eq!(history([0.0, 0.13, 0.5, 1.0, 3.0].into_iter()), " ▁▄██");
    }
}
