//! Files are there whole, or not at all.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{Error, ErrorKind, Write};
use std::path::Path;

use plimsoll_files::{WholeFile, sync_folder, write_whole, write_whole_with};

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_file_is_replaced_and_nothing_stays_beside_it() {
    for name in ["plan.json", "plan", "plan.new", ".plan.unfinished"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        for content in [&b"first"[..], b"2"] {
            write_whole(&path, content).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
            assert_eq!(names(folder.path()), [name]);
        }
    }
}

#[test]
fn a_write_that_fails_leaves_what_was_there_and_nothing_else() {
    for name in ["plan.json", "plan.new"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        write_whole(&path, b"whole").unwrap();
        let error = write_whole_with(&path, |file| {
            file.write_all(b"half")?;
            assert_eq!(fs::read(&path).unwrap(), b"whole", "half of it has the name already");
            Err(Error::from(ErrorKind::StorageFull))
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(folder.path()), [name]);
    }
}

#[test]
fn a_file_that_is_written_bit_by_bit_has_its_name_when_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.json");
    write_whole(&path, b"before").unwrap();
    let mut file = WholeFile::create(&path).unwrap();
    file.write_all(b"after").unwrap();
    assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"before".to_vec(), 2));
    drop(file);
    assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"before".to_vec(), 1));
    let mut file = WholeFile::create(&path).unwrap();
    file.write_all(b"after").unwrap();
    file.finish().unwrap();
    assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"after".to_vec(), 1));
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path(), Path::new("/"), Path::new("..")] {
        let error = write_whole(path, b"text").unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidInput, "it is no file"), "{path:?}");
    }
    assert_eq!(names(folder.path()), [""; 0]);
    let missing = folder.path().join("missing/plan.json");
    assert_eq!(write_whole(&missing, b"text").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
#[cfg(unix)]
fn a_device_is_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let null = Path::new("/dev/null");
    assert_eq!(write_whole(null, b"text").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(fs::metadata(null).unwrap().file_type().is_char_device());
}

#[test]
fn the_folder_one_is_in_has_an_empty_name_too() {
    sync_folder(Path::new("")).unwrap();
    sync_folder(Path::new(".")).unwrap();
}
