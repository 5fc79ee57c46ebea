//! Settings or state of a policy in the first line, and signals to it in the bytes after: what is kept goes on alike.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::limited;
use plimsoll_policy::{Policy, PolicyConfig, Signal, StepMeasured, StepRefused};
use plimsoll_types::{Budget, Bytes, Prediction, StepShape};

const CAPACITY: Bytes = Bytes::mib(256);

fn policy(json: &[u8]) -> Option<Policy> {
    let of_settings = || Policy::try_new(serde_json::from_slice::<PolicyConfig>(json).ok()?).ok();
    of_settings().or_else(|| serde_json::from_slice(json).ok())
}

/// Some 64 KiB for each sample and length.
fn predict(shape: StepShape) -> Option<Prediction> {
    let need = Bytes::kib(64).saturating_mul(u64::from(shape.samples)).saturating_mul(u64::from(shape.edge()));
    Some(Prediction { expected: need, upper: need })
}

fn signal(policy: &Policy, step: u64, byte: u8) -> Signal {
    let (knobs, budget) = (policy.knobs(), Budget { capacity: CAPACITY, budget: Bytes::mib(1 + u64::from(byte)) });
    match byte % 4 {
        0 => Signal::OutOfMemory(StepRefused { step, knobs, shape: knobs.shape(), in_parts: byte < 128 }),
        1 => Signal::BudgetChanged { step, budget },
        _ => {
            Signal::Done(StepMeasured { step, knobs, is_divided: byte < 8, highest: None, peak: budget.budget, budget })
        }
    }
}

fuzz_target!(|input: &[u8]| limited(|| {
    let end = input.iter().position(|it| *it == b'\n').unwrap_or(input.len());
    let Some(mut policy) = policy(&input[..end]) else { return };
    for (step, byte) in (0..).zip(input[end..].iter().take(200)) {
        let json = serde_json::to_string(&policy).expect("a state is plain data");
        let mut kept: Policy = serde_json::from_str(&json).expect("what is written is read");
        let signal = signal(&policy, step, *byte);
        assert_eq!(policy.on_signal(&signal, &predict), kept.on_signal(&signal, &predict));
        drop((policy.knobs(), policy.batch_sizes().map(<[u32]>::len), policy.ladder().cloned()));
    }
}));
