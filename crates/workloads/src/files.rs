//! Finding the files of a folder, and opening what is one.

use std::collections::BTreeSet;
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use plimsoll_train::{CONFIG_FILE, EVENTS_FILE};

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

/// How much of a plan says that it is one.
const HEAD: u64 = 1 << 10;

/// Whether a file begins as a plan does.
fn holds_plan(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = open_file(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    let head = String::from_utf8_lossy(&head);
    read.is_ok() && ["\"version\"", "\"fingerprint\""].iter().all(|it| head.contains(it))
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
                (true, path) if [EVENTS_FILE, CONFIG_FILE].iter().all(|it| path.join(it).is_file()) => (),
                (true, path) => waiting.push(path),
                // A link to a folder may lead round in a circle, so it is not followed.
                (false, path) if path.is_dir() => (),
                (false, path) => found.push(path),
            }
        }
    }
    found.sort();
    let is_there = |path: &Path, extension: &str| found.binary_search(&path.with_extension(extension)).is_ok();
    let is_plan = |path: &Path| {
        let is_drawn = path.extension().is_some_and(|it| it == "png") && is_there(path, "svg");
        is_drawn && is_there(path, "json") && holds_plan(&path.with_extension("json"))
    };
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
        let of_run = ["events.jsonl", "config.toml", "training_curves.png"].map(|it| format!("runs/run-0001/{it}"));
        let of_plan = ["memory_plan.png", "memory_plan.svg", "memory_plan.json"].map(str::to_owned);
        let drawing = ["c.png", "c.svg", "c.json"].map(|it| format!("drawn/{it}"));
        let data = data.map(str::to_owned).into_iter().chain(drawing);
        data.chain(of_run).chain(of_plan).for_each(|it| put(&it));
        let plan = "{\n  \"version\": 9,\n  \"fingerprint\": {}\n}";
        fs::write(folder.path().join("memory_plan.json"), plan).unwrap();
        let found = files(folder.path()).unwrap();
        let names: Vec<_> = found.iter().map(|it| it.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
        let kept = ["a.json", "a.png", "below/b.png", "below/c.svg", "drawn/c.json", "drawn/c.png", "drawn/c.svg"];
        let expected = [&kept[..], &["memory_plan.json", "memory_plan.svg"]].concat();
        assert_eq!(names, expected);
        // Whoever names a run's own folder wants what is in it.
        assert_eq!(files(&folder.path().join("runs/run-0001")).unwrap().len(), 3);
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
