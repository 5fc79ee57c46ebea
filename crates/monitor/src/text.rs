//! Numbers and times as people read them, and JSON.

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

/// Writes a number with about four significant digits, and never more digits before the point than it has.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || size == 0.0 {
        return format!("{value}");
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = (3.0 - size.log10().floor()).clamp(0.0, 6.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=6 above")]
    let decimals = decimals as usize;
    format!("{value:.decimals$}")
}

/// Writes a time in its two largest units: `8.4 s`, `1m 05s`, `2h 03m`, `1d 04h`.
pub(crate) fn time(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "unknown".to_owned();
    }
    if seconds < 9.95 {
        return format!("{:.1} s", seconds.max(0.0));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive here, and a cast saturates")]
    let whole = seconds.round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes}m {:02}s", whole % 60),
        (0, ..) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

/// Writes a ratio as a percentage.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.0} %", 100.0 * ratio)
}

/// Writes a share of a whole as a percentage, with a digit more where it is small.
pub(crate) fn share(ratio: f64) -> String {
    if ratio < 0.1 { format!("{:.1} %", 100.0 * ratio) } else { percent(ratio) }
}

/// Names what a length counts: the log's own unit, or positions where it has none.
pub(crate) fn unit_of_length(logged: &str) -> &str {
    if logged.is_empty() { "positions" } else { logged }
}

/// Writes how many there are of something: `1 death`, `2 deaths`.
pub(crate) fn counted(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

/// Divides a text into lines of so many columns at most, between words; a word that is wider has a line of its own.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap_or_else(|| unreachable!("there is always one"));
        if !line.is_empty() && width < line.width() + 1 + word.width() {
            lines.push(word.to_owned());
        } else {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
    }
    lines
}

/// Writes plain data as JSON on one line.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys always serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_about_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_345, "0.01235"),
            (2.0, "2.000"),
            (31.25, "31.25"),
            (1234.5, "1234"),
            (0.000_012, "1.20e-5"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn times_show_their_two_largest_units() {
        for (seconds, text) in [
            (-1.0, "0.0 s"),
            (8.44, "8.4 s"),
            (9.96, "10 s"),
            (65.0, "1m 05s"),
            (7380.0, "2h 03m"),
            (100_800.0, "1d 04h"),
            (f64::INFINITY, "unknown"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
