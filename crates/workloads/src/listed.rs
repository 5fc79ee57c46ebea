//! Lists that are read line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::files::open_file;

/// The longest line of a list in bytes: a sample takes some hundred.
const LONGEST: u64 = 1 << 20;

/// The lines of a file, of which one at a time is in memory, and none that is too long.
pub(crate) struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
    n_bytes: usize,
    n_read: usize,
}

/// A line without its end, or what is wrong with it.
pub(crate) type Listed<'a> = Result<&'a [u8], String>;

impl Lines {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = open_file(path)?;
        let n_bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        Ok(Self { file: BufReader::new(file), line: Vec::new(), n_bytes, n_read: 0 })
    }

    /// Returns the bytes of the file, as it was when it was opened.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Returns how many bytes have been read and the next line; `None` after the last one.
    pub(crate) fn next(&mut self) -> io::Result<Option<(usize, Listed<'_>)>> {
        self.line.clear();
        let n_taken = (&mut self.file).take(LONGEST).read_until(b'\n', &mut self.line)?;
        if n_taken == 0 {
            return Ok(None);
        }
        let is_ended = self.line.pop_if(|last| *last == b'\n').is_some();
        let n_skipped = if is_ended { 0 } else { self.file.skip_until(b'\n')? };
        self.n_read += n_taken + n_skipped;
        let line = if n_skipped == 0 { Ok(&self.line[..]) } else { Err(format!("it is longer than {LONGEST} bytes")) };
        Ok(Some((self.n_read, line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_one_that_is_too_long_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        let lines = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            let (mut lines, mut found) = (Lines::open(&path).unwrap(), Vec::new());
            let (n_bytes, mut n_read) = (lines.n_bytes(), 0);
            while let Some((n, line)) = lines.next().unwrap() {
                n_read = n;
                found.push(line.map(<[u8]>::len));
            }
            assert_eq!((n_bytes, n_read), (content.len(), content.len()));
            found
        };
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"one\n\nthree"), [Ok(3), Ok(0), Ok(5)]);
        assert_eq!(lines(b"one\r\n"), [Ok(4)]);
        let longest = usize::try_from(LONGEST).unwrap();
        let (full, refused) = (vec![b'a'; longest], Err("it is longer than 1048576 bytes".to_owned()));
        assert_eq!(lines(&full), [Ok(longest)]);
        assert_eq!(lines(&[&full[1..], b"\nb"].concat()), [Ok(longest - 1), Ok(1)]);
        assert_eq!(lines(&[&full[..], b"aaa\nb\n"].concat()), [refused.clone(), Ok(1)]);
        assert_eq!(lines(&[&full[..], b"a"].concat()), [refused]);
    }
}
