//! What a model writes, with a cache of what it has read.

use burn::module::Module;
use burn::tensor::Device;
use plimsoll_workloads::text::{BOUNDARY, GenerateError, Generation, Prompt, Sampling, generate};

use crate::{integers, job, model, trained, values};

const GREEDY: Sampling = Sampling { temperature: 0.0, top_k: 0, seed: 0 };

/// Prompts of different lengths.
fn prompts() -> Vec<Prompt> {
    let prompt = |(id, tokens): (u64, &[u16])| Prompt { id, tokens: tokens.to_vec() };
    let tokens: [&[u16]; 3] = [&[0, 7, 290, 31], &[0], &[0, 80, 81, 82, 83, 84, 85]];
    (0..).zip(tokens).map(prompt).collect()
}

#[test]
fn a_cache_gives_the_logits_of_the_whole() {
    let (job, device) = (job(), Device::flex());
    let model = model(&job, &device);
    let tokens: Vec<_> = (0..40).map(|at| at * 37 % 300).collect();
    let whole = values(model.logits(model.forward(integers(&tokens, &device))));
    // In one piece, token by token, in unequal pieces, and behind padding.
    for (n_padding, sizes) in [(0, vec![40]), (0, vec![1; 40]), (0, vec![13, 1, 1, 20, 5]), (6, vec![10, 1, 29])] {
        let mut cache = model.cache(&[n_padding], 48, &device);
        if 0 < n_padding {
            model.extend(integers(&vec![BOUNDARY; n_padding], &device), &mut cache);
        }
        let (mut found, mut start) = (Vec::new(), 0);
        for n in sizes {
            let piece = integers(&tokens[start..start + n], &device);
            found.extend(values(model.logits(model.extend(piece, &mut cache))));
            start += n;
        }
        let difference = found.iter().zip(&whole).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(found.len() == whole.len() && difference < 1e-4, "{n_padding}: {difference:e}");
    }
}

#[test]
fn what_is_written_greedily_is_what_whole_passes_write() {
    let (job, device) = (job(), Device::flex());
    let model = trained(&job, 20, &device.clone().autodiff()).valid();
    let generation = Generation { positions: 48, new_tokens: 32, sampling: GREEDY };
    let found = generate(&model, &prompts(), &generation, &device).unwrap();
    for (prompt, found) in prompts().into_iter().zip(&found) {
        let (mut tokens, start) = (prompt.tokens, found.len());
        for _ in 0..32 {
            let logits = values(model.logits(model.forward(integers(&tokens, &device))));
            let last = &logits[logits.len() / tokens.len() * (tokens.len() - 1)..];
            let best = (0..).zip(last).max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
            tokens.push(best);
            if best == BOUNDARY {
                break;
            }
        }
        let written: Vec<_> = tokens[tokens.len() - start..].to_vec();
        assert!(!found.is_empty() && *found == written, "{found:?} {tokens:?}");
    }
}

#[test]
fn what_is_written_depends_on_seed_and_prompt_but_not_on_the_batch() {
    let (job, device) = (job(), Device::flex());
    let model = model(&job, &device);
    let written = |prompts: &[Prompt], seed| {
        let sampling = Sampling { temperature: 1.0, top_k: 20, seed };
        generate(&model, prompts, &Generation { positions: 40, new_tokens: 24, sampling }, &device).unwrap()
    };
    let together = written(&prompts(), 3);
    let alone: Vec<_> = prompts().iter().flat_map(|it| written(std::slice::from_ref(it), 3)).collect();
    assert_eq!(together, alone);
    assert_ne!(together, written(&prompts(), 4));
    assert!(written(&[], 3).is_empty());
}

#[test]
fn a_prompt_without_room_or_tokens_is_refused_with_the_numbers() {
    let (job, device) = (job(), Device::flex());
    let model = model(&job, &device);
    let refused = |tokens: usize| {
        let prompt = Prompt { id: 9, tokens: vec![1; tokens] };
        let generation = Generation { positions: 16, new_tokens: 8, sampling: GREEDY };
        generate(&model, &[prompt], &generation, &device).unwrap_err()
    };
    assert_eq!(refused(0), GenerateError::Empty(9));
    let error = refused(9).to_string();
    assert!(error.contains("prompt 9: it has 9 tokens") && error.contains("16 positions"), "{error}");
}
