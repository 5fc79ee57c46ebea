//! What somebody may have meant.

use strsim::damerau_levenshtein;

/// The longest word that is compared: what is longer is no typing error.
const LONGEST: usize = 100;

/// Returns the known word that is nearest to what was written, unless even that is far.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    if LONGEST < word.len() {
        return None;
    }
    let distances = known.into_iter().map(|it| (damerau_levenshtein(it, &word), it));
    let (_, found) = distances.min().filter(|(distance, _)| *distance <= (word.chars().count() / 3).max(1))?;
    Some(found)
}

/// Returns `; did you mean …?` for a word that is nearly one of these, and nothing else.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |it| format!("; did you mean `{it}`?"))
}

/// Returns the known keys that somebody may have meant, which may have left out or mistaken the section.
pub(crate) fn nearest_keys<'a>(key: &str, known: &[&'a str]) -> Vec<&'a str> {
    let last = |key: &'a str| key.rsplit('.').next().unwrap_or(key);
    let called = |name: &str| known.iter().copied().filter(|it| last(it) == name).collect::<Vec<_>>();
    let name = key.rsplit('.').next().unwrap_or(key);
    let exact = called(name);
    if !exact.is_empty() {
        return exact;
    }
    if let Some(it) = nearest(key, known.iter().copied()) {
        return vec![it];
    }
    nearest(name, known.iter().map(|it| last(it))).map_or_else(Vec::new, called)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_answered_and_another_word_is_not() {
        let words = ["certified", "stepwise", "fixed"];
        assert_eq!(nearest("certifed", words), Some("certified"));
        assert_eq!(nearest("Fixed", words), Some("fixed"));
        assert_eq!(nearest("clever", words), None);
        assert_eq!(nearest(&"fixed".repeat(100), words), None);
        assert_eq!(hint("stpewise", words), "; did you mean `stepwise`?");
    }

    #[test]
    fn a_key_is_found_without_its_section_or_in_another() {
        let keys = ["memory.target", "train.steps", "train.learning_rate", "tasks.learning_rate", "trail.blaze"];
        assert_eq!(nearest_keys("memory.taget", &keys), ["memory.target"]);
        assert_eq!(nearest_keys("tarjet", &keys), ["memory.target"]);
        assert_eq!(nearest_keys("policy.target", &keys), ["memory.target"]);
        assert_eq!(nearest_keys("trail.steps", &keys), ["train.steps"]);
        assert_eq!(nearest_keys("learningrate", &keys), ["train.learning_rate", "tasks.learning_rate"]);
        assert_eq!(nearest_keys("colour", &keys), [""; 0]);
    }
}
