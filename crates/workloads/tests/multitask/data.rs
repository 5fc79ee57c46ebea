//! Lists of samples, and what they say of tasks.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use plimsoll_fixtures::copy_folder;
use plimsoll_sampler::{Admit, AdmitCounts, Oversize};
use plimsoll_train::{BadSample, Draw, Item, Job, Lengths, Source};
use plimsoll_types::{Extent, StepShape};
use plimsoll_workloads::Shares;
use plimsoll_workloads::multitask::{Asks, DataError, Multitask, MultitaskConfig, Sample, Samples, SamplesConfig};

use super::held_out::with_inference;
use super::{fixtures, samples_config};

fn count(some: &[Sample], task: u16) -> usize {
    some.iter().filter(|it| it.task == task).count()
}

#[test]
fn no_image_is_in_two_parts_and_every_task_is_in_all() {
    let store = tempfile::tempdir().unwrap();
    let shares = Shares { validation: 0.2, test: 0.2 };
    let tested = || Samples::read(&SamplesConfig { shares, ..samples_config(store.path()) }).unwrap();
    let samples = tested();
    for (task, lines) in (0..).zip([48, 32, 48]) {
        let [train, validation, test] = [&samples.train, &samples.validation, &samples.test].map(|it| count(it, task));
        let is_held = |n: usize| 0 < n && n <= train;
        assert!(is_held(validation) && is_held(test) && train <= lines, "{task}: {train} {validation} {test}");
    }
    // One of six drawings of each figure is held out for either, so the lines of one drawing are in one part each.
    let singles = [&samples.train, &samples.validation, &samples.test].map(|it| count(it, 0));
    assert_eq!(singles, [32, 8, 8]);
    let all = samples.train.iter().chain(&samples.validation).chain(&samples.test);
    let mut lines: Vec<_> = all.filter(|it| it.task == 0).map(|it| it.line).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 48);
    let again = tested();
    assert_eq!((&samples.train, &samples.validation, &samples.test), (&again.train, &again.validation, &again.test));
    assert_eq!(count(&fixtures().validation, 0), 8, "what is validated on does not depend on the test");
}

/// A copy of the fixtures with another list.
fn folder(change: impl Fn(Vec<String>) -> Vec<String>) -> tempfile::TempDir {
    let (from, to) = (plimsoll_fixtures::dir().join("multitask"), tempfile::tempdir().unwrap());
    copy_folder(&from.join("images"), &to.path().join("images")).unwrap();
    let list = fs::read_to_string(from.join("samples.jsonl")).unwrap();
    let lines = change(list.lines().map(str::to_owned).collect());
    fs::write(to.path().join("samples.jsonl"), lines.join("\n")).unwrap();
    to
}

fn read(folder: &Path, bad_sample: BadSample) -> Result<Samples, DataError> {
    let store = tempfile::tempdir().unwrap();
    Samples::read(&SamplesConfig { folder: folder.to_owned(), bad_sample, ..samples_config(store.path()) })
}

#[test]
fn samples_of_other_numbers_of_images_are_refused_skipped_or_cut_and_counted() {
    let store = tempfile::tempdir().unwrap();
    let with = |shortest, outside| {
        let lengths = Admit { shortest, longest: 2, too_short: outside, too_long: outside };
        Samples::read(&SamplesConfig { lengths, ..samples_config(store.path()) })
    };
    let all = fixtures();
    let n_long = |some: &[Sample]| some.iter().filter(|it| 2 < it.n_images()).count();
    let long = [&all.train, &all.validation, &all.test].map(|it| n_long(it));
    let (skipped, cut) = (with(1, Oversize::Skip).unwrap(), with(1, Oversize::Truncate).unwrap());
    assert!(0 < long[0] && n_long(&skipped.train) + n_long(&cut.train) == 0, "{long:?}");
    assert_eq!((skipped.train.len() + long[0], cut.train.len()), (all.train.len(), all.train.len()));
    let n_long = long.iter().sum::<usize>() as u64;
    assert_eq!(skipped.outside, AdmitCounts { too_long: n_long, ..AdmitCounts::default() });
    assert_eq!(cut.outside, AdmitCounts { truncated: n_long, ..AdmitCounts::default() });
    let told = with(1, Oversize::Refuse).unwrap_err().to_string();
    assert!(told.starts_with("use line ") && told.contains(" of samples.jsonl: its length in images is "), "{told}");
    // Some tasks have single images alone.
    let told = with(2, Oversize::Skip).unwrap_err().to_string();
    assert!(
        told.contains("samples of task `single`") && told.contains(" shorter than `data.shortest` are skipped"),
        "{told}"
    );
}

#[test]
fn a_list_may_begin_with_a_byte_order_mark() {
    let folder = folder(|mut lines| {
        lines[0].insert(0, '\u{feff}');
        lines
    });
    let (marked, plain) = (read(folder.path(), BadSample::Fail).unwrap(), fixtures());
    assert_eq!(marked.train.len(), plain.train.len());
}

#[test]
fn a_line_that_is_no_sample_says_what_one_is() {
    let folder = with_line(|_| "null".to_owned());
    refused(folder.path(), &["an object with `task`, `subjects`, `images` and `text`"]);
}

/// Line 7 is refused for this reason, or left out.
#[track_caller]
fn refused(folder: &Path, reasons: &[&str]) {
    let error = read(folder, BadSample::Fail).unwrap_err();
    assert!(matches!(&error, DataError::Line { path, line: 7, .. } if path.ends_with("samples.jsonl")), "{error}");
    let error = error.to_string();
    assert!(reasons.iter().all(|it| error.contains(it)) && error.contains("samples.jsonl, line 7: "), "{error}");
    let samples = read(folder, BadSample::Skip).unwrap();
    assert_eq!(samples.skipped.len(), 1, "{:?}", samples.skipped);
    assert!(samples.skipped[0].starts_with("samples.jsonl, line 7: "), "{:?}", samples.skipped);
}

/// Has another text in line 7, which is a sample of several images.
fn with_line(change: impl Fn(&str) -> String) -> tempfile::TempDir {
    folder(|mut lines| {
        assert!(lines[6].contains(r#""task": "subject""#), "{}", lines[6]);
        lines[6] = change(&lines[6]);
        lines
    })
}

#[test]
fn a_broken_line_is_refused_or_skipped_by_its_number() {
    refused(with_line(|line| line[..line.len() - 9].to_owned()).path(), &["EOF while parsing"]);
    // The first line of the task asks for a subject.
    let labelled = with_line(|line| line.replace("\"task\": \"subject\"", "\"task\": \"single\", \"label\": \"x\""));
    refused(labelled.path(), &["it asks which `label` it is, and line 1 of the same task `single` asks which subject"]);
    refused(with_line(|line| line.replace("\"text\"", "\"txt\"")).path(), &["missing field `text`"]);
}

#[test]
fn an_image_that_cannot_be_used_is_refused_or_skipped_with_its_line() {
    let renamed = || with_line(|line| line.replacen("images/bavo/", "images/bavo/x", 1));
    let gone = renamed();
    refused(gone.path(), &["images/bavo/x", ".png: there is no such file"]);
    let place = |folder: &Path| {
        let line = fs::read_to_string(folder.join("samples.jsonl")).unwrap();
        let line = line.lines().nth(6).unwrap().to_owned();
        let start = line.find("images/bavo/x").unwrap();
        folder.join(&line[start..start + "images/bavo/x0.png".len()])
    };
    let is_folder = renamed();
    fs::create_dir(place(is_folder.path())).unwrap();
    refused(is_folder.path(), &["it is a folder"]);
    let foreign = renamed();
    fs::write(place(foreign.path()), "no image").unwrap();
    refused(foreign.path(), &["it is no PNG, JPEG, WebP, GIF, BMP, PNM, QOI or TIFF image"]);
    let cut = renamed();
    let whole = fs::read(cut.path().join("images/bavo/0.png")).unwrap();
    fs::write(place(cut.path()), &whole[..whole.len() / 2]).unwrap();
    refused(cut.path(), &["it is damaged: "]);
}

#[test]
fn a_task_without_samples_on_one_side_is_refused_by_name() {
    let one_pair = folder(|lines| {
        let mut n_pairs = 0;
        let is_kept = |line: &String| !line.contains("\"pair\"") || std::mem::replace(&mut n_pairs, 1) == 0;
        lines.into_iter().filter(is_kept).collect()
    });
    let error = read(one_pair.path(), BadSample::Fail).map(|it| it.train.len()).unwrap_err().to_string();
    assert!(error.contains("samples of task `pair`") && error.contains("of its 1 lines"), "{error}");
    let empty = folder(|_| Vec::new());
    assert!(matches!(read(empty.path(), BadSample::Skip), Err(DataError::NoLines { .. })));
}

#[test]
fn a_folder_with_one_task_or_two_trains_these_alone() {
    for kept in [&["single"][..], &["pair"], &["subject", "pair"]] {
        let is_kept = |line: &String| kept.iter().any(|task| line.contains(&format!("\"{task}\"")));
        let folder = folder(|lines| lines.into_iter().filter(is_kept).collect());
        let job = Multitask::new(MultitaskConfig::new(3), Arc::new(read(folder.path(), BadSample::Fail).unwrap()));
        assert_eq!(job.tasks(), kept);
        let (source, device) = (job.source(), Device::flex().autodiff());
        let ids: Vec<_> = (0..6).collect();
        let items: Vec<_> = ids.iter().map(|id| source.read(0, *id).unwrap()).collect();
        let extent = items.iter().map(Item::extent).reduce(Extent::joined).unwrap();
        let mut buffer = source.buffer(StepShape::of(6, extent));
        source.collate(&Draw::of_extent(0, ids, extent), &items, &mut buffer).unwrap();
        device.seed(5);
        let model = job.init(&device);
        let loss = job.mean_loss(&model, job.batch(&buffer, 0..6, &device), &vec![1.0; kept.len()]);
        assert_eq!(loss.of_tasks.unwrap().dims(), [kept.len()]);
        assert!((0.1..9.0).contains(&loss.mean.into_scalar::<f32>()), "{kept:?}");
    }
}

#[test]
fn tasks_are_what_the_data_name_as_many_as_there_are() {
    // Each figure's drawings are labelled by their number, in one of two ways.
    let label = |line: &str, task: &str, of: &dyn Fn(usize) -> String| {
        let at: usize = line[line.find(".png").unwrap() - 1..][..1].parse().unwrap();
        let task = format!("\"task\": \"{task}\", \"label\": \"{}\"", of(at));
        line.replace("\"task\": \"single\"", &task)
    };
    let folder = folder(|lines| {
        let singles: Vec<_> = lines.iter().filter(|it| it.contains("\"single\"")).cloned().collect();
        let half = singles.iter().map(|it| label(it, "half", &|at| (if at < 3 { "low" } else { "high" }).to_owned()));
        let third = singles.iter().map(|it| label(it, "third", &|at| (at % 3).to_string()));
        let who = singles.iter().map(|it| it.replace("\"single\"", "\"who is it?\""));
        half.chain(third).chain(who).chain(lines.iter().filter(|it| it.contains("\"pair\"")).cloned()).collect()
    });
    let samples = Arc::new(read(folder.path(), BadSample::Fail).unwrap());
    let told: Vec<_> = samples.tasks().iter().map(|it| (it.name.as_str(), it.asks, it.answers.len())).collect();
    let expected = [
        ("half", Asks::Label, 2),
        ("third", Asks::Label, 3),
        ("who is it?", Asks::Subject, 8),
        ("pair", Asks::Order, 2),
    ];
    assert_eq!(told, expected);
    let job = Multitask::new(MultitaskConfig::new(3), Arc::clone(&samples));
    assert_eq!(job.tasks(), ["half", "third", "who is it?", "pair"]);
    let device = Device::flex().autodiff();
    device.seed(5);
    let model = job.init(&device);
    let measured = with_inference(job.features(), |mut it| job.validate(&model, &device, &mut it)).unwrap().unwrap();
    let names: Vec<_> = measured.others.iter().map(|it| it.name.as_str()).collect();
    let expected = ["half", "third", "who is it?", "pair"].map(|it| format!("accuracy of `{it}` (%)"));
    assert_eq!(names, expected);
    assert!(measured.others.iter().all(|it| (0.0..=100.0).contains(&it.value) && it.baseline <= 100.0), "{measured:?}");
    assert!(measured.tasks.iter().all(|it| it.value.is_finite() && 0.0 < it.baseline), "{measured:?}");
    assert_eq!(measured.others[3].baseline.to_bits(), 50_f64.to_bits());
    // A label is that of its image: whatever the epoch, no other image of the subject stands for it.
    let (source, at) = (job.source(), samples.train.iter().position(|it| it.task == 1).unwrap() as u64);
    assert_eq!(source.read(0, at).unwrap().task(), 1);
}

#[test]
fn a_task_with_one_label_alone_is_refused_by_name() {
    let folder = folder(|lines| {
        let labelled = |line: &String| line.replace("\"task\": \"single\"", "\"task\": \"mood\", \"label\": \"glad\"");
        lines.iter().filter(|it| it.contains("\"single\"")).map(labelled).collect()
    });
    let error = read(folder.path(), BadSample::Fail).map(|it| it.train.len()).unwrap_err().to_string();
    assert!(error.contains("task `mood` have \"glad\", at least 2"), "{error}");
}

#[test]
fn a_folder_that_is_none_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let gone = read(&empty.path().join("gone"), BadSample::Skip).unwrap_err().to_string();
    assert!(gone.contains("there is no such folder"), "{gone}");
    let no_list = read(empty.path(), BadSample::Skip).unwrap_err();
    assert!(matches!(&no_list, DataError::Io { path, .. } if path.ends_with("samples.jsonl")), "{no_list}");
}

#[test]
fn numbers_of_images_and_words_are_known_unless_samples_are_streamed() {
    let folder = folder(|lines| lines);
    let samples = Arc::new(read(folder.path(), BadSample::Fail).unwrap());
    let source =
        |stream| Multitask::new(MultitaskConfig { stream, ..MultitaskConfig::new(3) }, Arc::clone(&samples)).source();
    let (known, streamed) = (source(false), source(true));
    let index = known.lengths().index().unwrap();
    let longest = index.iter().reduce(Extent::joined).unwrap();
    assert_eq!(streamed.lengths(), Lengths::Streamed { longest });
    for id in 0..known.n_samples() {
        let extents = [streamed.expected_extent(id), Some(streamed.read(0, id).unwrap().extent())];
        assert_eq!(extents, [index.get(id); 2]);
    }
}
