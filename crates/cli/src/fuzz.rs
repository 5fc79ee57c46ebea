//! Damaged input for every reader: an error is an answer, a panic, a hang or much memory is none.
//!
//! The tests live in the library, whose allocator counts what a reader takes.
//! Without variables each reader gets few inputs, always the same.
//!
//! * `PLIMSOLL_FUZZ_SECONDS` is for how long each is fuzzed instead, `PLIMSOLL_FUZZ_SEED` with what seed.
//! * `PLIMSOLL_FUZZ_INPUT` names one file to read instead, such as a finding in `target/fuzz/`, or
//!   `plimsoll-fuzz-READER.bin` in the folder for temporary files, which is the input that ended the program.

mod limits;
mod mutator;
mod readers;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::limits::attempt;
use self::mutator::Mutator;
use self::tally::Tally;

/// Inputs of an ordinary test run, which should stay well under a second.
const FEW: u64 = 150;

/// A reader that is under test.
struct Reader<'a> {
    name: &'static str,
    /// Inputs that it accepts.
    corpus: Vec<Vec<u8>>,
    /// What its inputs are made of.
    words: &'static [&'static str],
    /// Reads an input, and says whether it was accepted.
    read: &'a mut dyn FnMut(&[u8]) -> bool,
}

/// One reader at a time: the peak is that of the whole program.
static ALONE: Mutex<()> = Mutex::new(());

impl Reader<'_> {
    /// Fails with the first input that panics, takes too long or takes too much.
    fn fuzz(mut self) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = std::env::var_os("PLIMSOLL_FUZZ_INPUT") {
            self.try_one(&std::fs::read(path).unwrap(), &mut Tally::default());
            return;
        }
        let mut tally = Tally::default();
        for valid in self.corpus.clone() {
            let text = String::from_utf8_lossy(&valid).into_owned();
            assert!(self.try_one(&valid, &mut tally), "{} refuses what it should read: {text}", self.name);
        }
        self.fuzz_for(number("PLIMSOLL_FUZZ_SECONDS").map(Duration::from_secs), &mut tally);
        tally.write(&folder().join(format!("{}.json", self.name)), self.name);
    }

    fn fuzz_for(&mut self, time: Option<Duration>, tally: &mut Tally) {
        let mut mutator = Mutator::new(number("PLIMSOLL_FUZZ_SEED").unwrap_or(0), self.corpus.clone(), self.words);
        let began = Instant::now();
        while time.map_or(tally.inputs() < FEW, |time| began.elapsed() < time) {
            let input = mutator.input();
            if self.try_one(&input, tally) {
                mutator.keep(input);
            }
        }
        tally.seconds = began.elapsed().as_secs_f64();
    }

    fn try_one(&mut self, input: &[u8], tally: &mut Tally) -> bool {
        // Nothing is told of an input that ends the program: its file stays.
        let underway = std::env::temp_dir().join(format!("plimsoll-fuzz-{}.bin", self.name));
        limits::save(&underway, input);
        match attempt(input, &mut self.read) {
            Ok(cost) => tally.count(cost),
            Err(fault) => {
                let (name, path) = (self.name, folder().join(format!("{}-finding.bin", self.name)));
                limits::save(&path, input);
                let again = format!("`PLIMSOLL_FUZZ_INPUT={} cargo test -p plimsoll-cli {name}`", path.display());
                panic!("{name}: {fault}; again with {again}");
            }
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|it| it.parse().unwrap())
}

/// Where findings and figures go.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz")
}
