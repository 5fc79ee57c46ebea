//! What users may put into a folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use plimsoll_train::{BadSample, Lengths, Source as _};
use plimsoll_workloads::text::{BOUNDARY, Corpus, CorpusConfig, Cut, TextError, TextSource, Together};

use crate::config;

#[test]
fn documents_that_are_held_out_do_not_shape_the_tokenizer() {
    let folder = folder();
    let tokenizer = || Corpus::read(&config(folder.path())).unwrap().tokenizer.to_json().unwrap();
    let before = tokenizer();
    let shapes_nothing = |name: &&&str| {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, "zigzag ".repeat(20)).unwrap();
        let after = tokenizer();
        fs::write(&path, text).unwrap();
        after == before
    };
    // One of the four is held out.
    assert_eq!(DOCUMENTS.iter().filter(shapes_nothing).count(), 1);
}

const DOCUMENTS: [&str; 4] = ["one.txt", "two.txt", "below/three.md", "four.txt"];

/// A folder with four good documents.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    for (at, name) in DOCUMENTS.iter().enumerate() {
        let text = format!("Document {at} is about the tide, the tide and the other tide.\n").repeat(3 + at);
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_folder_is_read_recursively_and_what_is_no_document_is_named() {
    let folder = folder();
    fs::write(folder.path().join("table.csv"), "a,b").unwrap();
    fs::write(folder.path().join("blank.md"), "\u{feff} \n\n").unwrap();
    fs::create_dir(folder.path().join("folder.txt")).unwrap();
    let corpus = Corpus::read(&config(folder.path())).unwrap();
    assert_eq!((corpus.train.len(), corpus.validation.sections.len()), (3, 1));
    assert_eq!(corpus.skipped, ["blank.md: empty", "table.csv: neither .txt nor .md"]);
}

#[test]
fn a_document_that_is_no_utf_8_is_refused_or_skipped_by_file_and_byte() {
    let folder = folder();
    fs::write(folder.path().join("latin.txt"), b"caf\xe9 au lait").unwrap();
    let error = Corpus::read(&config(folder.path())).unwrap_err();
    assert!(matches!(&error, TextError::NotUtf8 { path, byte: 3 } if path.ends_with("latin.txt")), "{error}");
    assert!(error.to_string().contains("data.bad_sample = \"skip\""), "{error}");
    let config = CorpusConfig { bad_document: BadSample::Skip, ..config(folder.path()) };
    assert_eq!(Corpus::read(&config).unwrap().skipped, ["latin.txt: no UTF-8 from byte 3"]);
}

#[test]
fn a_file_alone_is_divided_by_its_sections() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("book");
    let tide = |day: usize| format!("On day {day} the tide comes in and the tide goes out.");
    let days: Vec<_> = (0..20).map(tide).collect();
    fs::write(&file, days.join("\n\n")).unwrap();
    let corpus = Corpus::read(&CorpusConfig { cut: Cut { longest: 400, overlap: 0 }, ..config(&file) }).unwrap();
    assert_eq!((corpus.train.len(), corpus.validation.sections.len()), (16, 4));
    let mut read: Vec<_> = [&corpus.train, &corpus.validation.sections]
        .into_iter()
        .flat_map(|side| (0..).take(side.len()).map(|id| corpus.tokenizer.decode(side.piece(id)).unwrap()))
        .collect();
    let mut expected = days;
    read.sort();
    expected.sort();
    assert_eq!(read, expected);
    let fail = Corpus::read(&CorpusConfig { bad_document: BadSample::Skip, ..config(Path::new("/dev/null")) });
    assert!(fail.is_err());
}

#[test]
#[cfg(unix)]
fn a_link_to_nothing_is_refused_or_skipped() {
    let folder = folder();
    std::os::unix::fs::symlink("nowhere", folder.path().join("lost.txt")).unwrap();
    let error = Corpus::read(&config(folder.path())).unwrap_err();
    assert!(error.to_string().contains("lost.txt"), "{error}");
    let config = CorpusConfig { bad_document: BadSample::Skip, ..config(folder.path()) };
    let skipped = Corpus::read(&config).unwrap().skipped;
    assert!(skipped.len() == 1 && skipped[0].starts_with("lost.txt: "), "{skipped:?}");
}

#[test]
#[cfg(unix)]
fn a_pipe_or_a_device_is_refused_or_skipped() {
    let folder = folder();
    let (pipe, device) = (folder.path().join("pipe.txt"), folder.path().join("zero.md"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
    let error = Corpus::read(&config(folder.path())).unwrap_err().to_string();
    assert!(error.contains("pipe.txt: it is a named pipe, a file is needed"), "{error}");
    assert!(error.contains("data.bad_sample = \"skip\""), "{error}");
    let config = CorpusConfig { bad_document: BadSample::Skip, ..config(folder.path()) };
    let expected = ["pipe.txt: it is a named pipe, a file is needed", "zero.md: it is a device, a file is needed"];
    assert_eq!(Corpus::read(&config).unwrap().skipped, expected);
}

#[test]
fn a_folder_with_nothing_to_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = |config: &CorpusConfig| Corpus::read(config).unwrap_err().to_string();
    assert!(message(&config(folder.path())).contains("0 of 0 files are .txt or .md documents"));
    fs::write(folder.path().join("alone.txt"), "One document cannot be split.").unwrap();
    fs::write(folder.path().join("blank.txt"), "").unwrap();
    assert!(message(&config(folder.path())).contains("1 of 2 files are .txt or .md documents"));
    let file = folder.path().join("alone.txt");
    assert!(message(&config(&file)).contains("it is one file of 1 section, at least 2 are needed"));
    assert!(message(&config(&folder.path().join("blank.txt"))).contains("it is one file of 0 sections"));
    assert!(message(&config(&folder.path().join("gone"))).contains("there is no such folder"));
    let cut = |longest, overlap| CorpusConfig { cut: Cut { longest, overlap }, ..config(folder.path()) };
    assert!(message(&cut(0, 0)).contains("`text.longest` is 0"));
    assert!(message(&cut(8, 8)).contains("`text.overlap` is 8 tokens, it must be below `text.longest` (8)"));
}

#[test]
fn pieces_of_a_section_and_sections_of_a_document_stay_together_where_that_is_asked_for() {
    let folder = plimsoll_fixtures::dir().join("text");
    let read = |together| {
        Corpus::read(&CorpusConfig { together, cut: Cut { longest: 24, overlap: 0 }, ..config(&folder) }).unwrap()
    };
    let (alone, of_sections, of_documents) =
        (read(None), read(Some(Together::Section)), read(Some(Together::Document)));
    assert!(alone.together.is_none() && alone.train == of_sections.train && alone.train == of_documents.train);
    let groups = |corpus: &Corpus| corpus.together.as_ref().unwrap().to_vec();
    let (sections, documents) = (groups(&of_sections), groups(&of_documents));
    assert_eq!((sections.len(), documents.len()), (alone.train.len(), alone.train.len()));
    // The pieces of a section follow each other; the last of one ends with a boundary, and the next begins with it.
    let is_cut = |id: usize| {
        let piece = alone.train.piece(u32::try_from(id).unwrap());
        piece.last() != Some(&BOUNDARY)
    };
    let mut n_cut = 0;
    for id in 0..sections.len() - 1 {
        assert_eq!(sections[id] == sections[id + 1], is_cut(id), "{id}");
        assert!(documents[id] == documents[id + 1] || !is_cut(id), "a document ends within a section");
        n_cut += usize::from(is_cut(id));
    }
    let n = |groups: &[u32]| groups.iter().collect::<BTreeSet<_>>().len();
    assert!(0 < n_cut && 1 < n(&documents) && n(&documents) < n(&sections), "{n_cut} cuts, {}", n(&documents));
    let source = |corpus| TextSource::new(Arc::new(corpus), None);
    let Lengths::Grouped(grouped) = source(of_documents).lengths() else { panic!("they stay together") };
    assert_eq!((grouped.len(), grouped.index().n_samples()), (n(&documents), documents.len()));
    assert!(matches!(source(alone).lengths(), Lengths::Known(_)));
}
