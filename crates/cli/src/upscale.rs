//! `plimsoll upscale`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use plimsoll_files::write_whole_with;
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_train::{StopFlag, TrainError, open_device};
use plimsoll_types::Bytes;
use plimsoll_workloads::sr::{Picture, UpscaleError, Upscaler};

use crate::args::UpscaleArgs;
use crate::beat::Beat;
use crate::exit::{describe, signalled, user_error};
use crate::harness::Harness;
use crate::prepare::open_probe;
use crate::signals;
use crate::trained::{self, Forward};
use crate::values::JobName;
use crate::worker;

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
    // The probe starts the device, and says what is missing where it cannot.
    let beat = Beat::start("model");
    let mut probe = open_probe(harness, &settings)?;
    let device = open_device(settings.device, false).map_err(|error| user_error(describe(&error)))?;
    let checkpoint = trained::checkpoint(&args.run)?;
    let upscaler = Upscaler::open(settings.sr().model, &checkpoint, device).map_err(TrainError::from)?;
    drop(beat);
    worker::say_refusals();
    probe.draw_line(None)?;
    let most = args.tile.unwrap_or(settings.sr.validation_tile);
    let tile = tasks.iter().map(|it| it.picture.tile(most)).max().unwrap_or(most);
    // Where tensors are in the memory that files are read into, what that takes is no tile's.
    let on_host = settings.device == DeviceKind::Flex;
    let held = if on_host { hold_what_files_take(&tasks, tile, &*probe)? } else { Vec::new() };
    let n_tiles = tasks.iter().map(|it| it.picture.size().0.div_ceil(tile)).max().unwrap_or(1);
    let blank = |shape| upscaler.blank(shape);
    let tiles = Forward { harness, settings: &settings, items: "tiles", edge: tile, blank: &blank };
    let at_once = tiles.at_once(args.batch_size, n_tiles as usize, &mut *probe)?;
    drop(held);
    probe.draw_line(Some(Bytes::MAX))?;
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
        Ok((picture, to))
    };
    let found: Result<Vec<_>, _> = args.images.iter().map(task).collect();
    Ok(args.images.iter().zip(found?).map(|(from, (picture, to))| Task { from, to, picture }).collect())
}

/// Returns memory that is as large as what the files take at most beside their tiles, or refuses the one that takes too
/// much, before anything is upscaled.
fn hold_what_files_take(tasks: &[Task<'_>], tile: u32, probe: &dyn Probe) -> anyhow::Result<Vec<u8>> {
    let (capacity, in_use) = (probe.capacity()?, probe.read()?.in_use);
    let takes = |it: &Task<'_>| it.picture.needed(tile);
    let Some(largest) = tasks.iter().max_by_key(|it| takes(it)) else { return Ok(Vec::new()) };
    let (needed, (width, height)) = (takes(largest), largest.picture.size());
    let all = in_use.saturating_add(needed);
    if capacity < all {
        let from = largest.from.display();
        return Err(user_error(format!(
            "upscale {from}: its {width} × {height} pixels take {all} to decode and to encode, beside its tiles, and the \
             capacity is {capacity}: give more with `--capacity`"
        ))
        .into());
    }
    Ok(Vec::with_capacity(usize::try_from(needed.0).unwrap_or(usize::MAX)))
}
