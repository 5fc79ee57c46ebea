//! Folders of documents as sources, with shares.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use plimsoll_sampler::{EpochEnd, TaskMix};
use plimsoll_train::{Job, Loader, LoaderConfig, NamedSource, Source, Wanted};
use plimsoll_types::{Bytes, Cells, Extent};
use plimsoll_workloads::text::{Corpus, CorpusConfig, Cut, Text, TextError};

use crate::{MODEL, config};

/// A folder with documents of two sources, and some that are in no folder of their own.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, word: &str, n: usize| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{word} is all that this document is about, {word}.\n\n").repeat(n)).unwrap();
    };
    (0..8).for_each(|at| write(&format!("tales/{at}.txt"), "storm", 4));
    (0..4).for_each(|at| write(&format!("notes/of old/{at}.md"), "harbour", 2));
    write("alone.txt", "lighthouse", 10);
    folder
}

fn by_folder(folder: &Path) -> CorpusConfig {
    CorpusConfig { source_folders: true, cut: Cut { longest: 400, overlap: 0 }, ..config(folder) }
}

fn named(name: &str, n_samples: u64) -> NamedSource {
    NamedSource { name: name.to_owned(), n_samples }
}

#[test]
fn parts_are_held_out_of_each_folder_and_its_sections_lie_together() {
    let folder = folder();
    let corpus = Corpus::read(&by_folder(folder.path())).unwrap();
    // Of a document that is alone in its source, sections are held out; of the others whole documents are.
    assert_eq!(corpus.sources, [named(".", 8), named("notes", 6), named("tales", 24)]);
    let held_out = &corpus.validation.sections;
    assert_eq!((corpus.train.len(), held_out.len()), (38, 2 + 2 + 8));
    let word = |id: u32| corpus.tokenizer.decode(&corpus.train.predicted(id)[1..]).unwrap();
    let words = [(0..8, "lighthouse"), (8..14, "harbour"), (14..38, "storm")];
    assert!(words.into_iter().all(|(mut ids, expected)| ids.all(|id| word(id).starts_with(expected))));
    let whole = Corpus::read(&CorpusConfig { source_folders: false, ..by_folder(folder.path()) }).unwrap();
    assert!(whole.sources.is_empty());
    let fingerprint = |corpus: Corpus| Text::new(MODEL, Arc::new(corpus)).fingerprint();
    assert_ne!(fingerprint(corpus), fingerprint(whole));
}

#[test]
fn shares_of_folders_hold_in_every_stretch_of_an_epoch() {
    let folder = folder();
    let job = Text::new(MODEL, Arc::new(Corpus::read(&by_folder(folder.path())).unwrap()));
    let source = job.source();
    let longest = source.lengths().index().unwrap().iter().map(Extent::edge).max().unwrap();
    let config = LoaderConfig {
        cells: Cells::from(vec![longest]),
        tasks: TaskMix {
            shares: Some(vec![0.25, 0.5, 0.25]),
            diversity_weight: plimsoll_sampler::Fraction::ONE,
            ends: EpochEnd::FirstExhausted,
            ..TaskMix::default()
        },
        ..LoaderConfig::cut(7, 4, longest, Bytes::mib(1))
    };
    let wanted = Wanted::Batches(vec![4]);
    let mut loader = Loader::try_new(&source, None, &wanted, &config).unwrap();
    for _ in 0..3 {
        let (mut counts, mut is_whole) = ([0_usize; 3], false);
        while !is_whole {
            let samples = loader.next(&wanted).unwrap();
            let of = |id: u64| usize::from(8 <= id) + usize::from(14 <= id);
            samples.draw.ids().for_each(|id| counts[of(id)] += 1);
            let n: usize = counts.iter().sum();
            // To within a batch of four.
            let is_off = |(found, share): (usize, f64)| 4.0 < (found as f64 - share * n as f64).abs();
            assert!(!counts.into_iter().zip([0.25, 0.5, 0.25]).any(is_off), "{counts:?}");
            is_whole = samples.ends_epoch;
            loader.recycle(samples).unwrap();
        }
        // The six sections of the notes are half of an epoch that ends with the last of them.
        assert_eq!(counts[1], 6, "{counts:?}");
    }
}

#[test]
fn rows_know_sources_as_sections_do_and_folders_that_cannot_be_divided_are_refused() {
    let folder = folder();
    let corpus = Arc::new(Corpus::read(&by_folder(folder.path())).unwrap());
    let tasks = |job: &Text| job.source().lengths().index().unwrap().tasks().map(<[u16]>::to_vec);
    let expected: Vec<_> = [(0, 8), (1, 6), (2, 24)].into_iter().flat_map(|(of, n)| vec![of; n]).collect();
    assert_eq!(tasks(&Text::new(MODEL, Arc::clone(&corpus))), Some(expected.clone()));
    assert_eq!(tasks(&Text::packed(MODEL, corpus, 500)), Some(expected));
    let small = tempfile::tempdir().unwrap();
    for name in ["one", "two", "three"] {
        fs::create_dir(small.path().join(name)).unwrap();
        fs::write(small.path().join(name).join("a.txt"), "One section alone, which cannot be divided.").unwrap();
    }
    let error = Corpus::read(&by_folder(small.path())).unwrap_err();
    assert!(matches!(error, TextError::NoneHeldOut { sources: 3, .. }), "{error}");
    assert!(error.to_string().contains("data.source_folders = false"), "{error}");
    Corpus::read(&CorpusConfig { source_folders: false, ..by_folder(small.path()) }).unwrap();
}
