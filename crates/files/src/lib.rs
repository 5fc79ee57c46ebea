//! How does a file appear whole?
//!
//! # Invariants
//!
//! * Whoever reads a file sees what was there before, or all of what is there now, and a crash of the machine changes
//!   nothing of that: content is flushed to the disk before the file has its name, and the name afterwards.
//! * A write that fails leaves what was there, and nothing else. Only a process that is killed meanwhile leaves a file
//!   `.NAME.PROCESS.unfinished`.
//! * Processes that write the same file at once do not mix what they write; threads of one process must not do so.
//!
//! # Example
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! let path = std::env::temp_dir().join("plimsoll-files.json");
//! plimsoll_files::write_whole(&path, b"{}")?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # std::fs::remove_file(path)
//! # }
//! ```
//!
//! # Sources
//!
//! What survives a crash, and what of it needs which flush: Pillai et al., *All File Systems Are Not Created Equal* (OSDI
//! 2014).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes a file, which has its name only when it is whole and on the disk.
///
/// # Errors
///
/// As [`write_whole_with`].
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    write_whole_with(path, |file| file.write_all(content))
}

/// Writes a file by a function, which has its name only when it is whole and on the disk.
///
/// # Errors
///
/// What the function or the system says; [`ErrorKind::InvalidInput`] where the path names no file, or something that is
/// none, such as a folder or a device.
pub fn write_whole_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let unfinished = unfinished(path)?;
    let written = fill(&unfinished, write).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // What is wrong is known already; one that was never made cannot be removed.
        drop(fs::remove_file(&unfinished));
    }
    written.and_then(|()| path.parent().map_or(Ok(()), sync_folder))
}

/// Flushes the names in a folder to the disk: a file that is renamed into it is there for good only then.
///
/// Systems other than Unix do not open folders, and flush names by themselves.
///
/// # Errors
///
/// What the system says.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let here = folder.as_os_str().is_empty();
    File::open(if here { Path::new(".") } else { folder })?.sync_all()
}

/// Returns a name beside a file that no other file and no other process has.
fn unfinished(path: &Path) -> io::Result<PathBuf> {
    let is_other = fs::metadata(path).is_ok_and(|it| !it.is_file());
    let Some(name) = path.file_name().filter(|_| !is_other) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file"));
    };
    let mut unfinished = std::ffi::OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    Ok(path.with_file_name(unfinished))
}

fn fill(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut file = File::create(path)?;
    write(&mut file)?;
    file.sync_all()
}
