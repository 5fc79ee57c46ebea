//! Finding the files of a folder, and opening what is one.

use std::collections::BTreeSet;
use std::fs::{self, File, FileType};
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_train::EVENTS_FILE;

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

/// Returns all files below a folder, in the order of their paths, but for what this program writes: the directories of runs,
/// and pictures of plans.
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
                (true, path) if path.join(EVENTS_FILE).is_file() => (),
                (true, path) => waiting.push(path),
                // A link to a folder may lead round in a circle, so it is not followed.
                (false, path) if path.is_dir() => (),
                (false, path) => found.push(path),
            }
        }
    }
    found.sort();
    let is_there = |path: &Path, extension: &str| found.binary_search(&path.with_extension(extension)).is_ok();
    let is_plan =
        |path: &Path| path.extension().is_some_and(|it| it == "png") && is_there(path, "json") && is_there(path, "svg");
    let plans: BTreeSet<_> = found.iter().filter(|path| is_plan(path)).cloned().collect();
    found.retain(|path| !plans.contains(path));
    Ok(found)
}

#[cfg(test)]
mod listing {
    use super::*;

    #[test]
    fn what_runs_and_plans_leave_in_a_folder_is_no_data() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        let data = ["a.png", "below/b.png", "a.json", "below/c.svg"];
        let own = ["runs/run-0001/events.jsonl", "runs/run-0001/training_curves.png"];
        let plan = ["memory_plan.png", "memory_plan.svg", "memory_plan.json"];
        data.into_iter().chain(own).chain(plan).for_each(put);
        let found = files(folder.path()).unwrap();
        let names: Vec<_> = found.iter().map(|it| it.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
        let expected = ["a.json", "a.png", "below/b.png", "below/c.svg", "memory_plan.json", "memory_plan.svg"];
        assert_eq!(names, expected);
        // Whoever names a run's own folder wants what is in it.
        assert_eq!(files(&folder.path().join("runs/run-0001")).unwrap().len(), 2);
    }
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
