//! What `text` reads: documents, and the tokenizer of a checkpoint.

use plimsoll_fixtures::dir;
use plimsoll_workloads::text::{Corpus, CorpusConfig, Cut, Tokenizer};
use plimsoll_workloads::{Room, Shares};
use tempfile::tempdir;

use super::put;
use crate::fuzz::Reader;

/// A text of several sections.
const NOTES: &str =
    "# Tides\n\nThe tide comes in, and it goes out again.\n\n## At night\n\nIt does so then too: é, 潮, 🌊.\n";

/// That of the texts that come with Plimsoll.
fn tokenizer() -> Tokenizer {
    let folder = dir().join("text");
    let room = Room::boundless(&folder);
    Corpus::read(&CorpusConfig { vocabulary: 300, ..CorpusConfig::new(folder, room) }).unwrap().tokenizer
}

/// A document beside another, cut into sections and these into pieces.
#[test]
fn documents() {
    const WORDS: &[&str] =
        &["# ", "\n\n", "\n## ", "```\n", "\u{feff}", "\r\n", "\u{0}", "\u{301}", "a1", "\u{fffd}", " "];
    let (folder, tokenizer) = (tempdir().unwrap(), tokenizer());
    put(&folder, "other.txt", b"A day.\n\nAnother day.\n");
    let mut read = |input: &[u8]| {
        put(&folder, "notes.md", input);
        let config = CorpusConfig {
            shares: Shares::validating(0.5),
            cut: Cut { longest: 24, overlap: 5 },
            ..CorpusConfig::new(folder.path().to_owned(), Room::boundless(folder.path()))
        };
        Corpus::tokenized(&config, tokenizer.clone()).is_ok()
    };
    Reader { name: "documents", corpus: vec![NOTES.into()], words: WORDS, read: &mut read }.fuzz();
}

/// A tokenizer, with which a text is encoded and decoded.
#[test]
fn tokenizers() {
    const WORDS: &[&str] =
        &["\"vocab\":{", "\"merges\":[", "\"Ġt h\"", "65536", "-1", "null", "[]", "{}", "\"type\":\"BPE\""];
    let json = tokenizer().to_json().unwrap();
    let mut read = |input: &[u8]| {
        let tokenizer = str::from_utf8(input).ok().and_then(|json| Tokenizer::from_json(json).ok());
        tokenizer.is_some_and(|it| it.encode(NOTES).is_ok_and(|tokens| it.decode(&tokens).is_ok()))
    };
    Reader { name: "tokenizers", corpus: vec![json.into_bytes()], words: WORDS, read: &mut read }.fuzz();
}
