//! What a run tells other tools: its report once more, runs side by side, TensorBoard, Prometheus, and whoever looks on.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Child, SMALL, json, refused, text};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args);
    command
}

fn report(args: &[&str]) -> Output {
    command(&[&["report"], args].concat()).output().unwrap()
}

/// Begins a training of this many steps with a small model.
fn train(out: &Path, steps: &str, args: &[&str]) -> Command {
    let small = SMALL.iter().flat_map(|it| ["--set", it]).collect::<Vec<_>>();
    let mut command = command(&["train", "--no-supervise", "--steps", steps, "--out", out.to_str().unwrap()]);
    command.args(small).args(args);
    command
}

fn trained(folder: &Path, name: &str, steps: &str, args: &[&str]) -> PathBuf {
    let out = folder.join(name);
    let output = train(&out, steps, args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    out
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_report_that_is_made_again_is_the_one_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", "4", &[]);
    let again = folder.path().join("again");
    let path = run.to_str().unwrap();
    let table = said(&report(&[path, "--out", again.to_str().unwrap(), "--csv"]));
    assert!(table.contains("steps") && table.contains("steady state"), "{table}");
    // A time is shown as it was measured; the run is named as it is named here.
    let names = ["training_report.md", "training_report.html", "training_report.json", "batch_metrics.json"];
    for name in names.into_iter().chain(["epoch_metrics.json", "memory_timeline.png", "step_curves.svg"]) {
        assert!(fs::read(run.join(name)).unwrap() == fs::read(again.join(name)).unwrap(), "{name} differs");
    }
    assert_eq!(fs::read_to_string(again.join("steps.csv")).unwrap().lines().count(), 5);
    assert!(!run.join("steps.csv").exists());
    assert!(said(&report(&[path])).contains(&format!("{path}/training_report.md")));
}

#[test]
fn a_run_that_was_cut_short_has_a_report_of_what_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", "4", &[]);
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let at = log.rfind(r#""event":"step_done""#).unwrap();
    fs::write(run.join("events.jsonl"), &log[..at + 40]).unwrap();
    fs::remove_file(run.join("facts.json")).unwrap();
    let output = report(&[run.to_str().unwrap()]);
    let stderr = text(&output.stderr);
    for part in ["the last line of its log is cut short", "facts.json", "who chose the sizes"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(said(&output).lines().any(|it| it.starts_with("steps ") && it.ends_with(" 3")), "{}", text(&output.stdout));
    let report = json(&run.join("training_report.json"));
    assert_eq!((&report["steps"], report["end"].is_null()), (&3.into(), true));
    assert!(0.0 < report["seconds"].as_f64().unwrap());
}

#[test]
fn what_is_no_run_is_refused_by_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let of = |name: &str, log: &str| {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("events.jsonl"), log).unwrap();
    };
    fs::create_dir(at("other")).unwrap();
    of("empty", "");
    of("headless", "{\"event\":\"epoch_done\",\"epoch\":0,\"step\":12,\"samples\":96}\n");
    of("newer", "{\"event\":\"run_started\",\"schema_version\":99,\"what\":1}\n");
    of("foreign", "{\"time\":1}\n");
    fs::write(at("file"), "").unwrap();
    fs::write(at("other/thesis.tex"), "years of work").unwrap();
    for (name, parts) in [
        ("nowhere", &["there is no such folder"][..]),
        ("file", &["it is a file", "name the run directory"]),
        ("other", &["it is no run directory", "`events.jsonl`"]),
        ("empty", &["is empty", "had not begun"]),
        ("headless", &["does not begin with `run_started`"]),
        ("newer", &["schema version is 99", "reads version"]),
        ("foreign", &["line 1", "a line holds one event"]),
    ] {
        let path = at(name);
        let (path, parts) = (path.to_str().unwrap(), [&[name], parts].concat());
        refused(&report(&[path]), &parts);
        if name != "empty" {
            refused(&report(&[path, "--watch"]), &parts);
        }
    }
    let path = at("empty");
    let path = path.to_str().unwrap();
    refused(&report(&[path, path, "--csv"]), &["`--csv` takes one run, and 2 are named"]);
    refused(&report(&[path, path, "--watch"]), &["`--watch` takes one run"]);
}

#[test]
fn runs_are_compared_side_by_side_whatever_their_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [
        trained(folder.path(), "short", "3", &["--set", "train.learning_rate=0.004"]),
        trained(folder.path(), "long", "4", &[]),
        trained(folder.path(), "text", "3", &["--job", "text"]),
    ];
    let [short, long, other] = runs.each_ref().map(|it| it.to_str().unwrap());
    let out = folder.path().join("compared");
    let table = said(&report(&[short, long, "--out", out.to_str().unwrap()]));
    for part in ["samples per second", "peak of the budget", "out-of-memory", "train.learning_rate", "train.steps"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("memory.target"), "{table}");
    let comparison = json(&out.join("comparison.json"));
    assert_eq!(comparison["runs"], serde_json::json!([short, long]));
    let keys: Vec<_> = comparison["settings"].as_array().unwrap().iter().map(|it| it["key"].clone()).collect();
    assert_eq!(keys, ["train.learning_rate", "train.steps"]);
    let page = fs::read_to_string(out.join("comparison.html")).unwrap();
    assert!(page.contains("Training loss") && !page.contains("<script"));
    let table = said(&report(&[short, other]));
    for part in ["the runs are of several jobs: sr, text", "measure different metrics", "peak"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("training loss,"), "{table}");
}

#[test]
fn a_log_in_several_files_is_read_replayed_and_gone_on_with_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", "6", &["--set", "train.checkpoint_every=4"]);
    let whole = said(&report(&[run.to_str().unwrap()]));
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let lines: Vec<_> = log.split_inclusive('\n').collect();
    for (at, part) in lines.chunks(lines.len().div_ceil(3)).enumerate() {
        let name = if at == 0 { "events.jsonl".to_owned() } else { format!("events.{at}.jsonl") };
        fs::write(run.join(name), part.concat()).unwrap();
    }
    assert_eq!(said(&report(&[run.to_str().unwrap()])), whole);
    let replayed = |log: &str| command(&["replay", run.join(log).to_str().unwrap()]).output().unwrap();
    let n_decisions = lines.iter().filter(|it| it.contains(r#""event":"decided""#)).count();
    assert!(said(&replayed("events.jsonl")).contains(&format!("{n_decisions} decisions, 0 differ")));
    // A checkpoint knows how long the log was in all of its files.
    let output = train(&run, "8", &["--resume"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("damaged"), "{}", text(&output.stderr));
    let last = fs::read_to_string(run.join("events.2.jsonl")).unwrap();
    assert!(last.lines().last().unwrap().contains("run_ended"));
    said(&report(&[run.to_str().unwrap(), "--csv"]));
    let steps = fs::read_to_string(run.join("steps.csv")).unwrap();
    let numbers: Vec<_> = steps.lines().skip(1).map(|it| it.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(numbers, (0..8).map(|it| it.to_string()).collect::<Vec<_>>());
    assert!(said(&replayed("events.jsonl")).contains(" 0 differ"));
}

/// Counts the records of event files in a folder.
fn n_records(folder: &Path) -> usize {
    let count = |path: PathBuf| {
        let (bytes, mut at, mut n) = (fs::read(path).unwrap(), 0, 0);
        while at < bytes.len() {
            let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            (at, n) = (at + usize::try_from(length).unwrap() + 16, n + 1);
        }
        assert_eq!(at, bytes.len(), "the last record is whole");
        n
    };
    fs::read_dir(folder).unwrap().map(|it| count(it.unwrap().path())).sum()
}

#[test]
fn event_files_have_a_record_for_each_step_and_validation_and_a_run_that_goes_on_begins_another() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", "3", &["--set", "monitor.tensorboard=true"]);
    let files = run.join("tensorboard");
    // Version and beginning, three steps, a validation before and after them, and the test.
    assert_eq!(n_records(&files), 2 + 3 + 2 + 1);
    let output = train(&run, "5", &["--resume"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(&files).unwrap().count(), 2);
    assert_eq!(n_records(&files), 8 + 2 + 2 + 1 + 1);
    let out = folder.path().join("logs");
    said(&report(&[run.to_str().unwrap(), "--tensorboard", out.to_str().unwrap()]));
    // What a checkpoint did not know of when the run went on is no part of its log.
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let n = |name: &str| log.matches(&format!("\"event\":\"{name}\"")).count();
    assert_eq!(n("step_done"), 5);
    assert_eq!(n_records(&out.join("run")), 2 + n("step_done") + n("validated") + n("tested"));
}

fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Some(answer)
}

/// Waits for something, but not for ever.
fn wait<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(it) = what() {
            return it;
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "it takes too long");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_is_scraped_and_watched_while_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (out, log) = (folder.path().join("run"), folder.path().join("stderr"));
    let mut running = train(&out, "100000", &["--metrics-addr", "127.0.0.1:0"]);
    let running = Child::start(running.stderr(fs::File::create(&log).unwrap()).stdout(Stdio::null()));
    let address = wait(|| {
        let text = fs::read_to_string(&log).unwrap();
        Some(text.split_once("http://")?.1.split_once("/metrics")?.0.to_owned())
    });
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
        line.map(|it| it.parse::<f64>().unwrap())
    };
    let text_of = wait(|| scrape(&address).filter(|it| value(it, "plimsoll_steps_total").is_some_and(|n| 2.0 < n)));
    let of = |name: &str| value(&text_of, name).unwrap_or_else(|| panic!("{name}: {text_of}"));
    assert!(of("plimsoll_memory_peak_bytes") <= of("plimsoll_memory_capacity_bytes"));
    assert!(0.0 < of("plimsoll_step_seconds_sum"));
    let watching = Child::start(
        command(&["report", "--watch", out.to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped()),
    );
    let again = report(&[out.to_str().unwrap(), "--out", folder.path().join("now").to_str().unwrap()]);
    assert!(text(&again.stderr).contains("it is being written"), "{}", text(&again.stderr));
    thread::sleep(Duration::from_secs(2));
    running.signal("INT");
    assert_eq!(running.output().status.code(), Some(130));
    let watched = watching.output();
    assert!(said(&watched).contains("interrupted after"), "{}", text(&watched.stdout));
    assert!(text(&watched.stderr).contains("training loss"), "{}", text(&watched.stderr));
    assert!(scrape(&address).is_none(), "the address goes with the run");
}

#[test]
fn an_address_that_is_taken_or_none_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let out = folder.path().join("run");
    let attempt = |address: &str| train(&out, "3", &["--metrics-addr", address]).output().unwrap();
    refused(&attempt(&address), &[&address, "--metrics-addr", "choose another port"]);
    refused(&attempt("localhost"), &["localhost", "127.0.0.1:9464"]);
    assert!(!out.exists());
}
