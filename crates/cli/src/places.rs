//! Whether a file can be written where it is asked for, before there is anything to write.

use std::path::Path;

use crate::exit::{UserError, user_error};

/// Refuses a place for a file that cannot be written; nothing is left there.
pub(crate) fn check_writable(out: &Path) -> Result<(), UserError> {
    let failed = |reason: &dyn std::fmt::Display| user_error(format!("write {}: {reason}", out.display()));
    let folder = out.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match out.metadata() {
        Ok(there) if there.is_dir() => return Err(failed(&"it is a folder")),
        // A pipe, or a device such as /dev/null, is what it is.
        Ok(there) if !there.is_file() => return Err(failed(&"it is no file")),
        _ => (),
    }
    if !folder.exists() {
        return Err(failed(&format!("there is no folder {}", folder.display())));
    }
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(|error| failed(&without_path(&error)))
}

/// Returns what the system says, without the name of a file that nobody has asked for.
fn without_path(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" at path ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_in_a_folder_that_is_there_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let check = |path: &Path| check_writable(path).map_err(|error| error.to_string());
        let file = folder.path().join("plan.json");
        assert_eq!(check(&file), Ok(()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(&file, "").unwrap();
        assert_eq!(check(&file), Ok(()));
        assert!(check(folder.path()).unwrap_err().ends_with(": it is a folder"));
        assert!(check(&folder.path().join("none/plan.json")).unwrap_err().contains(": there is no folder "));
        assert!(check(&file.join("plan.json")).is_err());
    }
}
