//! What users may put into a folder, and what may become of it meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use burn::tensor::Device;
use hound::{SampleFormat, WavSpec, WavWriter};
use plimsoll_sampler::{Admit, AdmitCounts, Oversize};
use plimsoll_train::{BadSample, Item, Job, Source, SourceError};
use plimsoll_types::Bytes;
use plimsoll_workloads::sequence::{DataError, RecordingStream, Recordings, RecordingsConfig};
use plimsoll_workloads::{Shares, StoreConfig};

use crate::{config, job, validate};

/// A folder with four good recordings in two classes.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (at, name) in ["one.wav", "two.wav", "three.wav", "below/four.wav"].iter().enumerate() {
        wav(&folder.path().join(name), 8000, 900 + 400 * at);
    }
    fs::write(folder.path().join("labels.csv"), LABELS).unwrap();
    folder
}

const LABELS: &str = "label,path,speaker\na,one.wav,x\nb,two.wav,x\na,three.wav,y\nb,below/four.wav,y\n";

fn wav(path: &Path, sample_rate: u32, n_samples: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let spec = WavSpec { channels: 1, sample_rate, bits_per_sample: 16, sample_format: SampleFormat::Int };
    let mut writer = WavWriter::create(path, spec).unwrap();
    for at in 0..n_samples {
        writer.write_sample(i16::try_from(at * 7919 % 20_011).unwrap()).unwrap();
    }
    writer.finalize().unwrap();
}

/// Checks that a folder is refused with a message, and that what is bad is skipped with one where that is asked for.
#[track_caller]
fn refused(folder: &Path, message: &str, skipped: &str) {
    let error = Recordings::read(&config(folder)).err().unwrap().to_string();
    assert!(error.contains(message), "{error}");
    assert!(error.contains("data.bad_sample = \"skip\""), "{error}");
    let recordings = Recordings::read(&RecordingsConfig { bad_sample: BadSample::Skip, ..config(folder) }).unwrap();
    assert!(recordings.skipped.len() == 1 && recordings.skipped[0].contains(skipped), "{:?}", recordings.skipped);
}

/// Checks a fifth file, after something was done to it.
#[track_caller]
fn bad_file(name: &str, make: impl FnOnce(&Path), fault: &str) {
    let folder = folder();
    fs::write(folder.path().join("labels.csv"), format!("{LABELS}a,{name},z\n")).unwrap();
    let path = folder.path().join(name);
    make(&path);
    refused(folder.path(), &format!("use {}: {fault}", path.display()), &format!("{name}: {fault}"));
}

#[test]
fn a_folder_of_recordings_is_read() {
    let recordings = Recordings::read(&config(folder().path())).unwrap();
    assert_eq!((recordings.train.len(), recordings.validation.len(), recordings.n_values()), (2, 2, 40));
    assert_eq!((recordings.classes.as_slice(), recordings.skipped.len()), (&["a".to_owned(), "b".to_owned()][..], 0));
}

#[test]
fn recordings_outside_are_refused_skipped_or_cut_and_counted() {
    let folder = folder();
    wav(&folder.path().join("silent.wav"), 8000, 0);
    wav(&folder.path().join("long.wav"), 8000, 8000);
    fs::write(folder.path().join("labels.csv"), format!("{LABELS}a,silent.wav,z\nb,long.wav,z\n")).unwrap();
    let whole = RecordingsConfig { bad_sample: BadSample::Skip, ..config(folder.path()) };
    let lengths = |config: &RecordingsConfig| {
        let it = Recordings::read(config).unwrap();
        let mut lengths: Vec<_> = it.train.iter().chain(&it.validation).map(|it| it.n_frames).collect();
        lengths.sort_unstable();
        (lengths, it.outside)
    };
    let (all, none) = lengths(&whole);
    assert_eq!(
        (all.len(), none),
        (5, AdmitCounts::default()),
        "what holds nothing is damaged, unless lengths are skipped"
    );
    let (shortest, longest) = (all[1], all[3]);
    let with = |outside, too_long| {
        let lengths = Admit { shortest, longest, too_short: outside, too_long };
        RecordingsConfig { lengths, ..config(folder.path()) }
    };
    let (kept, counts) = lengths(&with(Oversize::Skip, Oversize::Skip));
    assert_eq!(kept, all[1..4]);
    assert_eq!(counts, AdmitCounts { empty: 1, too_short: 1, too_long: 1, ..AdmitCounts::default() });
    let (cut, counts) = lengths(&with(Oversize::Skip, Oversize::Truncate));
    assert_eq!(cut, [&all[1..4], &[longest]].concat());
    assert_eq!(counts, AdmitCounts { empty: 1, too_short: 1, truncated: 1, ..AdmitCounts::default() });
    let refusing = RecordingsConfig { bad_sample: BadSample::Skip, ..with(Oversize::Refuse, Oversize::Refuse) };
    let told = Recordings::read(&refusing).err().unwrap().to_string();
    let first = format!(
        "use one.wav: its length in frames of 10 ms is {}, and `data.shortest` to `data.longest` are {shortest} to",
        all[0]
    );
    assert!(told.starts_with(&first), "{told}");
}

#[test]
fn a_bad_file_is_refused_or_skipped_by_name() {
    bad_file("gone.wav", |_| (), "there is no such file");
    bad_file("folder.wav", |path| fs::create_dir(path).unwrap(), "it is a folder, a file is needed");
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    bad_file("pipe.wav", pipe, "it is a named pipe, a file is needed");
    bad_file("pipe.txt", pipe, "it is a named pipe, a file is needed");
    bad_file("slow.wav", |path| wav(path, 2000, 900), "its sample rate is 2000 Hz, it must be from 4000 to 384000 Hz");
    bad_file("silent.wav", |path| wav(path, 8000, 0), "it has no samples");
    bad_file("liar.wav", |path| fs::write(path, "no sound at all").unwrap(), "it is no sound that can be read: ");
    bad_file("void.wav", |path| fs::write(path, "").unwrap(), "it is no sound that can be read: ");
    let neither = "its name ends neither in .wav, .flac, .ogg, .oga, .mp3 (sound) nor in .txt";
    bad_file("song.aiff", |path| wav(path, 8000, 900), neither);
    bad_file("pen.txt", |path| fs::write(path, "1,2,3\n").unwrap(), "it is a trace, sound is expected");
    bad_file("pen.txt", |path| fs::write(path, "START\n1,2\n").unwrap(), "line 2 is \"1,2\", which is neither");
}

#[test]
fn a_sound_that_was_cut_short_is_refused_or_skipped_by_name() {
    let cut = |path: &Path| {
        wav(path, 8000, 900);
        let whole = fs::read(path).unwrap();
        fs::write(path, &whole[..1000]).unwrap();
    };
    bad_file("cut.wav", cut, "it is cut short: it should have 1800 bytes of samples, and has 956");
}

#[test]
fn a_broken_line_is_refused_or_skipped_by_its_number() {
    let folder = folder();
    let list = folder.path().join("labels.csv");
    for (line, reason) in [
        ("a,one", "line 6: it has 2 fields, and the first line names 3 columns"),
        ("a,\"one.wav,x", "line 6: a quote is not closed"),
        (",five.wav,x", "line 6: its label is empty"),
        ("a, ,x", "line 6: its path is empty"),
        ("b,one.wav,x", "line 6: one.wav is on line 2 already"),
    ] {
        fs::write(&list, format!("{LABELS}{line}\n")).unwrap();
        refused(folder.path(), reason, reason);
    }
    fs::write(&list, format!("\u{feff}{}", LABELS.replace('\n', "\r\n\r\n"))).unwrap();
    assert_eq!(Recordings::read(&config(folder.path())).unwrap().train.len(), 2);
}

#[test]
fn a_label_that_is_not_expected_is_refused() {
    let folder = folder();
    let config = RecordingsConfig { classes: vec!["b".to_owned(), "c".to_owned()], ..config(folder.path()) };
    let error = Recordings::read(&config).err().unwrap().to_string();
    assert!(error.contains("line 2: its label \"a\" is none of `data.classes`: b, c"), "{error}");
    let classes = ["b", "a", "c"].map(str::to_owned).to_vec();
    let recordings = Recordings::read(&RecordingsConfig { classes: classes.clone(), ..config }).unwrap();
    assert_eq!(recordings.classes, classes);
    for recording in recordings.train.iter().chain(&recordings.validation) {
        assert_eq!(recording.class, usize::from(["one.wav", "three.wav"].contains(&recording.name.as_str())));
    }
}

#[test]
fn a_folder_without_a_usable_list_is_refused() {
    let folder = folder();
    let (path, list) = (folder.path(), folder.path().join("labels.csv"));
    let error = || Recordings::read(&config(path)).err().unwrap();
    for (content, message) in [
        ("", "labels.csv, line 1: it must name a column `path`, and reads \"\""),
        ("path,text\none.wav,a\n", "line 1: it must name a column `label`, and reads \"path,text\""),
        ("path,label\n", "0 of the 0 lines of labels.csv can be used, with 0 different labels"),
        ("path,label\none.wav,a\ntwo.wav,a\n", "2 of the 2 lines of labels.csv can be used, with 1 different labels"),
        ("path,label\none.wav,a\ntwo.wav,b\n", "one of them with two samples"),
    ] {
        fs::write(&list, content).unwrap();
        assert!(error().to_string().contains(message), "{}", error());
    }
    fs::write(&list, b"path,label\n\xff\xfe").unwrap();
    assert!(error().to_string().contains("valid UTF-8"), "{}", error());
    fs::remove_file(&list).unwrap();
    assert!(matches!(error(), DataError::Labels { path, .. } if path == list));
    fs::create_dir(&list).unwrap();
    assert!(matches!(error(), DataError::Labels { path, .. } if path == list));
    let error = Recordings::read(&config(&path.join("gone"))).err().unwrap().to_string();
    assert!(error.contains("gone: there is no such folder"), "{error}");
}

/// Reads every recording after something was done to the one of this length.
fn after_a_change(stream: bool, n_frames: u32, change: impl FnOnce(PathBuf)) -> (String, Vec<SourceError>) {
    let folder = folder();
    let recordings = Recordings::read(&config(folder.path())).unwrap();
    let changed = recordings.train.iter().max_by_key(|it| it.n_frames).unwrap().name.clone();
    assert!(recordings.train.iter().all(|it| it.n_frames <= n_frames));
    let source = job(recordings, stream).source();
    change(folder.path().join(&changed));
    (changed, (0..2).filter_map(|id| source.read(0, id).err()).collect())
}

#[test]
fn a_file_that_changes_during_a_run_is_named() {
    for stream in [true, false] {
        let (name, errors) = after_a_change(stream, 30, |path| fs::remove_file(path).unwrap());
        assert!(errors.len() == 1 && errors[0].reason == format!("{name}: there is no such file"), "{errors:?}");
        let (_, errors) = after_a_change(stream, 30, |path| fs::write(path, [0; 20]).unwrap());
        assert!(errors[0].reason.contains("no sound that can be read"), "{errors:?}");
    }
    let (_, errors) = after_a_change(false, 30, |path| wav(&path, 8000, 500));
    assert!(errors[0].reason.contains("it has 5 frames now, and had "), "{errors:?}");
    let (_, errors) = after_a_change(true, 30, |path| wav(&path, 8000, 5000));
    assert!(errors[0].reason.contains("it has 61 frames now, and there is room for "), "{errors:?}");
    // A stream takes another length, if it is not above the longest.
    let (_, errors) = after_a_change(true, 30, |path| wav(&path, 8000, 500));
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_recording_held_out_that_vanishes_is_named_by_the_validation() {
    let folder = folder();
    let recordings = Recordings::read(&config(folder.path())).unwrap();
    let name = recordings.validation[1].name.clone();
    fs::remove_file(folder.path().join(&name)).unwrap();
    let (job, device) = (job(recordings, true), Device::flex().autodiff());
    let error = validate(&job, &job.init(&device), &device).unwrap_err().to_string();
    assert!(error.contains(&format!("read {name}: there is no such file")), "{error}");
}

#[test]
fn recordings_held_out_that_vanish_are_left_out_where_bad_ones_are_skipped() {
    let folder = folder();
    let config = RecordingsConfig { bad_sample: BadSample::Skip, ..config(folder.path()) };
    let recordings = Recordings::read(&config).unwrap();
    let names: Vec<_> = recordings.validation.iter().map(|it| folder.path().join(&it.name)).collect();
    let (job, device) = (job(recordings, true), Device::flex().autodiff());
    let model = job.init(&device);
    fs::remove_file(&names[1]).unwrap();
    let value = validate(&job, &model, &device).unwrap().value;
    assert!([0.0, 100.0].contains(&value), "{value} % of the one that is left");
    fs::remove_file(&names[0]).unwrap();
    let error = validate(&job, &model, &device).unwrap_err().to_string();
    assert_eq!(error, "read recordings that are held out: none can be read any more");
}

#[test]
fn recordings_that_are_kept_when_they_are_first_read_are_not_missed_when_they_vanish() {
    let (folder, disk, device) = (folder(), tempfile::tempdir().unwrap(), Device::flex().autodiff());
    let store = Some(StoreConfig { folder: disk.path().to_owned(), limit: Bytes::MAX });
    let job = job(Recordings::read(&RecordingsConfig { store, ..config(folder.path()) }).unwrap(), true);
    let (source, model) = (job.source(), job.init(&device));
    let read = || (0..source.n_samples()).map(|id| source.read(0, id).unwrap()).collect::<Vec<_>>();
    let validated = || validate(&job, &model, &device).unwrap().value;
    let before = (read(), validated());
    let unkept = RecordingStream::new(Arc::new(Recordings::read(&config(folder.path())).unwrap()), true);
    assert_eq!(before.0, (0..unkept.n_samples()).map(|id| unkept.read(0, id).unwrap()).collect::<Vec<_>>());
    for name in ["one.wav", "two.wav", "three.wav", "below/four.wav"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert_eq!(before, (read(), validated()));
}

#[test]
fn the_fingerprint_tells_as_many_recordings_of_other_lengths_apart() {
    let folder = folder();
    let fingerprint = || job(Recordings::read(&config(folder.path())).unwrap(), true).fingerprint();
    let before = fingerprint();
    assert_eq!(fingerprint(), before);
    for name in ["one.wav", "two.wav", "three.wav", "below/four.wav"] {
        wav(&folder.path().join(name), 8000, 2500);
    }
    assert_ne!(fingerprint(), before);
}

#[test]
fn the_fingerprint_tells_other_labels_and_another_rate_apart() {
    let folder = folder();
    let read = || Recordings::read(&config(folder.path())).unwrap();
    let first = read();
    fs::write(folder.path().join("labels.csv"), LABELS.replace("\na,", "\nA,")).unwrap();
    let renamed = read();
    for (at, name) in ["one.wav", "two.wav", "three.wav", "below/four.wav"].iter().enumerate() {
        wav(&folder.path().join(name), 16_000, 2 * (900 + 400 * at));
    }
    let resampled = read();
    let frames = |it: &Recordings| it.train.iter().map(|it| it.n_frames).collect::<Vec<_>>();
    assert_eq!(frames(&first), frames(&resampled), "they are as long as before");
    let [first, renamed, resampled] = [first, renamed, resampled].map(|it| job(it, true).fingerprint());
    assert!(first != renamed && renamed != resampled, "{first} {renamed} {resampled}");
}

#[cfg(unix)]
#[test]
fn a_list_that_is_a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("labels.csv");
    assert!(Command::new("mkfifo").arg(&list).status().unwrap().success());
    let error = Recordings::read(&config(folder.path())).err().unwrap().to_string();
    assert!(error.contains("labels.csv: it is a named pipe, a file is needed"), "{error}");
}

#[test]
fn sounds_of_other_rates_and_formats_are_used_beside_the_rest() {
    let folder = folder();
    let sounds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sequence/sounds");
    let names = ["stereo.flac", "mono.ogg", "mono.mp3"];
    for name in names {
        fs::copy(sounds.join(name), folder.path().join(name)).unwrap();
    }
    wav(&folder.path().join("fast.wav"), 44_100, 22_050);
    let others = "a,stereo.flac,z\nb,mono.ogg,z\na,mono.mp3,z\nb,fast.wav,z\n";
    fs::write(folder.path().join("labels.csv"), format!("{LABELS}{others}")).unwrap();
    let config = RecordingsConfig { shares: Shares::validating(0.1), ..config(folder.path()) };
    let recordings = Arc::new(Recordings::read(&config).unwrap());
    let stream = RecordingStream::new(Arc::clone(&recordings), false);
    let mut n_others = 0;
    for (recording, id) in recordings.train.iter().zip(0..) {
        let frames = stream.read(0, id).unwrap();
        assert_eq!(frames.extent().edge(), recording.n_frames, "{}", recording.name);
        if names.contains(&&*recording.name) || recording.name == "fast.wav" {
            n_others += 1;
            // Half a second and what encoders add, in frames of 10 ms.
            assert!((48..80).contains(&recording.n_frames), "{recording}");
        }
    }
    assert!(3 <= n_others, "{:?}", recordings.train);
}

#[test]
fn groups_that_cannot_be_divided_are_refused_with_what_there_is() {
    let folder = folder();
    let read = |column: &str, shares| {
        let group_column = Some(column.to_owned());
        let config = RecordingsConfig { shares, group_column, ..config(folder.path()) };
        Recordings::read(&config).map(|it| (it.train.len(), it.validation.len(), it.test.len()))
    };
    let (validating, testing) = (Shares::validating(0.2), Shares { validation: 0.2, test: 0.2 });
    let refused = |column: &str, shares, parts: &[&str]| {
        let error = read(column, shares).unwrap_err();
        assert!(plimsoll_workloads::AboutFolder::is_about_folder(&error), "{error}");
        let error = error.to_string();
        assert!(parts.iter().all(|it| error.contains(it)), "{error}");
    };
    refused("voice", validating, &["line 1", "`data.group_column` is \"voice\"", "label,path,speaker"]);
    let source_column = Some("corpus".to_owned());
    let error =
        Recordings::read(&RecordingsConfig { source_column, ..config(folder.path()) }).err().unwrap().to_string();
    assert!(error.contains("line 1: `data.source_column` is \"corpus\", and the columns are"), "{error}");
    // Two speakers are too few for three parts, and one of them for two.
    let line = ["by `speaker`: with 2 of it, none is left to test on; 3 are needed", "`data.test_share`"];
    refused("speaker", testing, &line);
    assert_eq!(read("speaker", validating).unwrap(), (2, 2, 0));
    let list = folder.path().join("labels.csv");
    fs::write(&list, LABELS.replace(",y\n", ",x\n")).unwrap();
    refused("speaker", validating, &["with 1 of it, none is left to validate on; 2 are needed"]);
    // Who is held out is the only one that says b.
    for (a, b) in [("x", "y"), ("y", "x")] {
        let lines =
            format!("label,path,speaker\na,one.wav,{a}\nb,two.wav,{b}\na,three.wav,{a}\na,below/four.wav,{b}\n");
        fs::write(&list, lines).unwrap();
        match read("speaker", validating) {
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.contains("train on label \"b\"") && error.contains(&format!("held out ({b})")),
                    "{error}"
                );
            }
            Ok(parts) => assert_eq!(parts, (2, 2, 0)),
        }
    }
    fs::write(&list, LABELS.replace(",y\n", ",\n")).unwrap();
    let error = read("speaker", validating).unwrap_err().to_string();
    assert!(error.contains("line 4: its speaker is empty"), "{error}");
}
