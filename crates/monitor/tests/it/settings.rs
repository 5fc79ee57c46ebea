//! The settings that a report advises must be those that a configuration has.

const CONFIG: &str = include_str!("../../../cli/src/default.toml");

/// What gives advice.
const SOURCES: [&str; 6] = [
    include_str!("../../src/changes.rs"),
    include_str!("../../src/findings.rs"),
    include_str!("../../src/levers.rs"),
    include_str!("../../src/limit.rs"),
    include_str!("../../src/summing_up.rs"),
    include_str!("../../src/verdict.rs"),
];

/// Returns the keys of the default configuration, each with its section.
fn keys() -> Vec<String> {
    let mut section = "";
    let mut keys = Vec::new();
    for line in CONFIG.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.split_once(" = ").filter(|it| !it.0.starts_with('#')) {
            keys.push(format!("{section}.{key}"));
        }
    }
    keys
}

/// Returns what a source quotes that begins like a key of one of these sections.
fn quoted<'a>(source: &'a str, sections: &[&str]) -> Vec<&'a str> {
    let first_word = |it: &'a str| it.split([' ', '{', '\\']).next().unwrap_or_default();
    let is_key = |it: &&str| {
        it.split_once('.').is_some_and(|(section, key)| {
            sections.contains(&section) && !key.is_empty() && key.chars().all(|it| it.is_ascii_lowercase() || it == '_')
        })
    };
    source.split(['`', '"']).map(first_word).filter(is_key).collect()
}

#[test]
fn every_setting_that_is_advised_exists() {
    let keys = keys();
    let sections: Vec<&str> = keys.iter().filter_map(|it| it.split_once('.')).map(|it| it.0).collect();
    let advised: Vec<&str> = SOURCES.iter().flat_map(|it| quoted(it, &sections)).collect();
    for known in ["batch.batch_max", "data.store_limit", "train.validation_share", "policy.max_adjustments"] {
        assert!(advised.contains(&known), "{known} is no longer advised, or not found");
    }
    let unknown: Vec<_> = advised.iter().filter(|it| !keys.iter().any(|key| key == **it)).collect();
    assert!(unknown.is_empty(), "no such settings: {unknown:?}");
}
