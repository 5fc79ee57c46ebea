//! The readers, each with inputs that it accepts.

mod checkpoint;
mod lists;
mod media;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_fixtures::dir;
use plimsoll_plan::{Fingerprint, Fit, MemoryPlan, PlannedCell, Schedule};
use plimsoll_predict::{Phase, Source as KnownBy};
use plimsoll_train::{BadSample, EVENTS_FILE, Existing, Incident, RunDir, Source, replay, replay_incident};
use plimsoll_types::{Bytes, Fraction, Recompute, StepShape};
use plimsoll_workloads::multitask::{Samples, SamplesConfig};
use plimsoll_workloads::sequence::{RecordingStream, Recordings, RecordingsConfig};
use plimsoll_workloads::{Room, Shares};
use tempfile::{TempDir, tempdir};

use super::Reader;
use crate::load::{DEFAULTS, Given, Layers, Loaded};

const JSON: &[&str] = &["null", "true", "false", "[]", "{}", ":", "\"\":", "\\u0000", "1.5", "-", "\"kind\":\"keep\""];

/// Writes an input over a file, and returns the path.
fn put(folder: &TempDir, name: &str, input: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, input).unwrap();
    path
}

/// A file of settings, and what `--set` and the environment pass.
#[test]
fn configuration() {
    const WORDS: &[&str] = &["train.steps", "[memory]", "policy.kind=", "auto", "= ", "inf", "\"1 GiB\"", "[[a]]", "#"];
    let folder = tempdir().unwrap();
    let mut read = |input: &[u8]| {
        let path = put(&folder, "config.toml", input);
        let line = String::from_utf8_lossy(input).lines().next().unwrap_or_default().to_owned();
        let file = Layers { files: vec![path], ..Layers::default() };
        let set = Layers { sets: vec![line], ..Layers::default() };
        [file, set].iter().any(|layers| layers.load().is_ok_and(|it| reads_again(&folder, &it)))
    };
    let short = "job = \"sr\"\n[memory]\ntarget = 0.75\ncapacity = \"1.5 GiB\"\n[train]\nsteps = 12\n";
    let sets = [
        "memory.target=0.8",
        "train.steps=3",
        "job=sr",
        "batch.batch_size=4",
        "memory.capacity=2 GiB",
        "device=flex, cuda",
    ];
    let corpus = [DEFAULTS, short].into_iter().chain(sets).map(|it| it.as_bytes().to_vec()).collect();
    Reader { name: "configuration", corpus, words: WORDS, read: &mut read }.fuzz();
}

/// Holds that settings which were written are read as what they were.
fn reads_again(folder: &TempDir, loaded: &Loaded) -> bool {
    let written = loaded.to_toml();
    let layers = Layers { files: vec![put(folder, "written.toml", written.as_bytes())], ..Layers::default() };
    let again = layers.load().unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again.to_toml(), written);
    assert_eq!(format!("{:?}", again.settings), format!("{:?}", loaded.settings));
    true
}

/// A folder of data of any name, in a configuration that is written and read.
#[test]
fn folders() {
    const WORDS: &[&str] = &[
        "\"", "'", "\\", "\\n", "\n", "\r\n", "\t", "\u{301}", "\u{200b}", "\u{1b}", "\u{7f}", "\u{85}", "#", "=", "{",
        "'''", "\"\"\"",
    ];
    let folder = tempdir().unwrap();
    let mut read = |input: &[u8]| {
        let Ok(name) = String::from_utf8(input.to_vec()) else { return false };
        // What is larger than a file of settings may be is no name of a folder either.
        if 4096 < name.len() {
            return false;
        }
        let layers = Layers { flags: vec![Given::by_flag("--data", "data.folder", name.clone())], ..Layers::default() };
        let loaded = layers.load().unwrap();
        let is_same = name == "built-in" || loaded.settings.folder("sr") == Path::new(&name);
        assert!(is_same, "{name:?} became {:?}", loaded.settings.folder("sr"));
        reads_again(&folder, &loaded)
    };
    let names = ["/home/Mu\u{308}ller/ภาพถ่าย", "C:\\new \"photos\"", "photos"];
    let corpus = names.map(|it| it.as_bytes().to_vec()).into();
    Reader { name: "folders", corpus, words: WORDS, read: &mut read }.fuzz();
}

fn logs() -> Vec<Vec<u8>> {
    ["certified", "fixed", "stepwise"].map(|name| fs::read(dir().join(format!("logs/{name}.jsonl"))).unwrap()).into()
}

/// A log, read and replayed.
#[test]
fn events() {
    let folder = tempdir().unwrap();
    let mut read = |input: &[u8]| {
        put(&folder, EVENTS_FILE, input);
        let events = RunDir::open(folder.path(), Existing::Resume).unwrap().events();
        events.is_ok_and(|events| replay(&events).is_ok())
    };
    Reader { name: "events", corpus: logs(), words: JSON, read: &mut read }.fuzz();
}

fn fingerprint() -> Fingerprint {
    Fingerprint {
        model: "edsr".to_owned(),
        optimizer: "adam".to_owned(),
        dtype: "f32".to_owned(),
        recompute: Recompute::NEVER,
        effective_batch_size: 16,
        device: "flex".to_owned(),
        fusion: false,
        autotune: false,
        versions: Fingerprint::versions(),
    }
}

fn memory_plan() -> MemoryPlan {
    let cell = |phase: Phase, batch: u32| PlannedCell {
        phase,
        batch,
        extent: 32.into(),
        resident: Bytes::mib(1),
        nodes: 0,
        packed: Bytes::ZERO,
        reserved: Bytes::mib(10),
        upper: Bytes::mib(11),
        in_run: None,
        in_use: Some(Bytes::mib(9)),
        upper_in_use: None,
        page: Bytes::mib(2),
        largest_allocation: Bytes::mib(1),
        source: KnownBy::DryRun,
        fit: Fit::Fits,
        planning_ms: 1.5,
    };
    let (high_water, high_water_kept, high_water_as_drawn) = (Bytes::mib(20), Bytes::mib(22), Bytes::mib(30));
    let first = StepShape::new(8, 32);
    let cells = vec![cell(Phase::Train, 4), cell(Phase::Train, 8), cell(Phase::Infer, 8)];
    let mut plan = MemoryPlan::new(fingerprint(), Bytes::mib(100), Fraction::try_new(0.9).unwrap(), cells);
    plan.ladder = vec![StepShape::new(4, 32), first];
    plan.schedule = Some(Schedule { n_steps: 3, first, high_water, high_water_kept, high_water_as_drawn });
    plan
}

/// An incident, read and replayed.
#[test]
fn incidents() {
    let mut read = |input: &[u8]| {
        let incident = str::from_utf8(input).ok().and_then(|text| Incident::parse(text).ok());
        incident.is_some_and(|incident| replay_incident(&incident).is_ok())
    };
    let corpus = logs().iter().map(|log| checkpoint::incident(log)).collect();
    Reader { name: "incidents", corpus, words: JSON, read: &mut read }.fuzz();
}

/// A plan, read and held against another capacity, as a run does.
#[test]
fn plan() {
    let folder = tempdir().unwrap();
    let mut read = |input: &[u8]| {
        let plan = MemoryPlan::read(&put(&folder, "memory_plan.json", input), &fingerprint(), false);
        plan.is_ok_and(|plan| {
            let plan = plan.under(Bytes::gib(1), Fraction::try_new(0.5).unwrap());
            drop((plan.first(Phase::Train).cloned(), plan.needs()));
            plan.check().is_ok()
        })
    };
    let path = folder.path().join("memory_plan.json");
    memory_plan().write(&path).unwrap();
    let corpus = vec![fs::read(path).unwrap()];
    Reader { name: "plan", corpus, words: JSON, read: &mut read }.fuzz();
}

/// One sample of each task.
fn list(bavo: &str, dilu: &str) -> [String; 3] {
    let line = |task: &str, subjects: &str, images: &str, counts: &str| {
        format!(r#"{{"task":"{task}","subjects":[{subjects}],"images":[{images}],{counts}"text":"a {task} sample"}}"#)
            + "\n"
    };
    [
        line("single", r#""bavo""#, &format!("{bavo:?}"), ""),
        line("subject", r#""dilu""#, &format!("{dilu:?}"), ""),
        line("pair", r#""bavo","dilu""#, &format!("{bavo:?},{dilu:?}"), r#""counts":[1,1],"#),
    ]
}

/// `samples.jsonl`, with every image that it names.
#[test]
fn samples() {
    const WORDS: &[&str] = &["\"counts\":[1,1],", "images/bavo/0.png", "../", "/", "\"pair\"", "\"subject\"", "\"a\","];
    let folder = tempdir().unwrap();
    let names = |subject: &str| (0..6).map(|n| format!("images/{subject}/{n}.png")).collect::<Vec<_>>();
    for name in ["bavo", "dilu"].iter().flat_map(|subject| names(subject)) {
        put(&folder, &name, &fs::read(dir().join("multitask").join(&name)).unwrap());
    }
    let corpus = names("bavo").iter().zip(names("dilu")).flat_map(|(a, b)| list(a, &b)).collect::<String>();
    let mut read = |input: &[u8]| {
        put(&folder, "samples.jsonl", input);
        let config = SamplesConfig::new(folder.path().to_owned(), Room::boundless(folder.path()));
        let config = SamplesConfig { image_size: 8, shares: Shares::validating(0.5), ..config };
        let lenient = SamplesConfig { bad_sample: BadSample::Skip, ..config.clone() };
        [config, lenient].iter().all(|config| Samples::read(config).is_ok())
    };
    Reader { name: "samples", corpus: vec![corpus.into_bytes()], words: WORDS, read: &mut read }.fuzz();
}

/// Reads a folder of recordings, and all that it lists.
fn read_recordings(folder: &Path) -> bool {
    let config = RecordingsConfig {
        shares: Shares::validating(0.3),
        bad_sample: BadSample::Skip,
        ..RecordingsConfig::new(folder.to_owned())
    };
    let Ok(recordings) = Recordings::read(&config) else { return false };
    let is_whole = recordings.skipped.is_empty();
    let stream = RecordingStream::new(Arc::new(recordings), false);
    (0..stream.n_samples()).all(|id| stream.read(0, id).is_ok()) && is_whole
}

/// The list of a folder, with the head of every file that it names.
#[test]
fn labels() {
    const WORDS: &[&str] = &["path", "label", "wav/00_fall.wav,fall\n", "../", "/", "\"\"", ".wav", ".txt", ","];
    let folder = tempdir().unwrap();
    let list = fs::read_to_string(dir().join("sequence/labels.csv")).unwrap();
    let short: Vec<_> = list.lines().take(11).collect();
    for line in &short[1..] {
        let (name, _) = line.split_once(',').unwrap();
        put(&folder, name, &fs::read(dir().join("sequence").join(name)).unwrap());
    }
    let mut read = |input: &[u8]| {
        put(&folder, "labels.csv", input);
        read_recordings(folder.path())
    };
    let corpus = vec![short.join("\n").into_bytes(), format!("speaker,{}", short.join("\n\"a, b\",")).into_bytes()];
    Reader { name: "labels", corpus, words: WORDS, read: &mut read }.fuzz();
}

/// A trace of a pen, among others that are in order.
#[test]
fn traces() {
    const WORDS: &[&str] = &["START", "BREAK", "\n", ",", "1e308", "-0", "nan", "0.5,0.5,10\n", "\r\n", "99999999999"];
    let folder = tempdir().unwrap();
    let trace =
        |turn: &str| format!("START\n0,0,0\n20,0,200\n{turn}\nBREAK\nSTART\n5,5,700\n6,8,720\nBREAK\n").into_bytes();
    let traces = ["20,20,400", "-20,3.5,410", "0,0,650"].map(trace);
    for (name, trace) in ["a", "b", "c"].iter().zip(&traces) {
        put(&folder, &format!("{name}.txt"), trace);
    }
    put(&folder, "labels.csv", b"path,label\na.txt,x\nb.txt,x\nc.txt,x\nd.txt,y\n");
    let mut read = |input: &[u8]| {
        put(&folder, "d.txt", input);
        read_recordings(folder.path())
    };
    Reader { name: "traces", corpus: traces.to_vec(), words: WORDS, read: &mut read }.fuzz();
}

/// A sound, among others that are in order.
#[test]
fn sound() {
    const WORDS: &[&str] = &["RIFF", "WAVE", "fmt ", "data", "LIST", "fact", "\u{10}\0\0\0", "\u{1}\0", "\0\0\0\0"];
    let folder = tempdir().unwrap();
    let sounds =
        ["00_fall", "01_hop", "02_rise"].map(|it| fs::read(dir().join(format!("sequence/wav/{it}.wav"))).unwrap());
    for (n, name) in ["a", "b", "c"].iter().enumerate() {
        put(&folder, &format!("{name}.wav"), &sounds[n]);
    }
    put(&folder, "labels.csv", b"path,label\na.wav,x\nb.wav,x\nc.wav,x\nd.wav,y\n");
    let mut read = |input: &[u8]| {
        put(&folder, "d.wav", input);
        read_recordings(folder.path())
    };
    Reader { name: "sound", corpus: sounds.to_vec(), words: WORDS, read: &mut read }.fuzz();
}
