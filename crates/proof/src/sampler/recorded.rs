//! Lengths of real data.

use std::path::Path;
use std::{fs, io};

/// Lengths of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Name of the file, without its extension.
    pub name: String,
    /// One length per line.
    pub lengths: Vec<u32>,
}

/// Reads every `.txt` file of a folder, in the order of their names.
///
/// # Errors
///
/// When a file cannot be read, is empty, or has a line that is no length; the message names the file and the line.
pub fn read_lengths(folder: &Path) -> io::Result<Vec<Recorded>> {
    let named = |path: &Path, error| io::Error::other(format!("failed to read {}: {error}", path.display()));
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<_> = entries.map_err(|it| named(folder, it))?.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "txt"));
    paths.sort();
    paths.iter().map(|path| read(path).map_err(|it| named(path, it))).collect()
}

fn read(path: &Path) -> io::Result<Recorded> {
    let lengths: Vec<u32> = fs::read_to_string(path)?.lines().zip(1..).map(length).collect::<io::Result<_>>()?;
    if lengths.is_empty() {
        return Err(io::Error::other("it has no lines"));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Recorded { name, lengths })
}

fn length((line, number): (&str, u32)) -> io::Result<u32> {
    let length = line.parse().ok().filter(|it| *it > 0);
    length.ok_or_else(|| io::Error::other(format!("line {number} is `{line}`, not a whole number from 1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_order_and_faults_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("b.txt", "7\n");
        write("a.txt", "5\n12\n");
        write("README.md", "no lengths");
        let named = |name: &str, lengths: &[u32]| Recorded { name: name.to_owned(), lengths: lengths.to_vec() };
        assert_eq!(read_lengths(folder.path()).unwrap(), [named("a", &[5, 12]), named("b", &[7])]);
        write("b.txt", "7\n0\n");
        let message = read_lengths(folder.path()).unwrap_err().to_string();
        assert!(message.ends_with("b.txt: line 2 is `0`, not a whole number from 1"), "{message}");
        write("b.txt", "");
        assert!(read_lengths(folder.path()).unwrap_err().to_string().ends_with("b.txt: it has no lines"));
    }
}
