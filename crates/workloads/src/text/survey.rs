//! What a run would see of a folder of documents, in seconds.

use super::config::CorpusConfig;
use super::corpus::{Corpus, learnt};
use super::documents::{Documents, Section};
use super::error::TextError;
use super::tokenized::Sections;
use crate::outside::Gate;
use crate::split::Divided;
use crate::survey::{Survey, counted};
use crate::watch::Watch;

/// Bytes of text of which a tokenizer is made, and which it divides, in two seconds or so.
const LOOKED_AT: usize = 4 << 20;

/// The most bytes of one section that are looked at where not all are: the rest is alike.
const OF_EACH: usize = 64 << 10;

/// What a run would see of documents.
#[derive(Clone, Debug)]
pub struct TextSurvey {
    /// Lengths are in tokens; what is longer than a sample may be is cut.
    pub survey: Survey,
    /// Tokens of the tokenizer.
    pub vocabulary: usize,
    /// How many sections the tokenizer and the lengths are of, and of how many, where they are not of all.
    pub sampled: Option<(usize, usize)>,
}

impl Corpus {
    /// Reads all documents of a folder, and divides and tokenizes them as a run would: as many as that takes seconds of,
    /// spread evenly.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read_watched`].
    pub fn survey(config: &CorpusConfig, watch: Watch<'_>) -> Result<TextSurvey, TextError> {
        let documents = Documents::read(config, watch)?;
        let Divided { train, validation, test } = documents.split(config.shares);
        let n_bytes: usize = train.iter().chain(&validation).chain(&test).map(|it| it.text.len()).sum();
        let is_all = n_bytes <= LOOKED_AT;
        let looked_at = if is_all { train.clone() } else { spread(&train) };
        let tokenizer = learnt(&looked_at, config.vocabulary, watch)?;
        let mut gate = Gate::new(config.lengths, "tokens");
        let mut sections = |texts: &[Section<'_>]| Sections::try_new(&tokenizer, texts, config.cut, &mut gate, watch);
        let found = sections(&looked_at)?;
        let mut n_of = |texts: &[Section<'_>]| {
            if is_all && !texts.is_empty() { sections(texts).map(|it| it.len()) } else { Ok(texts.len()) }
        };
        let (n_validation, n_test) = (n_of(&validation)?, n_of(&test)?);
        let n_train = if is_all { found.len() } else { train.len() };
        let length = |id: usize| found.index().get(id as u64).map_or(0, |[length]| u64::from(length));
        let sampled = (!is_all).then_some((looked_at.len(), train.len()));
        let names: Vec<_> = documents.names().collect();
        let of_sources = |texts: &[Section<'_>]| counted(texts.iter().map(|it| names[usize::from(it.source)].clone()));
        let kinds = if config.source_folders { vec![("sources", of_sources(&train))] } else { Vec::new() };
        let survey = Survey {
            samples: "sections",
            n_train,
            n_validation,
            n_test,
            unit: "tokens",
            lengths: (0..found.len()).map(length).collect(),
            kinds,
            outside: gate.counts,
            skipped: documents.skipped,
        };
        Ok(TextSurvey { survey, vocabulary: tokenizer.vocabulary(), sampled })
    }
}

/// Returns texts from all over, each of no more than some length, that have about as many bytes together as are looked at.
fn spread<'a>(texts: &[Section<'a>]) -> Vec<Section<'a>> {
    let cut = |it: &Section<'a>| Section { text: &it.text[..it.text.floor_char_boundary(OF_EACH)], ..*it };
    let n_bytes: usize = texts.iter().map(|it| cut(it).text.len()).sum();
    texts.iter().step_by(n_bytes.div_ceil(LOOKED_AT).max(1)).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::Room;
    use crate::split::Shares;
    use crate::text::Cut;
    use crate::watch::unwatched;

    fn config(folder: &std::path::Path) -> CorpusConfig {
        CorpusConfig {
            shares: Shares { validation: 0.2, test: 0.2 },
            vocabulary: 400,
            cut: Cut { longest: 64, overlap: 16 },
            ..CorpusConfig::new(folder.to_owned(), Room::boundless(folder))
        }
    }

    #[test]
    fn what_is_told_of_a_small_folder_is_what_a_run_sees() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..8 {
            let tides = (0..40 + at).map(|day| format!("On day {day} the tide comes in, and it goes out again.\n\n"));
            let long = "The sea is wide, and the harbour is small. ".repeat(30);
            std::fs::write(folder.path().join(format!("{at}.txt")), tides.collect::<String>() + &long).unwrap();
        }
        let config = config(folder.path());
        let (told, seen) = (Corpus::survey(&config, &mut unwatched).unwrap(), Corpus::read(&config).unwrap());
        let lengths = seen.train.index().iter().map(|[length]| u64::from(length));
        assert_eq!(told.survey.lengths, lengths.collect::<Vec<_>>());
        let n_test = seen.test.unwrap().sections.len();
        assert_eq!(
            (told.survey.n_train, told.survey.n_validation, told.survey.n_test),
            (seen.train.len(), seen.validation.sections.len(), n_test)
        );
        assert_eq!((told.vocabulary, told.sampled), (seen.tokenizer.vocabulary(), None));
        assert_eq!(told.survey.unit, "tokens");
    }

    #[test]
    fn of_much_text_a_part_from_all_over_is_told() {
        let texts: Vec<_> = (0..4000).map(|at| format!("{at} {}", "é".repeat(at))).collect();
        let section = |text| Section { source: 0, document: 0, text };
        let texts: Vec<_> = texts.iter().map(|it| section(it.as_str())).collect();
        let found = spread(&texts);
        let n_bytes: usize = found.iter().map(|it| it.text.len()).sum();
        assert!((LOOKED_AT / 2..=LOOKED_AT).contains(&n_bytes) && found.len() < texts.len() / 2, "{n_bytes}");
        assert!(found[0] == texts[0] && found[found.len() - 1].text.len() > 7000);
        let long = "é".repeat(LOOKED_AT);
        assert_eq!(spread(&[section(&long)]), [section(&long[..OF_EACH])]);
    }
}
