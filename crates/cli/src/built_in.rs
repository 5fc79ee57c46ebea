//! The data that come with Plimsoll.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plimsoll_fixtures::SEED;

use crate::say::show;
use crate::signals;

/// Returns the folder of a job's data: the one among the sources, or where these are gone one that is drawn once and
/// kept in the user's cache.
pub(crate) fn folder(job: &str) -> PathBuf {
    static DRAWN: OnceLock<PathBuf> = OnceLock::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(job);
    if sources.is_dir() {
        return sources;
    }
    let drawn = DRAWN.get_or_init(|| {
        let folder = cache().join("plimsoll").join(concat!("data-", env!("CARGO_PKG_VERSION")));
        if let Err(error) = signals::uncut(|| draw(&folder)) {
            show(&format!("warning: failed to draw the built-in data into {}: {error}\n", folder.display()));
        }
        folder
    });
    drawn.join(job)
}

/// Returns where programs keep what they can make again.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let own = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    own.unwrap_or_else(std::env::temp_dir)
}

/// Draws the data of all jobs into a folder that is there whole or not at all.
fn draw(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let begun = folder.with_extension(format!("{}.tmp", std::process::id()));
    let drawn = plimsoll_fixtures::write(&begun, SEED).and_then(|()| fs::rename(&begun, folder));
    match drawn {
        Ok(()) => Ok(()),
        Err(error) => {
            drop(fs::remove_dir_all(&begun));
            // Another process may have been faster.
            if folder.is_dir() { Ok(()) } else { Err(error) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<PathBuf> {
        let below = |entry: fs::DirEntry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] };
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().flat_map(|it| below(it.unwrap())).collect();
        files.sort();
        files
    }

    #[test]
    fn what_is_drawn_is_what_lies_among_the_sources() {
        let cache = tempfile::tempdir().unwrap();
        let drawn = cache.path().join("plimsoll/data-1.2");
        draw(&drawn).unwrap();
        draw(&drawn).unwrap();
        for job in ["sr", "sequence", "multitask", "text"] {
            let (here, there) = (files(&drawn.join(job)), files(&folder(job)));
            assert_eq!(here.len(), there.len(), "{job}");
            for (here, there) in here.iter().zip(&there) {
                assert_eq!(fs::read(here).unwrap(), fs::read(there).unwrap(), "{}", here.display());
            }
        }
        assert_eq!(fs::read_dir(cache.path().join("plimsoll")).unwrap().count(), 1, "nothing is left beside it");
    }
}
