//! Finding the files of a folder, and opening what is one.

use std::fs::{self, File, FileType};
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder's files cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder is not there.
    #[error("read data from {}: {}", .0.display(), missing(.0))]
    Missing(PathBuf),
    /// The folder, or one below it, cannot be read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Says why a path is no folder.
pub(crate) fn missing(path: &Path) -> &'static str {
    if path.exists() { "it is a file, a folder is needed" } else { "there is no such folder" }
}

/// What is there instead of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {0}, a file is needed")]
pub struct NoFile(&'static str);

/// Opens what is a file; to wait for a pipe would be to wait for ever.
///
/// Anything else is an error that [`no_file`] knows.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other(NoFile(kind(metadata.file_type()))));
    }
    File::open(path)
}

/// Returns what is there, where that is the reason for an error of [`open_file`].
pub(crate) fn no_file(error: &io::Error) -> Option<NoFile> {
    error.get_ref()?.downcast_ref().copied()
}

fn kind(of: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if of.is_fifo() {
            return "a named pipe";
        }
        if of.is_socket() {
            return "a socket";
        }
        if of.is_block_device() || of.is_char_device() {
            return "a device";
        }
    }
    if of.is_dir() { "a folder" } else { "something else" }
}

/// Returns all files below a folder, in the order of their paths.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
    if !folder.is_dir() {
        return Err(FolderError::Missing(folder.to_owned()));
    }
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = waiting.pop() {
        let fail = |source| FolderError::Io { path: next.clone(), source };
        for entry in fs::read_dir(&next).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            match (entry.file_type().map_err(fail)?.is_dir(), entry.path()) {
                (true, path) => waiting.push(path),
                // A link to a folder may lead round in a circle, so it is not followed.
                (false, path) if path.is_dir() => (),
                (false, path) => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [file, pipe, socket] = ["file", "pipe", "socket"].map(|name| folder.path().join(name));
        fs::write(&file, "text").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listener = UnixListener::bind(&socket).unwrap();
        open_file(&file).unwrap();
        let check = |path: &Path, expected: &str| {
            let error = open_file(path).unwrap_err();
            assert_eq!(
                (error.to_string(), no_file(&error).unwrap().to_string()),
                (expected.to_owned(), expected.to_owned())
            );
        };
        check(folder.path(), "it is a folder, a file is needed");
        check(&pipe, "it is a named pipe, a file is needed");
        check(&socket, "it is a socket, a file is needed");
        check(Path::new("/dev/zero"), "it is a device, a file is needed");
        assert!(no_file(&open_file(&folder.path().join("gone")).unwrap_err()).is_none());
    }
}
