//! How does a file appear whole, and how is it known that it still is?
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

mod checksum;
mod whole;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

pub use checksum::Checksum;
pub use whole::WholeFile;

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
    let mut file = WholeFile::create(path)?;
    write(&mut file.file)?;
    file.finish()
}

/// Fills a folder by a function, which has its name only when all of it is whole and on the disk; the function flushes its
/// files. What had the name is removed at last.
///
/// A process that is killed while the names change leaves the folder that was there under another name, where
/// [`whole_folder`] finds it.
///
/// # Errors
///
/// What the function or the system says; what had the name has it still. [`ErrorKind::InvalidInput`] where the path names no
/// folder, or something that is none.
pub fn write_whole_folder(path: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|it| !it.is_dir()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no folder"));
    }
    let (unfinished, replaced) = (beside(path, "unfinished")?, beside(path, "replaced")?);
    let written = fill_folder(&unfinished, fill).and_then(|()| {
        if !path.exists() {
            return fs::rename(&unfinished, path);
        }
        // One that a kill has left is older than what is there now.
        remove_folder(&replaced)?;
        fs::rename(path, &replaced)?;
        fs::rename(&unfinished, path).inspect_err(|_| drop(fs::rename(&replaced, path)))
    });
    if written.is_err() {
        drop(fs::remove_dir_all(&unfinished));
    }
    written?;
    path.parent().map_or(Ok(()), sync_folder)?;
    remove_folder(&replaced)
}

/// Returns where the folder is that [`write_whole_folder`] has written: under its name, or where a kill has left it; `None`
/// where there is none.
pub fn whole_folder(path: &Path) -> Option<PathBuf> {
    let replaced = beside(path, "replaced").ok();
    [Some(path.to_owned()), replaced].into_iter().flatten().find(|it| it.is_dir())
}

fn fill_folder(unfinished: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    remove_folder(unfinished)?;
    fs::create_dir_all(unfinished)?;
    fill(unfinished)?;
    sync_folder(unfinished)
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns a hidden name beside a folder.
fn beside(path: &Path, ending: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it is no folder"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden.push(ending);
    Ok(path.with_file_name(hidden))
}

/// Flushes a file to the disk that is closed already.
///
/// # Errors
///
/// What the system says.
pub fn sync_file(path: &Path) -> io::Result<()> {
    // Some systems flush only what is open for writing.
    File::options().append(true).open(path)?.sync_all()
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

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
