//! Valid inputs, damaged.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// The longest input in bytes; longer ones only cost time.
const LONGEST: usize = 128 << 10;
/// Damaged inputs that were accepted and are damaged further.
const POOL: usize = 200;

/// Numbers at the edges of what types hold.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "-0.0",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e999",
    "5e-324",
    "NaN",
];

/// What breaks readers of text.
const SHARDS: [&[u8]; 14] =
    [b"\"", b"'", b"\\", b"{", b"}", b"[", b"]", b",", b"\n", b"\0", b"\xff\xfe", b"\xc3", b"\\ud800", b"\xef\xbb\xbf"];

/// Makes damaged inputs without end, the same for the same seed.
pub(super) struct Mutator {
    random: Random,
    corpus: Vec<Vec<u8>>,
    n_valid: usize,
    words: &'static [&'static str],
}

impl Mutator {
    pub(super) fn new(seed: u64, corpus: Vec<Vec<u8>>, words: &'static [&'static str]) -> Self {
        let n_valid = corpus.len();
        Self { random: Random(SplitMix64::seed_from_u64(seed)), corpus, n_valid, words }
    }

    /// Damages an input further from now on.
    pub(super) fn keep(&mut self, accepted: Vec<u8>) {
        let (full, at) = (self.corpus.len() == self.n_valid + POOL, self.n_valid + self.random.below(POOL));
        match (full, self.random.below(8)) {
            (false, _) => self.corpus.push(accepted),
            (true, 0) => self.corpus[at] = accepted,
            _ => (),
        }
    }

    /// Returns the next input.
    pub(super) fn input(&mut self) -> Vec<u8> {
        let mut input = self.other();
        for _ in 0..=(self.random.below(4) * self.random.below(3)) {
            self.damage(&mut input);
            input.truncate(LONGEST);
        }
        input
    }

    fn other(&mut self) -> Vec<u8> {
        let at = self.random.below(self.corpus.len());
        self.corpus[at].clone()
    }

    fn damage(&mut self, input: &mut Vec<u8>) {
        let (at, range) = (self.random.below(input.len() + 1), self.random.range(input.len()));
        match self.random.below(13) {
            0 => self.change_byte(input, |byte, random| byte ^ (1 << (random % 8))),
            1 => self.change_byte(input, |_, random| random.to_le_bytes()[0]),
            2 => input.truncate(at),
            3 => drop(input.drain(range)),
            4 => {
                let part = input[range].to_vec();
                insert(input, at, &part);
            }
            5 => self.splice(input, at),
            6 => self.change_lines(input),
            7 | 8 => self.change_number(input),
            9 => self.change_binary_number(input),
            10 => insert(input, at, self.random.pick::<&[u8]>(&SHARDS)),
            11 => insert(input, at, self.random.pick(self.words).as_bytes()),
            _ => self.nest(input, at),
        }
    }

    fn change_byte(&mut self, input: &mut [u8], change: impl Fn(u8, u64) -> u8) {
        let (at, random) = (self.random.below(input.len()), self.random.0.next_u64());
        if let Some(byte) = input.get_mut(at) {
            *byte = change(*byte, random);
        }
    }

    /// Goes on with a part of another input.
    fn splice(&mut self, input: &mut Vec<u8>, at: usize) {
        let other = self.other();
        input.truncate(at);
        input.extend_from_slice(&other[self.random.range(other.len())]);
    }

    /// Deletes, doubles or exchanges lines.
    fn change_lines(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<_> = input.split_inclusive(|byte| *byte == b'\n').collect();
        let (a, b) = (self.random.below(lines.len()), self.random.below(lines.len()));
        match self.random.below(3) {
            _ if lines.is_empty() => (),
            0 => drop(lines.remove(a)),
            1 => lines.insert(b, lines[a]),
            _ => lines.swap(a, b),
        }
        *input = lines.concat();
    }

    /// Writes another number over one in the text.
    fn change_number(&mut self, input: &mut Vec<u8>) {
        let from = self.random.below(input.len());
        let Some(at) = input[from..].iter().position(u8::is_ascii_digit).map(|it| from + it) else { return };
        let end = input[at..].iter().position(|it| !b"0123456789.eE+-".contains(it)).map_or(input.len(), |it| at + it);
        let number = self.random.pick(&NUMBERS).bytes();
        drop(input.splice(at..end, number));
    }

    /// Writes a number over a field of a binary head, where such are most often.
    fn change_binary_number(&mut self, input: &mut [u8]) {
        let number = self.random.pick(&[0, 1, 2, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX]);
        let width = *self.random.pick(&[2, 4]);
        let at = self.random.below(input.len().min(64));
        for (byte, new) in input.iter_mut().skip(at).zip(number.to_le_bytes()).take(width) {
            *byte = new;
        }
    }

    /// Opens a bracket more often than anybody closes it.
    fn nest(&mut self, input: &mut Vec<u8>, at: usize) {
        let brackets: [&[u8]; 7] = [b"[", b"{\"a\":", b"[[", b"a.", b"{a=", b"\"", b"a,"];
        let bracket = *self.random.pick(&brackets);
        insert(input, at, &bracket.repeat(1 << self.random.below(14)));
    }
}

fn insert(input: &mut Vec<u8>, at: usize, part: &[u8]) {
    drop(input.splice(at..at, part.iter().copied()));
}

struct Random(SplitMix64);

impl Random {
    /// A number below `n`, or 0.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.0.next_u64() % (n as u64).max(1)).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A part of something of this length.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        // Most parts are short, so that something is left of the input.
        let most = if self.below(4) == 0 { length } else { 40 };
        start..(start + self.below(most + 1)).min(length)
    }
}
