//! `plimsoll generate`.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use plimsoll_probe::Probe;
use plimsoll_train::{TrainError, open_device};
use plimsoll_types::Bytes;
use plimsoll_workloads::text::{BOUNDARY, Generation, Prompt, Sampling, Tokenizer, Writer};

use crate::args::GenerateArgs;
use crate::beat::Beat;
use crate::exit::{describe, user_error};
use crate::jobs::TOKENIZER_FILE;
use crate::prepare::open_probe;
use crate::trained::{self, Forward};
use crate::values::JobName;
use crate::worker;

pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    let settings =
        trained::settings(&args.run, args.place.flags(), JobName::Text, "`text`, whose models continue texts")?;
    let tokenizer = tokenizer(&args.run)?;
    let prompts = prompts(args, &tokenizer)?;
    let longest = prompts.iter().map(|it| it.tokens.len()).max().unwrap_or(0);
    let positions = u32::try_from(longest).unwrap_or(u32::MAX).saturating_add(args.max_tokens);
    let sampling = Sampling { temperature: args.temperature, top_k: args.top_k, seed: args.seed };
    let generation = Generation { positions, new_tokens: args.max_tokens, sampling };
    // The probe starts the device, and says what is missing where it cannot.
    let mut probe = open_probe(&settings)?;
    let device = open_device(settings.device, false).map_err(|error| user_error(describe(&error)))?;
    let checkpoint = trained::checkpoint(&args.run)?;
    let writer = Writer::open(settings.gpt(), tokenizer.vocabulary(), &checkpoint, device);
    let writer = writer.map_err(TrainError::from)?;
    worker::say_refusals();
    probe.draw_line(None)?;
    let blank = |shape| writer.blank(shape);
    let texts = Forward { settings: &settings, items: "texts", edge: positions, blank: &blank };
    let batch = texts.at_once(args.batch_size, prompts.len(), &mut *probe)?;
    probe.draw_line(Some(Bytes::MAX))?;
    let texts = write(&writer, &mut *probe, &prompts, &generation, batch as usize)?;
    for (prompt, tokens) in prompts.iter().zip(&texts) {
        println!("{}{}\n", tokenizer.decode(&prompt.tokens[1..])?, tokenizer.decode(tokens)?);
    }
    Ok(ExitCode::SUCCESS)
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
    let beat = Beat::start("writing");
    while let Some(chunk) = waiting.pop_front() {
        probe.reset_peak()?;
        let together: Vec<_> = chunk.iter().map(|at| prompts[*at].clone()).collect();
        beat.at("texts", n_done, prompts.len());
        let written = writer.write(&together, generation)?;
        beat.clear();
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
