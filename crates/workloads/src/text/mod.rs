//! A language model on a folder of documents.
//!
//! A sample is a section of a document: what follows a Markdown heading, or a paragraph of plain text, in tokens of a
//! byte-pair tokenizer that is made of the training documents.
//! The loss is the mean over tokens of the negative logarithm of what the model gives the next one.
//! The metric is the same over the documents that are held out, in bits for each byte of their text, so that it can be
//! compared whatever the tokenizer is; the end of a section is predicted too, and has no bytes.
//! The baseline is an interpolated bigram of the training tokens; the frequencies of the tokens alone, and nats a token, are
//! told beside it.
//!
//! # Invariants
//!
//! * Sections end and begin with a boundary; every other token is predicted once, also in sections that were cut, whose pieces may
//!   repeat tokens of the one before to see them.
//! * Positions see themselves and what is before them, so padding at the end changes no result.
//! * Nothing in the model depends on who shares a batch: no batch normalisation, no dropout. A step has the same gradient
//!   however it is divided, if the parts are weighted by their tokens.

mod attention;
mod baseline;
mod bias;
mod buffer;
mod cache;
mod config;
mod corpus;
mod demand;
mod documents;
mod error;
mod generate;
mod held_out;
mod job;
mod model;
mod pick;
mod sections;
mod sight;
mod source;
mod survey;
mod tokenized;
mod tokenizer;
mod vocabulary;
mod writer;

pub use buffer::{TokenBuffer, Tokens};
pub use cache::Cache;
pub use config::{CorpusConfig, Cut, Together};
pub use corpus::Corpus;
pub use error::TextError;
pub use generate::{GenerateError, Generation, Prompt, blank_generation, generate};
pub use held_out::{HeldOut, Yardstick};
pub use job::Text;
pub use model::{Gpt, GptConfig};
pub use pick::Sampling;
pub use sight::Sight;
pub use source::{TextItem, TextSource};
pub use survey::TextSurvey;
pub use tokenized::Sections;
pub use tokenizer::Tokenizer;
pub use vocabulary::{BOUNDARY, LEAST_VOCABULARY, MOST_VOCABULARY};
pub use writer::Writer;
