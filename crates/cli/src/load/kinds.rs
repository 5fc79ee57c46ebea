//! Each value is of the kind that its default is of: a whole number, a number, a truth value or a text.

use config::{Value, ValueKind};

/// The largest whole number that every float below it is told apart from: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What a key takes, as its default tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    Number,
    Truth,
    Text,
    /// A whole number, or a word that stands for none.
    WholeOrWord,
}

/// Defaults that stand where a whole number may stand.
const WORDS: [&str; 5] = ["preset", "adaptive", "none", "cores", "longest"];

impl Kind {
    /// Returns what a key with this default takes.
    pub(super) fn of(default: &Value) -> Self {
        match &default.kind {
            ValueKind::I64(_) => Self::Whole,
            ValueKind::Float(_) => Self::Number,
            ValueKind::Boolean(_) => Self::Truth,
            ValueKind::String(word) if WORDS.contains(&word.as_str()) => Self::WholeOrWord,
            _ => Self::Text,
        }
    }

    /// Says what is taken.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Whole => "a whole number",
            Self::Number => "a number",
            Self::Truth => "true or false",
            Self::Text => "a text",
            Self::WholeOrWord => "a whole number or a word",
        }
    }

    /// Reads what a flag or a variable says: a text that looks like a number stays one where texts are taken.
    pub(super) fn read(self, text: &str) -> ValueKind {
        let kind = ValueKind::String(text.to_owned());
        let number = || text.parse().ok().filter(|_| matches!(self, Self::Whole | Self::Number)).map(ValueKind::Float);
        self.taken(&kind).or_else(number).unwrap_or(kind)
    }

    /// Returns a value as it is kept, or `None` where it is of another kind.
    pub(super) fn taken(self, value: &ValueKind) -> Option<ValueKind> {
        match self {
            Self::Whole => whole(value),
            Self::Number => number(value),
            Self::Truth => truth(value),
            Self::Text => match value {
                ValueKind::Nil | ValueKind::Table(_) | ValueKind::Array(_) => None,
                other => Some(other.clone()),
            },
            Self::WholeOrWord => Self::Text.taken(value).map(|it| whole(&it).unwrap_or(it)),
        }
    }
}

/// Takes whole numbers however they are written: `3`, `"3"`, `3.0` and `1e3`, but no fraction and nothing below zero.
fn whole(value: &ValueKind) -> Option<ValueKind> {
    match value {
        ValueKind::I64(n) => (0 <= *n).then_some(ValueKind::I64(*n)),
        ValueKind::U64(n) => i64::try_from(*n).ok().map(ValueKind::I64),
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction, and is below 2^53")]
        ValueKind::Float(n) => (n.fract() == 0.0 && (0.0..EXACT).contains(n)).then(|| ValueKind::I64(n.trunc() as i64)),
        ValueKind::String(text) => match text.parse::<i64>() {
            Ok(n) => whole(&ValueKind::I64(n)),
            Err(_) => whole(&ValueKind::Float(text.parse().ok()?)),
        },
        _ => None,
    }
}

/// Takes every number that is one; what its range is, is another question.
fn number(value: &ValueKind) -> Option<ValueKind> {
    match value {
        ValueKind::Float(n) => n.is_finite().then_some(ValueKind::Float(*n)),
        ValueKind::I64(n) => Some(ValueKind::Float(*n as f64)),
        ValueKind::U64(n) => Some(ValueKind::Float(*n as f64)),
        ValueKind::String(text) => number(&ValueKind::Float(text.parse().ok()?)),
        _ => None,
    }
}

fn truth(value: &ValueKind) -> Option<ValueKind> {
    let word = match value {
        ValueKind::Boolean(it) => return Some(ValueKind::Boolean(*it)),
        ValueKind::I64(n) => n.to_string(),
        ValueKind::String(text) => text.to_ascii_lowercase(),
        _ => return None,
    };
    match word.as_str() {
        "true" | "on" | "yes" | "1" => Some(ValueKind::Boolean(true)),
        "false" | "off" | "no" | "0" => Some(ValueKind::Boolean(false)),
        _ => None,
    }
}

/// Shows a value that is refused.
pub(super) fn shown(value: &ValueKind) -> String {
    match value {
        ValueKind::String(text) => format!("`{}`", text.escape_debug()),
        ValueKind::Array(_) => "a list".to_owned(),
        ValueKind::Table(_) => "a section".to_owned(),
        ValueKind::Nil => "nothing".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, text: &str, expected: impl Into<Option<ValueKind>>) {
        assert_eq!(kind.taken(&ValueKind::String(text.to_owned())), expected.into(), "{text}");
    }

    #[test]
    fn a_whole_number_has_no_fraction_and_no_sign() {
        for (text, n) in [("3", 3), ("3.0", 3), ("1e3", 1000), ("9007199254740993", 9_007_199_254_740_993)] {
            check(Kind::Whole, text, Some(ValueKind::I64(n)));
        }
        for text in ["2.7", "-1", "-0.5", "nan", "inf", "1e30", "yes", "", "3 "] {
            check(Kind::Whole, text, None);
        }
        assert_eq!(Kind::Whole.taken(&ValueKind::Boolean(true)), None);
        assert_eq!(Kind::Whole.taken(&ValueKind::Float(f64::NAN)), None);
    }

    #[test]
    fn a_number_is_finite() {
        check(Kind::WholeOrWord, "4", Some(ValueKind::I64(4)));
        check(Kind::WholeOrWord, "0.5", Some(ValueKind::String("0.5".to_owned())));
        check(Kind::Number, "2", Some(ValueKind::Float(2.0)));
        check(Kind::Number, "-0.5", Some(ValueKind::Float(-0.5)));
        for text in ["nan", "inf", "-inf", "1e999", "on"] {
            check(Kind::Number, text, None);
        }
    }

    #[test]
    fn a_text_that_looks_like_a_number_stays_a_text() {
        assert_eq!(Kind::Text.read("007"), ValueKind::String("007".to_owned()));
        assert_eq!(Kind::Truth.read("1"), ValueKind::Boolean(true));
        assert_eq!(Kind::Whole.read("1.5"), ValueKind::Float(1.5));
    }
}
