//! `plimsoll generate`.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use plimsoll_finder::FinderConfig;
use plimsoll_plan::PlanError;
use plimsoll_probe::Probe;
use plimsoll_train::{CONFIG_FILE, Checkpoint, TrainError, Tried, open_device, sound_forward};
use plimsoll_types::{Bytes, Fraction, StepShape};
use plimsoll_workloads::text::{BOUNDARY, Generation, Prompt, Sampling, Tokenizer, Writer};

use crate::args::GenerateArgs;
use crate::exit::{describe, user_error};
use crate::find::{need, shown};
use crate::jobs::TOKENIZER_FILE;
use crate::load::Layers;
use crate::prepare::open_probe;
use crate::settings::Settings;
use crate::values::JobName;
use crate::worker;

pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    let config = args.run.join(CONFIG_FILE);
    let layers = Layers { files: vec![config], sets: args.sets() };
    let settings = layers.load()?.settings;
    if settings.job != JobName::Text {
        let run = args.run.display();
        return Err(user_error(format!("generate: {run} is no run of `text`, whose models continue texts")).into());
    }
    let tokenizer = tokenizer(&args.run)?;
    let prompts = prompts(args, &tokenizer)?;
    let longest = prompts.iter().map(|it| it.tokens.len()).max().unwrap_or(0);
    let positions = u32::try_from(longest).unwrap_or(u32::MAX).saturating_add(args.max_tokens);
    let sampling = Sampling { temperature: args.temperature, top_k: args.top_k, seed: args.seed };
    let generation = Generation { positions, new_tokens: args.max_tokens, sampling };
    let writer = open(&settings, &args.run, &tokenizer)?;
    worker::say_refusals();
    let mut probe = open_probe(&settings)?;
    probe.draw_line(None)?;
    let certain = sound(&writer, &settings, StepShape::new(args.batch_size.unwrap_or(1), positions), &mut *probe)?;
    let batch = match args.batch_size {
        Some(_) => certain,
        None => find_batch(&writer, &settings, positions, prompts.len())?,
    };
    probe.draw_line(Some(Bytes::MAX))?;
    let texts = write(&writer, &mut *probe, &prompts, &generation, batch as usize)?;
    for (prompt, tokens) in prompts.iter().zip(&texts) {
        println!("{}{}\n", tokenizer.decode(&prompt.tokens[1..])?, tokenizer.decode(tokens)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn open(settings: &Settings, run: &Path, tokenizer: &Tokenizer) -> anyhow::Result<Writer> {
    // The probe starts the device, and says what is missing where it cannot.
    open_probe(settings)?;
    let device = open_device(settings.device, false).map_err(|error| user_error(describe(&error)))?;
    let checkpoint = Checkpoint::of_any(run).map_err(TrainError::from)?;
    for damage in &checkpoint.passed_over {
        eprintln!("warning: passed over a damaged checkpoint: {damage}");
    }
    let writer = Writer::open(settings.gpt(), tokenizer.vocabulary(), &checkpoint, device);
    eprintln!("model       {} after {} steps", run.display(), checkpoint.state.step);
    Ok(writer.map_err(TrainError::from)?)
}

/// Returns how many texts of so many, of these positions, are certain to fit at a time: one at least.
fn sound(writer: &Writer, settings: &Settings, texts: StepShape, probe: &mut dyn Probe) -> anyhow::Result<u32> {
    let bound = (settings.predictor(), settings.memory.target);
    match sound_forward(settings.device, texts, bound, probe, &mut |shape| writer.blank(shape)) {
        Ok(()) => Ok(texts.samples),
        Err(PlanError::OutOfReach { largest: (largest, peak), .. }) if largest.edge() == texts.edge() => {
            let (n, wanted) = (largest.samples, texts.samples);
            eprintln!("warning: {wanted} texts at a time are not certain to fit: {n} at a time, which reached {peak}");
            Ok(n)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns how many texts fit at a time.
fn find_batch(writer: &Writer, settings: &Settings, positions: u32, n_prompts: usize) -> anyhow::Result<u32> {
    let finder = FinderConfig {
        edge: positions,
        batch_min: 1,
        batch_max: u32::try_from(n_prompts).unwrap_or(u32::MAX),
        target: settings.memory.target,
        // The bound is certain, and the last text alone would be a batch of its own.
        batch_reduction: Fraction::ZERO,
        ..FinderConfig::default()
    };
    let mut probe = open_probe(settings)?;
    let mut on_tried = |it: &Tried| eprintln!("tried       {}", shown(it));
    let found = writer.find_batch(settings.device, finder, &mut *probe, &mut on_tried)?;
    eprintln!("batch       {} found: {}", found.batch, need(&found));
    Ok(found.batch)
}

/// Writes on from all prompts, those of like length together.
fn write(
    writer: &Writer,
    probe: &mut dyn Probe,
    prompts: &[Prompt],
    generation: &Generation,
    batch: usize,
) -> anyhow::Result<Vec<Vec<u16>>> {
    let (start, mut peak, mut n_done) = (Instant::now(), Bytes::ZERO, 0);
    let mut ordered: Vec<_> = (0..prompts.len()).collect();
    ordered.sort_by_key(|at| prompts[*at].tokens.len());
    let mut texts = vec![Vec::new(); prompts.len()];
    let mut waiting: VecDeque<&[usize]> = ordered.chunks(batch).collect();
    while let Some(chunk) = waiting.pop_front() {
        probe.reset_peak()?;
        let together: Vec<_> = chunk.iter().map(|at| prompts[*at].clone()).collect();
        let written = writer.write(&together, generation)?;
        let now = probe.read()?.peak;
        if probe.capacity()? < now {
            let (capacity, n) = (probe.capacity()?, chunk.len());
            if n == 1 {
                return Err(user_error(format!("generate: one text needs {now}, the capacity is {capacity}")).into());
            }
            eprintln!("warning: {n} texts at a time need {now}, above the capacity of {capacity}: in halves again");
            let (first, second) = chunk.split_at(n / 2);
            waiting.push_front(second);
            waiting.push_front(first);
            continue;
        }
        for (at, tokens) in chunk.iter().zip(written) {
            texts[*at] = tokens;
        }
        peak = peak.max(now);
        n_done += chunk.len();
        let (seconds, n_tokens) = (start.elapsed().as_secs_f64(), texts.iter().map(Vec::len).sum::<usize>());
        let rate = n_tokens as f64 / seconds;
        eprintln!("written     {n_done} of {} texts, {rate:.1} tokens/s, peak {peak}", prompts.len());
    }
    Ok(texts)
}

fn tokenizer(run: &Path) -> anyhow::Result<Tokenizer> {
    let path = run.join(TOKENIZER_FILE);
    let json = fs::read_to_string(&path)
        .map_err(|error| user_error(format!("read {}: {error}; a run of `text` writes it", path.display())))?;
    let tokenizer = Tokenizer::from_json(&json);
    Ok(tokenizer.map_err(|error| user_error(format!("read {}: {}", path.display(), describe(&error))))?)
}

/// Returns the prompts of the flags and of the file, each as the beginning of a section.
fn prompts(args: &GenerateArgs, tokenizer: &Tokenizer) -> anyhow::Result<Vec<Prompt>> {
    let mut texts = args.prompt.clone();
    if let Some(path) = &args.prompts {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        texts.extend(text.lines().map(str::to_owned));
    }
    if texts.is_empty() {
        return Err(
            user_error("generate: there is no prompt; give one with `--prompt TEXT` or `--prompts FILE`").into()
        );
    }
    let encode = |(id, text): (u64, &String)| {
        let tokens = [vec![BOUNDARY], tokenizer.encode(text)?].concat();
        Ok(Prompt { id, tokens })
    };
    (0..).zip(&texts).map(encode).collect()
}

impl GenerateArgs {
    /// Returns the values of the configuration that the flags name.
    fn sets(&self) -> Vec<String> {
        let named = [("memory.capacity", &self.capacity), ("device", &self.device)];
        let set = |(key, value): (&str, &Option<String>)| Some(format!("{key}=\"{}\"", value.as_ref()?));
        named.into_iter().filter_map(set).collect()
    }
}
