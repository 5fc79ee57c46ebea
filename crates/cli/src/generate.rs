//! `plimsoll generate`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use plimsoll_workloads::text::{BOUNDARY, Generation, Prompt, Sampling, Tokenizer, Writer};

use crate::args::GenerateArgs;
use crate::exit::{describe, user_error};
use crate::harness::Harness;
use crate::jobs::TOKENIZER_FILE;
use crate::trained::{self, Files, Forward, in_batches};
use crate::values::JobName;

pub(crate) fn run(args: &GenerateArgs, harness: &dyn Harness) -> anyhow::Result<ExitCode> {
    let settings =
        trained::settings(&args.run, args.place.flags(), &[JobName::Text], "`text`, whose models continue texts")?;
    let tokenizer = tokenizer(&args.run)?;
    let prompts = prompts(args, &tokenizer)?;
    let longest = prompts.iter().map(|it| it.tokens.len()).max().unwrap_or(0);
    let positions = u32::try_from(longest).unwrap_or(u32::MAX).saturating_add(args.max_tokens);
    let sampling = Sampling { temperature: args.temperature, top_k: args.top_k, seed: args.seed };
    let generation = Generation { positions, new_tokens: args.max_tokens, sampling };
    let (mut probe, writer) = trained::open((&args.run, args.place.best), harness, &settings, |checkpoint, device| {
        Writer::open(settings.gpt(), tokenizer.vocabulary(), checkpoint, device)
    })?;
    let files = Files::default();
    let texts =
        Forward { harness, settings: &settings, items: "texts", extent: positions.into(), model: &writer, files };
    let batch = texts.at_once(args.batch_size, prompts.len(), &mut *probe)?;
    let start = Instant::now();
    let lengths: Vec<_> = prompts.iter().map(|it| u32::try_from(it.tokens.len()).unwrap_or(u32::MAX).into()).collect();
    let write = |chunk: &[usize]| {
        let together: Vec<_> = chunk.iter().map(|at| prompts[*at].clone()).collect();
        Ok(writer.write(&together, &generation)?)
    };
    let on_done = |n_done, peak, texts: &[Option<Vec<u16>>]| {
        let n_tokens: usize = texts.iter().flatten().map(Vec::len).sum();
        let rate = n_tokens as f64 / start.elapsed().as_secs_f64();
        eprintln!("written     {n_done} of {} texts, {rate:.1} tokens/s, peak {peak}", prompts.len());
    };
    let texts = in_batches(&mut *probe, ("texts", "writing"), (&lengths, batch), write, on_done)?;
    for (prompt, tokens) in prompts.iter().zip(&texts) {
        println!("{}{}\n", tokenizer.decode(&prompt.tokens[1..])?, tokenizer.decode(tokens)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn tokenizer(run: &Path) -> anyhow::Result<Tokenizer> {
    let tokenizer = Tokenizer::from_json(&trained::file(run, TOKENIZER_FILE, JobName::Text)?);
    let failed = |error| user_error(format!("read {}: {}", run.join(TOKENIZER_FILE).display(), describe(&error)));
    Ok(tokenizer.map_err(failed)?)
}

/// Returns the prompts of the flags and of the file, each as the beginning of a section.
fn prompts(args: &GenerateArgs, tokenizer: &Tokenizer) -> anyhow::Result<Vec<Prompt>> {
    let mut texts = args.prompt.clone();
    if let Some(path) = &args.prompts {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        texts.extend(text.trim_start_matches('\u{feff}').lines().map(str::to_owned));
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
