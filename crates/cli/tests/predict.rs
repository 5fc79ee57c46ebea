//! Trained models of recordings and of images, put to use.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::f64::consts::TAU;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{json, refused, text};
use image::{Rgb, RgbImage};
use plimsoll_workloads::Shares;
use plimsoll_workloads::sequence::{Recordings, RecordingsConfig};

/// Samples of sound per second.
const RATE: u32 = 8000;

fn plimsoll(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).output().unwrap()
}

fn train(job: &str, data: &Path, run: &Path, sets: &[&str]) -> String {
    let (data, run) = (data.display().to_string(), run.display().to_string());
    let sets: Vec<_> = sets.iter().flat_map(|it| ["--set", it]).collect();
    let args = ["train", "--job", job, "--data", &data, "--out", &run, "--capacity", "64MiB"];
    let output = plimsoll(&[&args, &sets[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    run
}

/// Returns the fields of every line that a prediction prints.
fn predicted(run: &str, args: &[&str]) -> Vec<Vec<String>> {
    let output = plimsoll(&[&["predict", run], args].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Holds the labels of two predictions of the same against each other, and their probabilities but for rounding.
fn assert_alike(found: &[Vec<String>], others: &[Vec<String>]) {
    assert_eq!(found.len(), others.len());
    for (found, other) in found.iter().zip(others) {
        assert_eq!(found[..2], other[..2]);
        let [a, b] = [found, other].map(|it| it[2].parse::<f64>().unwrap());
        assert!((a - b).abs() < 1e-3, "{found:?} {other:?}");
    }
}

/// Writes a tone of 16 bits.
fn tone(path: &Path, hertz: f64, seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds are few samples")]
    let n = (seconds * f64::from(RATE)) as u32;
    let mut bytes = Vec::new();
    for part in [&b"RIFF"[..], &(36 + 2 * n).to_le_bytes(), b"WAVEfmt ", &16_u32.to_le_bytes(), &[1, 0, 1, 0]] {
        bytes.extend_from_slice(part);
    }
    for part in [&RATE.to_le_bytes()[..], &(2 * RATE).to_le_bytes(), &[2, 0, 16, 0], b"data", &(2 * n).to_le_bytes()] {
        bytes.extend_from_slice(part);
    }
    for at in 0..n {
        #[expect(clippy::cast_possible_truncation, reason = "a wave within 16 bits")]
        let value = (9000.0 * (TAU * hertz * f64::from(at) / f64::from(RATE)).sin()) as i16;
        bytes.extend(value.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
    path.display().to_string()
}

/// Trains on low and high tones of different lengths.
fn trained_on_tones(folder: &Path) -> String {
    let data = folder.join("tones");
    fs::create_dir(&data).unwrap();
    let mut labels = "path,label\n".to_owned();
    for n in 0..24 {
        let (label, hertz) = if n % 2 == 0 { ("low", 250.0) } else { ("high", 1500.0) };
        tone(&data.join(format!("{n}.wav")), hertz + 10.0 * f64::from(n), 0.2 + f64::from(n) / 60.0);
        writeln!(labels, "{n}.wav,{label}").unwrap();
    }
    fs::write(data.join("labels.csv"), labels).unwrap();
    let small = ["sequence.heads=2", "sequence.head_width=8", "sequence.blocks=1", "batch.effective_batch_size=12"];
    train("sequence", &data, &folder.join("run"), &[&small[..], &["train.steps=40"]].concat())
}

#[test]
fn recordings_are_named_alike_however_many_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained_on_tones(folder.path());
    let file = |name: &str, hertz, seconds| tone(&folder.path().join(name), hertz, seconds);
    let files = [file("a.wav", 1650.0, 0.9), file("b.wav", 330.0, 0.3), file("c.wav", 350.0, 0.55)];
    let args: Vec<_> = files.iter().map(String::as_str).collect();
    let found = predicted(&run, &args);
    let names: Vec<_> = found.iter().map(|it| (it[0].as_str(), it[1].as_str())).collect();
    assert_eq!(names, [(args[0], "high"), (args[1], "low"), (args[2], "low")], "in the order of the arguments");
    assert_alike(&found, &predicted(&run, &[&args[..], &["--batch-size", "1"]].concat()));
    let both = predicted(&run, &[&args[..], &["--top", "9"]].concat());
    assert!(both.iter().all(|it| it.len() == 5), "there are two labels: {both:?}");
    let sum = both[0][2].parse::<f64>().unwrap() + both[0][4].parse::<f64>().unwrap();
    assert!((sum - 1.0).abs() < 1e-3, "{sum}");
}

#[test]
fn as_many_of_the_held_out_files_are_named_right_as_the_run_has_measured() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sequence");
    let small = ["sequence.heads=1", "sequence.head_width=8", "sequence.blocks=1", "train.steps=12"];
    let run = train("sequence", &data, &folder.path().join("run"), &small);
    let epochs = json(&Path::new(&run).join("epoch_metrics.json"));
    let measured = epochs.as_array().unwrap().last().unwrap()["metric"].as_f64().unwrap();
    let config =
        RecordingsConfig { shares: Shares { validation: 0.2, test: 0.2 }, ..RecordingsConfig::new(data.clone()) };
    let recordings = Recordings::read(&config).unwrap();
    let files: Vec<_> = recordings.validation.iter().map(|it| data.join(&it.name).display().to_string()).collect();
    let found = predicted(&run, &files.iter().map(String::as_str).collect::<Vec<_>>());
    let labels = recordings.validation.iter().map(|it| &recordings.classes[it.class]);
    let n_right = found.iter().zip(labels).filter(|(found, label)| found[1] == **label).count();
    let share = 100.0 * n_right as f64 / files.len() as f64;
    assert!((measured - share).abs() < 1e-9, "{measured} % were measured, {share} % are named right");
    let best = &json(&Path::new(&run).join("checkpoints/best.json"))["step"];
    let output = plimsoll(&["predict", &run, &files[0], "--best"]);
    assert!(text(&output.stderr).contains(&format!("after {best} steps")), "{}", text(&output.stderr));
    fs::remove_file(Path::new(&run).join("checkpoints/best.json")).unwrap();
    refused(&plimsoll(&["predict", &run, &files[0], "--best"]), &["names no checkpoint that was best", "`--best`"]);
}

#[test]
fn what_cannot_be_predicted_is_named_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained_on_tones(folder.path());
    let good = tone(&folder.path().join("good.wav"), 300.0, 0.4);
    let other = |name: &str, content: &str| {
        fs::write(folder.path().join(name), content).unwrap();
        folder.path().join(name).display().to_string()
    };
    let (broken, trace, foreign) = (other("broken.wav", "no sound"), other("a.txt", "1,2,3"), other("a.pdf", ""));
    let predict = |args: &[&str]| plimsoll(&[&["predict", &run], args].concat());
    for (file, parts) in [
        (broken.as_str(), ["broken.wav", "no sound"]),
        (&trace, ["a.txt", "a trace, sound is expected"]),
        (&foreign, ["a.pdf", "its name ends"]),
        ("missing.wav", ["missing.wav", "no such file"]),
    ] {
        let output = predict(&[&good, file]);
        refused(&output, &parts);
        assert!(output.stdout.is_empty(), "nothing was predicted");
    }
    let signature = folder.path().join("run").join("signature.json");
    fs::write(&signature, fs::read_to_string(&signature).unwrap().replace("8000", "10")).unwrap();
    refused(&predict(&[&good]), &["signature.json", "`rate` is 10 Hz"]);
    fs::remove_file(&signature).unwrap();
    refused(&predict(&[&good]), &["signature.json", "a run of `sequence` writes it"]);
    refused(&plimsoll(&["predict", &folder.path().display().to_string(), &good]), &["config.toml"]);
}

/// Draws an image of one colour with some noise.
fn draw(path: &Path, colour: [u8; 3], seed: u32) -> String {
    let pixel = |x: u32, y: u32| {
        let noise = u8::try_from((x * 7 + y * 13 + seed * 5) % 32).unwrap();
        Rgb(colour.map(|it| it.saturating_add(noise)))
    };
    RgbImage::from_fn(48, 40, pixel).save(path).unwrap();
    path.display().to_string()
}

#[test]
fn images_and_lists_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("colours");
    fs::create_dir(&data).unwrap();
    let colours = [("rose", [200, 20, 20]), ("sky", [20, 20, 200])];
    let mut list = String::new();
    for (subject, colour) in colours {
        for n in 0..8 {
            draw(&data.join(format!("{subject}{n}.png")), colour, n);
            let sample = r#"{"task":"single","subjects":["S"],"images":["S#.png"],"text":"a photo of a S"}"#;
            writeln!(list, "{}", sample.replace('S', subject).replace('#', &n.to_string())).unwrap();
        }
    }
    // Of some images of either subject, some are held out.
    let images = |subject: &str| (0..8).map(|n| format!("\"{subject}{n}.png\"")).collect::<Vec<_>>().join(",");
    for _ in 0..8 {
        let (task, subjects) =
            (r#""task":"pair","subjects":["rose","sky"],"counts":[8,8]"#, [images("rose"), images("sky")]);
        writeln!(list, r#"{{{task},"images":[{}],"text":"a rose and a sky"}}"#, subjects.join(",")).unwrap();
    }
    fs::write(data.join("samples.jsonl"), list).unwrap();
    let small = ["multitask.channels=4", "multitask.features=16", "batch.effective_batch_size=16", "train.steps=60"];
    let run = train("multitask", &data, &folder.path().join("run"), &small);
    let [red, blue] = [0, 1].map(|at| draw(&folder.path().join(format!("{at}.png")), colours[at].1, 99));
    let asked = folder.path().join("asked.jsonl");
    let lines = "\u{feff}{\"task\":\"single\",\"images\":[\"1.png\"]}\n\n\
                 {\"task\":\"pair\",\"images\":[\"1.png\",\"0.png\"],\"counts\":[1,1],\"text\":\"a rose and a sky\"}\n";
    fs::write(&asked, lines).unwrap();
    let asked = asked.display().to_string();
    let args = [red.as_str(), &asked, &blue];
    let found = predicted(&run, &args);
    let labels: Vec<_> = found.iter().map(|it| it[1].as_str()).collect();
    assert_eq!(labels, ["rose", "sky", "exchanged", "sky"], "{found:?}");
    assert_eq!([&found[1][0], &found[2][0]], [&format!("{asked}, line 1"), &format!("{asked}, line 3")]);
    assert_alike(&found, &predicted(&run, &[&args[..], &["--batch-size", "1"]].concat()));

    let refuse = |lines: &str, parts: &[&str]| {
        fs::write(&asked, lines).unwrap();
        refused(&plimsoll(&["predict", &run, &red, &asked]), parts);
    };
    refuse("", &["asked.jsonl", "asks nothing"]);
    refuse("{\"task\":\"subject\",\"images\":[\"0.png\"]}", &["line 1", "has not learnt task `subject`"]);
    refuse("{\"task\":\"single\",\"images\":[\"9.png\"]}", &["line 1", "9.png"]);
    refuse("{\"task\":\"pair\",\"images\":[\"0.png\",\"1.png\"],\"counts\":[1,1]}", &["line 1", "a pair has a `text`"]);
    refuse("{\"task\":\"single\"}", &["line 1", "missing field `images`"]);
    // Decoded as a whole.
    let large = draw(&folder.path().join("large.bmp"), [0; 3], 0);
    RgbImage::new(3000, 2500).save(&large).unwrap();
    let tight = ["--capacity", "24MiB"];
    assert_eq!(predicted(&run, &[&[red.as_str()][..], &tight].concat())[0][1], "rose");
    refused(
        &plimsoll(&[&["predict", &run, &large][..], &tight].concat()),
        &["to read the largest file takes", "24.00 MiB"],
    );
}
