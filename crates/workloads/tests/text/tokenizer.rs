//! From texts to tokens and back.

use std::time::Instant;

use plimsoll_workloads::text::{BOUNDARY, Tokenizer};
use proptest::prelude::{any, proptest};

/// Two million letters and digits in an order without a pattern.
fn letters() -> String {
    let mut state = 1_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"abcdefghijklmnopqrstuvwxyz012345"[(state >> 27) as usize]
    };
    String::from_utf8((0..2_000_000).map(|_| letter()).collect()).unwrap()
}

#[test]
fn two_megabytes_without_a_space_take_no_longer_than_a_few_times_as_many_with_spaces() {
    let without = letters();
    let with: String = (0..).zip(without.chars()).map(|(at, it)| if at % 8 == 7 { ' ' } else { it }).collect();
    let once = |text: &str| {
        let start = Instant::now();
        let tokenizer = Tokenizer::train([text].into_iter(), 1000).unwrap();
        let tokens = tokenizer.encode(text).unwrap();
        let time = start.elapsed();
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        time
    };
    // Of two, the one that other programs held up less.
    let with = once(&with).min(once(&with));
    let is_fast = || once(&without) < 20 * with;
    assert!(is_fast() || is_fast(), "twice more than 20 times {with:?}, which it takes with spaces");
}

#[test]
fn a_vocabulary_out_of_range_is_refused_by_its_key() {
    for vocabulary in [0, 256, 65_536] {
        let error = Tokenizer::train(["text"].into_iter(), vocabulary).unwrap_err().to_string();
        assert!(error.contains(&format!("`text.vocabulary` is {vocabulary}, it must be from 257 to 65535")), "{error}");
    }
}

#[test]
fn a_tokenizer_survives_its_file_and_another_order() {
    let texts = ["the tide is the tide", "a tide, the other tide", "boats on the tide"];
    let tokenizer = Tokenizer::train(texts.into_iter(), 270).unwrap();
    let json = tokenizer.to_json().unwrap();
    let again = Tokenizer::from_json(&json).unwrap();
    assert_eq!(again.to_json().unwrap(), json);
    assert_eq!(Tokenizer::train(texts.into_iter().rev(), 270).unwrap().to_json().unwrap(), json);
    let text = "the <|endoftext|> of the tide";
    let tokens = again.encode(text).unwrap();
    assert_eq!((tokens.clone(), tokens.contains(&BOUNDARY)), (tokenizer.encode(text).unwrap(), false));
    assert_eq!(again.decode(&tokens).unwrap(), text);
    assert!(tokens.len() < text.len());
    assert_eq!(again.decode(&[BOUNDARY, tokens[0], BOUNDARY]).unwrap(), again.decode(&tokens[..1]).unwrap());
    assert!(Tokenizer::from_json("{}").is_err());
}

#[test]
fn a_tokenizer_of_another_make_is_refused() {
    let json = Tokenizer::train(["text"].into_iter(), 257).unwrap().to_json().unwrap();
    let error = Tokenizer::from_json(&json.replace("<|endoftext|>", "<|stop|>")).unwrap_err().to_string();
    assert!(error.contains("`<|endoftext|>` is not the first"), "{error}");
}

proptest! {
    #[test]
    fn any_text_comes_back_from_its_tokens(text in any::<String>(), learnt in any::<String>()) {
        let tokenizer = Tokenizer::train([&*learnt, &*learnt].into_iter(), 280).unwrap();
        let tokens = tokenizer.encode(&text).unwrap();
        assert!(tokens.iter().all(|token| usize::from(*token) < tokenizer.vocabulary()));
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
    }
}
