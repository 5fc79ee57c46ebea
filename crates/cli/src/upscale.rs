//! `plimsoll upscale`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use plimsoll_files::write_whole_with;
use plimsoll_train::StopFlag;
use plimsoll_workloads::sr::{Picture, UpscaleError, Upscaler};

use crate::args::UpscaleArgs;
use crate::beat::Beat;
use crate::exit::{signalled, user_error};
use crate::harness::Harness;
use crate::signals;
use crate::trained::{self, Files, Forward};
use crate::values::JobName;

/// An image that is there, and what becomes of it.
struct Task<'a> {
    from: &'a Path,
    to: PathBuf,
    picture: Picture,
}

pub(crate) fn run(args: &UpscaleArgs, harness: &dyn Harness) -> anyhow::Result<ExitCode> {
    let wanted = "`sr`, whose models upscale images";
    let settings = trained::settings(&args.run, args.place.flags(), &[JobName::Sr], wanted)?;
    let tasks = tasks(args)?;
    let (mut probe, upscaler) =
        trained::open((&args.run, args.place.best), harness, &settings, |checkpoint, device| {
            Upscaler::open(settings.sr().model, checkpoint, device)
        })?;
    let most = args.tile.unwrap_or(settings.sr.validation_tile);
    let tile = tasks.iter().map(|it| it.picture.tile(most)).max().unwrap_or(most);
    let n_tiles = tasks.iter().map(|it| it.picture.size().0.div_ceil(tile)).max().unwrap_or(1);
    let files = files(&tasks, tile);
    let tiles = Forward { harness, settings: &settings, items: "tiles", extent: tile.into(), model: &upscaler, files };
    let at_once = tiles.at_once(args.batch_size, n_tiles as usize, &mut *probe)?;
    let stop = StopFlag::default();
    signals::watch(&stop)?;
    for (n_done, task) in tasks.iter().enumerate() {
        probe.reset_peak()?;
        if let Some(signal) = upscale(&upscaler, task, (tile, at_once), &stop)? {
            eprintln!("ended       by signal {signal}: {n_done} of {} images are written", tasks.len());
            return Ok(ExitCode::from(signalled(signal)));
        }
        let peak = probe.read()?.peak;
        eprintln!("written     {}, {} of {}, peak {peak}", task.to.display(), n_done + 1, tasks.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Upscales one image; returns the signal that ended it.
fn upscale(upscaler: &Upscaler, task: &Task<'_>, tiles: (u32, u32), stop: &StopFlag) -> anyhow::Result<Option<i32>> {
    let (beat, height) = (Beat::start("upscaling"), task.picture.size().1);
    let mut on_row = |row: u32| {
        beat.at("rows", row as usize, height as usize);
        if stop.signal().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut failed = None;
    let written = write_whole_with(&task.to, |file| {
        upscaler.upscale(&task.picture, tiles, std::io::BufWriter::new(file), &mut on_row).map_err(|error| {
            let text = std::io::Error::other(error.to_string());
            failed = Some(error);
            text
        })
    });
    match failed {
        Some(UpscaleError::Interrupted) => Ok(stop.signal()),
        Some(UpscaleError::Image(fault)) => Err(user_error(format!("upscale {}: {fault}", task.from.display())).into()),
        Some(error) => Err(error).with_context(|| format!("upscale {}", task.from.display())),
        None => written.map(|()| None).with_context(|| format!("write {}", task.to.display())),
    }
}

/// Looks at every image, and at where each result goes, before any is made.
fn tasks(args: &UpscaleArgs) -> anyhow::Result<Vec<Task<'_>>> {
    let out = args.out.display();
    if !args.out.is_dir() {
        return Err(user_error(format!("upscale: `--out {out}` is no folder that is there")).into());
    }
    let mut taken = BTreeSet::new();
    let task = |from: &'_ PathBuf| {
        let picture = Picture::look(from).map_err(|fault| user_error(format!("read {}: {fault}", from.display())))?;
        let name = from.file_stem().unwrap_or_default().to_string_lossy();
        let to = args.out.join(format!("{name}.x2.png"));
        if !taken.insert(to.clone()) {
            return Err(user_error(format!("upscale: two images would become {}: name them apart", to.display())));
        }
        if to.exists() && !args.overwrite {
            let is_there = "it is there already; pass `--overwrite` to replace it, or another folder with `--out`";
            return Err(user_error(format!("upscale: write {}: {is_there}", to.display())));
        }
        Ok((picture, to))
    };
    let found: Result<Vec<_>, _> = args.images.iter().map(task).collect();
    Ok(args.images.iter().zip(found?).map(|(from, (picture, to))| Task { from, to, picture }).collect())
}

/// Returns what decoding and encoding takes at most beside the tiles.
fn files(tasks: &[Task<'_>], tile: u32) -> Files {
    let needed = |it: &Task<'_>| it.picture.needed(tile);
    let Some(largest) = tasks.iter().max_by_key(|it| needed(it)) else { return Files::default() };
    let ((width, height), from) = (largest.picture.size(), largest.from.display());
    Files {
        what: format!("upscale {from}: to decode and to encode its {width} × {height} pixels"),
        needed: needed(largest),
    }
}
