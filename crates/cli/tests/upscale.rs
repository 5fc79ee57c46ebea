//! A trained super-resolution model, put to use.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{json, refused, text};
use image::{Rgb, RgbImage};

fn plimsoll(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).output().unwrap()
}

fn trained(out: &Path) -> String {
    let run = out.display().to_string();
    let small = ["sr.channels=4", "sr.blocks=1", "batch.effective_batch_size=8", "sr.validation_tile=32"];
    let sets: Vec<_> = small.iter().flat_map(|it| ["--set", it]).collect();
    let output = plimsoll(&[&["train", "--out", &run, "--steps", "3"], &sets[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(json(&out.join("training_report.json"))["oom_recoveries"], 0);
    run
}

fn draw(path: &Path, width: u32, height: u32) -> String {
    let pixel = |x: u32, y: u32| Rgb([x, y, x + y].map(|it| u8::try_from(it % 256).unwrap()));
    RgbImage::from_fn(width, height, pixel).save(path).unwrap();
    path.display().to_string()
}

#[test]
fn images_of_any_size_are_upscaled_in_tiles_below_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(&folder.path().join("run"));
    let (wide, tall) = (folder.path().join("wide.png"), folder.path().join("tall.jpg"));
    let images = [draw(&wide, 203, 90), draw(&tall, 41, 333)];
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let to = out.display().to_string();
    // Decoding the largest takes most of what there is, and no tile takes that from it.
    let large = draw(&folder.path().join("large.jpg"), 1600, 1000);
    let tight = plimsoll(&["upscale", &run, &images[0], &large, "--out", &to, "--capacity", "16MiB"]);
    assert!(tight.status.success(), "{}", text(&tight.stderr));
    for name in ["large.x2.png", "wide.x2.png"] {
        fs::remove_file(out.join(name)).unwrap();
    }
    let args = ["upscale", &run, &images[0], &images[1], "--out", &to];
    let output = plimsoll(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| image::open(out.join(name)).unwrap().into_rgb8();
    let found = [read("wide.x2.png"), read("tall.x2.png")];
    assert_eq!(found.each_ref().map(RgbImage::dimensions), [(406, 180), (82, 666)]);
    // How many tiles run at a time changes nothing that can be seen, and neither does the size of a tile.
    refused(&plimsoll(&args), &["wide.x2.png: it is there already", "`--overwrite`"]);
    let few = plimsoll(&[&args[..], &["--batch-size", "1", "--tile", "24", "--overwrite"]].concat());
    assert!(few.status.success(), "{}", text(&few.stderr));
    for (name, before) in ["wide.x2.png", "tall.x2.png"].into_iter().zip(&found) {
        let most = read(name).as_raw().iter().zip(before.as_raw()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(most <= Some(1), "{name} {most:?}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2, "nothing else is left");
    // No more tiles are tried than an image has.
    let many = plimsoll(&[&args[..], &["--batch-size", "100000", "--overwrite"]].concat());
    assert!(many.status.success() && !text(&many.stderr).contains("certain"), "{}", text(&many.stderr));
}

#[test]
fn what_cannot_be_upscaled_is_named_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(&folder.path().join("run"));
    let out = folder.path().join("out");
    fs::create_dir_all(folder.path().join("other")).unwrap();
    fs::create_dir(&out).unwrap();
    let to = out.display().to_string();
    let [image, twin] = ["image.png", "other/image.png"].map(|it| draw(&folder.path().join(it), 40, 40));
    let large = draw(&folder.path().join("large.jpg"), 3000, 2000);
    let broken = folder.path().join("broken.png").display().to_string();
    fs::write(&broken, "no image").unwrap();
    let missing = folder.path().join("missing.png").display().to_string();
    let upscale = |args: &[&str]| plimsoll(&[&["upscale", &run, "--out", &to], args].concat());
    refused(&upscale(&[&image, &broken]), &["broken.png", "no PNG, JPEG, WebP"]);
    refused(&upscale(&[&image, &missing]), &["missing.png", "No such file"]);
    refused(&upscale(&[&image, &twin]), &["image.x2.png", "name them apart"]);
    refused(&upscale(&[&image, &large, "--capacity", "16MiB"]), &["large.jpg", "3000 × 2000", "--capacity"]);
    refused(&plimsoll(&["upscale", &run, &image, "--out", &missing]), &["missing.png", "no folder"]);
    refused(&plimsoll(&["upscale", &to, &image]), &["config.toml"]);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}
