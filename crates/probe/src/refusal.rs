//! The last words of a program that is refused memory.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::str::FromStr;
use std::sync::{Mutex, OnceLock};

use plimsoll_types::Bytes;

use crate::HeapCounters;

static WITNESS: OnceLock<Witness> = OnceLock::new();

/// What the program is at; locked for the length of a copy, by a thread that takes no memory meanwhile.
static AT_WORK: Mutex<Line<64>> = Mutex::new(Line::new());

/// Who hears of a refusal.
enum Witness {
    /// Another program, which reads a [`Refusal`].
    Program(File),
    /// People, who read a sentence.
    People(File),
}

/// An allocation that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was asked for.
    pub asked: Bytes,
    /// What the program held then.
    pub held: Bytes,
    /// The line that it would have passed; `None` where the system had no more.
    pub line: Option<Bytes>,
    /// What the program was at, in its own words.
    pub at_work: String,
}

/// Keeps the last refusal of [`TrackingAllocator`](crate::TrackingAllocator) in a file from now on.
///
/// A program whose allocation fails usually aborts, and then cannot say why any more; the file says it to whoever
/// started the program, who reads it as a [`Refusal`]. Only the first witness of a process counts.
pub fn note_refusals_in(file: File) {
    // A second one would make it unclear where to look.
    drop(WITNESS.set(Witness::Program(file)));
}

/// Writes a sentence about each refusal to a stream, such as standard error, from now on.
///
/// As with [`note_refusals_in`], only the first witness of a process counts.
pub fn say_refusals_to(stream: File) {
    // As above.
    drop(WITNESS.set(Witness::People(stream)));
}

/// Says what the program is at, in at most 64 bytes, for the note of a refusal: `step 12, 4 × 96`.
pub fn note_work(what: fmt::Arguments<'_>) {
    let mut line = Line::new();
    // What does not fit is left out.
    line.write_fmt(what).unwrap_or_default();
    if let Ok(mut at_work) = AT_WORK.lock() {
        *at_work = line;
    }
}

/// Notes a refusal; takes no memory of this program, and waits for no lock, because there may be none to be had.
pub(crate) fn note(asked: usize, held: usize, counters: &HeapCounters) {
    let Some(witness) = WITNESS.get() else { return };
    let line = counters.line().filter(|line| line - (*line).min(held) < asked);
    let at_work = AT_WORK.try_lock().map_or(Line::new(), |it| *it);
    let note = Note { asked, held, line, at_work: at_work.text() };
    // Nobody is left to hear that this failed too.
    drop(match witness {
        Witness::Program(file) => write(file, &note),
        Witness::People(stream) => say(stream, &note),
    });
}

struct Note<'a> {
    asked: usize,
    held: usize,
    line: Option<usize>,
    at_work: &'a str,
}

/// Writes a line of one length over the one before, so that the file does not grow.
fn write(mut file: &File, note: &Note<'_>) -> std::io::Result<()> {
    let mut line = Line::<200>::new();
    write!(line, "{note}").map_err(std::io::Error::other)?;
    line.bytes[line.bytes.len() - 1] = b'\n';
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&line.bytes)
}

fn say(mut stream: &File, note: &Note<'_>) -> std::io::Result<()> {
    let mut line = Line::<300>::new();
    let bytes = |it: usize| Bytes(it as u64);
    let Note { asked, held, at_work, .. } = *note;
    write!(line, "\nerror: an allocation of {} was refused while {} were held", bytes(asked), bytes(held))
        .and_then(|()| note.line.map_or(Ok(()), |it| write!(line, ", because the line is at {}", bytes(it))))
        .and_then(|()| if at_work.is_empty() { Ok(()) } else { write!(line, " ({at_work})") })
        .and_then(|()| line.write_str("\n"))
        .map_err(std::io::Error::other)?;
    stream.write_all(&line.bytes[..line.used])
}

/// Text of at most so many bytes that takes no memory of the heap.
#[derive(Clone, Copy)]
struct Line<const LEN: usize> {
    bytes: [u8; LEN],
    used: usize,
}

impl<const LEN: usize> Line<LEN> {
    const fn new() -> Self {
        Self { bytes: [b' '; LEN], used: 0 }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.used]).unwrap_or_default()
    }
}

impl<const LEN: usize> fmt::Write for Line<LEN> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.used + part.len();
        let place = self.bytes.get_mut(self.used..end).ok_or(fmt::Error)?;
        place.copy_from_slice(part.as_bytes());
        self.used = end;
        Ok(())
    }
}

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, held, line, at_work } = self;
        write!(f, "{asked} bytes refused, {held} held, line {}, at {at_work}", line.unwrap_or(0))
    }
}

/// A text that is no note of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read a refused allocation: expected `N bytes refused, M held, line L, at WORK`")]
pub struct ParseRefusalError;

impl FromStr for Refusal {
    type Err = ParseRefusalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        fn parse(text: &str) -> Option<Refusal> {
            let (asked, rest) = text.split_once(" bytes refused, ")?;
            let (held, rest) = rest.split_once(" held, line ")?;
            let (line, at_work) = rest.split_once(", at ")?;
            let [asked, held, line] = [asked, held, line].map(|it| it.parse().ok().map(Bytes));
            let (line, at_work) = (Some(line?).filter(|it| Bytes::ZERO < *it), at_work.trim().to_owned());
            Some(Refusal { asked: asked?, held: held?, line, at_work })
        }
        parse(text.trim_start()).ok_or(ParseRefusalError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(file: &File, path: &std::path::Path, note: &Note<'_>) -> Refusal {
        write(file, note).unwrap();
        std::fs::read_to_string(path).unwrap().parse().unwrap()
    }

    #[test]
    fn the_last_refusal_is_read_back_whatever_stood_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("refused");
        let file = File::create(&path).unwrap();
        for (asked, held, line, at_work) in [
            (usize::MAX, usize::MAX, Some(usize::MAX), "x".repeat(64)),
            (4096, 7, None, "step 3, 1 × 96".to_owned()),
            (0, 0, None, String::new()),
        ] {
            let bytes = |it: usize| Bytes(it as u64);
            let refusal =
                Refusal { asked: bytes(asked), held: bytes(held), line: line.map(bytes), at_work: at_work.clone() };
            assert_eq!(read_back(&file, &path, &Note { asked, held, line, at_work: &at_work }), refusal);
        }
    }

    #[test]
    fn what_is_no_refusal_is_refused() {
        for text in
            ["", "12 bytes refused", "x bytes refused, 3 held, line 0, at ", "1 bytes refused, -3 held, line 0, at "]
        {
            assert_eq!(text.parse::<Refusal>(), Err(ParseRefusalError), "{text}");
        }
    }

    #[test]
    fn people_read_a_sentence_with_the_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("said");
        let note = Note { asked: 3 << 20, held: 2 << 20, line: Some(4 << 20), at_work: "step 3, 1 × 96" };
        say(&File::create(&path).unwrap(), &note).unwrap();
        let said = std::fs::read_to_string(&path).unwrap();
        let expected = "\nerror: an allocation of 3.00 MiB was refused while 2.00 MiB were held, because the line is at \
                        4.00 MiB (step 3, 1 × 96)\n";
        assert_eq!(said, expected);
    }
}
