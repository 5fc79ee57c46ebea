//! Settings or state of a predictor in the first line, and in each further one a part that it learns.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::limited;
use plimsoll_predict::{Key, PartReading, Predictor, PredictorConfig};
use plimsoll_types::Bytes;

fn predictor(json: &str) -> Option<Predictor> {
    let of_settings = || Predictor::try_new(serde_json::from_str::<PredictorConfig>(json).ok()?).ok();
    of_settings().or_else(|| serde_json::from_str(json).ok())
}

fuzz_target!(|input: &str| limited(|| {
    let mut lines = input.lines();
    let Some(mut predictor) = lines.next().and_then(predictor) else { return };
    for line in lines.take(50) {
        let Ok((key, part)) = serde_json::from_str::<(Key, PartReading)>(line) else { return };
        drop(predictor.observe_step(&[(key, part)], Bytes::ZERO));
        if let Some(it) = predictor.predict(key, part.shape, part.before) {
            assert!(it.expected <= it.upper, "{it:?}");
        }
        let json = serde_json::to_string(&predictor).expect("a state is plain data");
        let kept: Predictor = serde_json::from_str(&json).expect("what is written is read");
        assert_eq!(kept.predict(key, part.shape, Bytes::ZERO), predictor.predict(key, part.shape, Bytes::ZERO));
    }
}));
