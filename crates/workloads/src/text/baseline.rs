//! What a language model must beat: how frequent each token is, and how frequent it is after the one before it.

use std::collections::HashMap;

use super::tokenized::Sections;

/// One of so many training sections is held out to find the weights of the bigram by.
const HELD_OUT: u32 = 10;
/// Tokens that are enough for that.
const ENOUGH: usize = 1 << 18;
/// Rounds after which the weights change no more that anybody would see.
const ROUNDS: usize = 50;
/// Contexts that are as frequent, to a factor of two, have one weight; and those that are never seen.
const BUCKETS: usize = u64::BITS as usize + 1;

/// Two models that are only counts of training tokens: a unigram, and a bigram that is interpolated with it.
///
/// `p(w | v) = λ c(v, w) / c(v) + (1 − λ) p(w)`, where `p(w)` counts each token once more than it occurs, and `λ` depends on
/// how frequent `v` is.
///
/// # Sources
///
/// Jelinek and Mercer, "Interpolated Estimation of Markov Source Parameters from Sparse Data", 1980, whose weights maximise
/// the likelihood of text that is not counted, by expectation maximisation; here of every tenth training section, which is
/// counted with the others afterwards.
pub(crate) struct Baselines {
    counts: Counts,
    weights: [f64; BUCKETS],
}

/// Nats that each of the two takes for some tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Nats {
    pub(crate) unigram: f64,
    pub(crate) bigram: f64,
}

/// How often tokens, and pairs of them, occur.
struct Counts {
    /// Each once more than it occurs as a target.
    tokens: Vec<u64>,
    n_tokens: u64,
    contexts: Vec<u64>,
    /// Of the pairs that are asked for, and no others.
    pairs: HashMap<[u16; 2], u64>,
}

impl Baselines {
    /// Counts a training set for what `held_out` asks.
    pub(crate) fn of<'a>(train: &Sections, held_out: impl Iterator<Item = &'a Sections>, vocabulary: usize) -> Self {
        let (fitted, tuning): (Vec<u32>, Vec<u32>) = (0..).take(train.len()).partition(|id| !is_tuned_by(*id, train));
        let mut counts = Counts::new(vocabulary);
        let tuned_by = || tuning.iter().flat_map(|id| pairs(train.predicted(*id))).take(ENOUGH);
        counts.ask(tuned_by());
        held_out.for_each(|it| (0..).take(it.len()).for_each(|id| counts.ask(pairs(it.predicted(id)))));
        for id in &fitted {
            counts.add(train.predicted(*id));
        }
        let weights = tuned(&tuned_by().map(|pair| counts.guess(pair)).collect::<Vec<_>>());
        for id in &tuning {
            counts.add(train.predicted(*id));
        }
        Self { counts, weights }
    }

    /// Returns what the tokens of a section take that was asked for, all but its first.
    pub(crate) fn nats(&self, section: &[u16]) -> Nats {
        let mut nats = Nats::default();
        for guess in pairs(section).map(|pair| self.counts.guess(pair)) {
            nats.unigram -= guess.unigram.ln();
            nats.bigram -= guess.interpolated(self.weights[guess.bucket]).ln();
        }
        nats
    }
}

/// Whether a training section is one that the weights are found by.
fn is_tuned_by(id: u32, train: &Sections) -> bool {
    let n = u32::try_from(train.len()).unwrap_or(u32::MAX);
    // Of fewer, the last one.
    if HELD_OUT <= n { id % HELD_OUT == HELD_OUT - 1 } else { 1 < n && id + 1 == n }
}

/// Returns each token of a section after the one before it.
fn pairs(section: &[u16]) -> impl Iterator<Item = [u16; 2]> {
    section.windows(2).map(|it| [it[0], it[1]])
}

/// What is known of a token after another.
#[derive(Clone, Copy)]
struct Guess {
    bucket: usize,
    unigram: f64,
    /// How often it is this token that follows.
    bigram: f64,
}

impl Guess {
    fn interpolated(self, weight: f64) -> f64 {
        weight * self.bigram + (1.0 - weight) * self.unigram
    }
}

impl Counts {
    fn new(vocabulary: usize) -> Self {
        let (tokens, contexts) = (vec![1; vocabulary], vec![0; vocabulary]);
        Self { tokens, n_tokens: vocabulary as u64, contexts, pairs: HashMap::new() }
    }

    fn ask(&mut self, pairs: impl Iterator<Item = [u16; 2]>) {
        self.pairs.extend(pairs.map(|pair| (pair, 0)));
    }

    fn add(&mut self, section: &[u16]) {
        for pair in pairs(section) {
            let [context, token] = pair.map(usize::from);
            self.tokens[token] += 1;
            self.n_tokens += 1;
            self.contexts[context] += 1;
            self.pairs.entry(pair).and_modify(|n| *n += 1);
        }
    }

    fn guess(&self, pair: [u16; 2]) -> Guess {
        let [context, token] = pair.map(usize::from);
        let n = self.contexts[context];
        let bigram = if n == 0 { 0.0 } else { self.pairs.get(&pair).copied().unwrap_or(0) as f64 / n as f64 };
        Guess { bucket: bucket(n), unigram: self.tokens[token] as f64 / self.n_tokens as f64, bigram }
    }
}

/// Returns 0 for what was never seen, and else one more than the binary logarithm.
fn bucket(n: u64) -> usize {
    n.checked_ilog2().map_or(0, |it| it as usize + 1)
}

/// Finds the weight of each bucket under which some guesses are most probable; a bucket without any has that of the next
/// rarer one.
fn tuned(guesses: &[Guess]) -> [f64; BUCKETS] {
    let mut weights = [0.0; BUCKETS];
    for bucket in 1..BUCKETS {
        let of_bucket: Vec<_> = guesses.iter().filter(|it| it.bucket == bucket).collect();
        // Nothing is known of the first: an even chance.
        let before = if bucket == 1 { 0.5 } else { weights[bucket - 1] };
        weights[bucket] = if of_bucket.is_empty() { before } else { most_probable(&of_bucket) };
    }
    weights
}

/// Expectation maximisation: how probable it is of each guess that the bigram made it, and the mean of that.
///
/// Never 1, though every pair was seen: one that was not is not impossible.
fn most_probable(guesses: &[&Guess]) -> f64 {
    let (n, most) = (guesses.len() as f64, 1.0 - 1.0 / (guesses.len() as f64 + 2.0));
    (0..ROUNDS).fold(0.5, |weight: f64, _| {
        let of_bigram = guesses.iter().map(|it| weight * it.bigram / it.interpolated(weight));
        (of_bigram.sum::<f64>() / n).min(most)
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::Admit;

    use super::*;
    use crate::outside::Gate;
    use crate::text::documents::Section;
    use crate::text::{Cut, Tokenizer};
    use crate::watch::unwatched;

    /// Sections of bytes, of which each is a token.
    fn sections(texts: &[&str]) -> (Sections, usize) {
        let tokenizer = Tokenizer::train(std::iter::empty(), 257).unwrap();
        let mut gate = Gate::new(Admit::default(), "tokens");
        let texts: Vec<_> = texts.iter().map(|text| Section { source: 0, document: 0, text }).collect();
        let cut = Cut { longest: 64, overlap: 0 };
        (Sections::try_new(&tokenizer, &texts, cut, &mut gate, &mut unwatched).unwrap(), tokenizer.vocabulary())
    }

    fn sum(baselines: &Baselines, of: &Sections) -> Nats {
        let all = (0..).take(of.len()).map(|id| baselines.nats(of.predicted(id)));
        all.fold(Nats::default(), |sum, it| Nats { unigram: sum.unigram + it.unigram, bigram: sum.bigram + it.bigram })
    }

    #[test]
    fn they_are_what_a_hand_computes() {
        // Trained on "aab" and "ab": of 7 targets and 257 more counts, 3 are a and 2 are b, and 2 end a section.
        let ((train, n), (held, _)) = (sections(&["aab", "ab"]), sections(&["ab"]));
        let baselines = Baselines::of(&train, [&held].into_iter(), n);
        let [a, b, end] = [4.0, 3.0, 3.0].map(|it| it / 264.0);
        let nats = sum(&baselines, &held);
        assert!((nats.unigram + f64::ln(a * b * end)).abs() < 1e-12, "{nats:?}");
        // The beginning is seen 2 times, a 3 times and b 2 times: all have the weight of the bucket from 2 to 3.
        let weight = baselines.weights[bucket(2)];
        let mixed = |of_pair: f64, alone: f64| weight * of_pair + (1.0 - weight) * alone;
        let expected = mixed(1.0, a) * mixed(2.0 / 3.0, b) * mixed(1.0, end);
        assert!((nats.bigram + expected.ln()).abs() < 1e-12, "{nats:?} {weight}");
    }

    #[test]
    fn the_probabilities_of_all_tokens_add_up_to_one() {
        let (train, n) = sections(&["the tide comes in", "the tide goes out", "a boat", "the harbour"]);
        let all: Vec<u16> = (0..).take(n).collect();
        for context in [0, train.piece(0)[1], train.piece(0)[3], 7] {
            // Each token after this one, as sections of two.
            let mut counts = Counts::new(n);
            counts.ask(all.iter().map(|token| [context, *token]));
            (0..).take(train.len()).for_each(|id| counts.add(train.predicted(id)));
            let of = |token: &u16| counts.guess([context, *token]);
            let weight = if of(&0).bucket == 0 { 0.0 } else { 0.7 };
            let total: f64 = all.iter().map(|token| of(token).interpolated(weight)).sum();
            assert!((total - 1.0).abs() < 1e-9, "{context}: {total}");
        }
    }

    #[test]
    fn the_weights_are_those_under_which_the_held_out_part_is_most_probable() {
        let guess = |unigram: f64, bigram: f64| Guess { bucket: 3, unigram, bigram };
        let guesses = [guess(0.1, 0.8), guess(0.1, 0.0), guess(0.2, 0.3), guess(0.05, 0.4)];
        let weight = tuned(&guesses)[3];
        let nats = |weight: f64| -guesses.iter().map(|it| it.interpolated(weight).ln()).sum::<f64>();
        assert!((0.05..0.95).contains(&weight), "{weight}");
        assert!([-0.02, 0.02].iter().all(|off| nats(weight) < nats(weight + off)), "{weight}");
        // What is more frequent and was not seen there has the same, and what was never seen has none.
        assert_eq!((tuned(&guesses)[7].to_bits(), tuned(&guesses)[0]), (weight.to_bits(), 0.0));
    }

    #[test]
    fn a_text_in_which_tokens_follow_from_others_is_better_known_by_pairs() {
        let texts: Vec<_> = (0..40).map(|at| ["tide", "boat", "harbour", "sail"][at % 4].repeat(1 + at % 3)).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let ((train, n), (held, _)) = (sections(&texts), sections(&["boattide"]));
        let nats = sum(&Baselines::of(&train, [&held].into_iter(), n), &held);
        assert!(nats.bigram < 0.7 * nats.unigram, "{nats:?}");
    }
}
