//! The last words of a program that is refused memory.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::str::FromStr;
use std::sync::OnceLock;

use plimsoll_types::Bytes;

static NOTES: OnceLock<File> = OnceLock::new();

/// An allocation that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was asked for.
    pub asked: Bytes,
    /// What the program held then.
    pub held: Bytes,
}

/// Keeps the last refusal of [`TrackingAllocator`](crate::TrackingAllocator) in a file from now on.
///
/// A program whose allocation fails usually aborts, and then cannot say why any more; the file says it to whoever
/// started the program, who reads it as a [`Refusal`]. Only the first file of a process counts.
pub fn note_refusals_in(file: File) {
    // A second file would make it unclear where to look.
    drop(NOTES.set(file));
}

/// Notes a refusal; takes no memory and no lock of this program, because there may be none to be had.
pub(crate) fn note(asked: usize, held: usize) {
    if let Some(file) = NOTES.get() {
        // Nobody is left to hear that this failed too.
        drop(write(file, Refusal { asked: Bytes(asked as u64), held: Bytes(held as u64) }));
    }
}

/// Writes a line of one length over the one before, so that the file does not grow.
fn write(mut file: &File, refusal: Refusal) -> std::io::Result<()> {
    let mut line = Line { text: [b' '; Line::LEN], used: 0 };
    write!(line, "{refusal}").map_err(std::io::Error::other)?;
    line.text[Line::LEN - 1] = b'\n';
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&line.text)
}

struct Line {
    text: [u8; Self::LEN],
    used: usize,
}

impl Line {
    /// Room for two numbers of 20 digits.
    const LEN: usize = 80;
}

impl fmt::Write for Line {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.used + part.len();
        let place = self.text.get_mut(self.used..end).ok_or(fmt::Error)?;
        place.copy_from_slice(part.as_bytes());
        self.used = end;
        Ok(())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes refused, {} held", self.asked.0, self.held.0)
    }
}

/// A text that is no note of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read a refused allocation: expected `N bytes refused, M held`")]
pub struct ParseRefusalError;

impl FromStr for Refusal {
    type Err = ParseRefusalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.trim().strip_suffix(" held").and_then(|it| it.split_once(" bytes refused, "));
        let (asked, held) = numbers.ok_or(ParseRefusalError)?;
        let bytes = |it: &str| it.parse().map(Bytes).map_err(|_| ParseRefusalError);
        Ok(Self { asked: bytes(asked)?, held: bytes(held)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_refusal_is_read_back_whatever_stood_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("refused");
        let file = File::create(&path).unwrap();
        for (asked, held) in [(u64::MAX, u64::MAX), (4096, 7), (0, 0)] {
            let refusal = Refusal { asked: Bytes(asked), held: Bytes(held) };
            write(&file, refusal).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap().parse(), Ok(refusal));
        }
    }

    #[test]
    fn what_is_no_refusal_is_refused() {
        for text in ["", "12 bytes refused", "x bytes refused, 3 held", "1 bytes refused, -3 held"] {
            assert_eq!(text.parse::<Refusal>(), Err(ParseRefusalError), "{text}");
        }
    }
}
