//! A line of parts that fits into a terminal.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::Colors;

/// Columns between two parts.
pub(super) const GAP: usize = 3;
const BETWEEN: &str = " · ";
/// Columns of a line's name, with the gap after it.
const NAME: usize = 9;

/// What a part says of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
}

/// Parts beside each other, what matters most first.
pub(super) struct Line {
    name: &'static str,
    parts: Vec<(Tone, String)>,
}

impl Line {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, parts: Vec::new() }
    }

    pub(super) fn of(name: &'static str, parts: impl IntoIterator<Item = String>) -> Self {
        Self { name, parts: parts.into_iter().map(|it| (Tone::Plain, it)).collect() }
    }

    pub(super) fn push(&mut self, tone: Tone, part: String) {
        self.parts.push((tone, part));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns how many columns it takes, with its name or without.
    pub(super) fn width(&self, is_named: bool) -> usize {
        let parts: usize = self.parts.iter().map(|it| it.1.width()).sum();
        parts + GAP * self.parts.len().saturating_sub(1) + if is_named { NAME } else { 0 }
    }

    /// Writes it without the last parts for which there is no room, and the first cut where it is too long by itself.
    pub(super) fn fitted(mut self, width: usize, is_named: bool, colors: Colors) -> String {
        while 1 < self.parts.len() && width < self.width(is_named) {
            self.parts.pop();
        }
        let name = if is_named { format!("{:<NAME$}", self.name) } else { String::new() };
        let room = width.saturating_sub(name.width());
        let parts: Vec<String> =
            self.parts.iter().map(|(tone, text)| painted(&cut(text, room), tone.style(), colors)).collect();
        painted(&name, Style::new().dimmed(), colors) + &parts.join(BETWEEN)
    }
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Yellow.on_default().bold(),
        }
    }
}

fn painted(text: &str, style: Style, colors: Colors) -> String {
    if colors == Colors::Off || style.is_plain() || text.is_empty() {
        return text.to_owned();
    }
    format!("{style}{text}{style:#}")
}

/// Returns a text, or as much of it as has room before an ellipsis.
fn cut(text: &str, room: usize) -> Cow<'_, str> {
    if text.width() <= room {
        return Cow::Borrowed(text);
    }
    let mut end = text.len();
    while room < text[..end].width() + 1 && 0 < end {
        end = text.floor_char_boundary(end - 1);
    }
    let ellipsis = if room == 0 { "" } else { "…" };
    Cow::Owned(format!("{}{ellipsis}", &text[..end]))
}
