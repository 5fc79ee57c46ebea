//! The calendar.

/// Returns the date in UTC of a number of seconds since 1970, as `2026-11-20`.
///
/// # Sources
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
pub fn utc_date(unix_seconds: u64) -> String {
    // Days since 0000-03-01: leap days are then the last of a year.
    let days = unix_seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = if months_since_march < 10 { months_since_march + 3 } else { months_since_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_767_225_599, "2025-12-31"),
            (4_102_444_800, "2100-01-01"),
        ] {
            assert_eq!(utc_date(seconds), date, "{seconds}");
        }
    }
}
