//! Layers of configuration: documented defaults, a file, the environment, flags.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use config::builder::DefaultState;
use config::{Config, ConfigBuilder, ConfigError, Environment, File, FileFormat, Map, Value, ValueKind};
use toml_writer::{ToTomlValue as _, TomlStringBuilder};

use crate::exit::{UserError, user_error};
use crate::settings::Settings;
use crate::values::{BatchSize, JobName};

/// Every key with its default and its documentation.
pub(crate) const DEFAULTS: &str = include_str!("default.toml");

type Builder = ConfigBuilder<DefaultState>;

/// Where a configuration comes from, besides the defaults and the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    /// TOML files, later ones win.
    pub(crate) files: Vec<PathBuf>,
    /// `KEY=VALUE`, later ones win.
    pub(crate) sets: Vec<String>,
}

/// A configuration as values and as it was written.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    values: Map<String, Value>,
}

impl Layers {
    /// Merges all layers and checks the result.
    pub(crate) fn load(&self) -> Result<Loaded, UserError> {
        self.load_with(std::env::vars())
    }

    fn load_with(&self, variables: impl Iterator<Item = (String, String)>) -> Result<Loaded, UserError> {
        let variables: Map<_, _> = variables.filter(|(key, _)| key.starts_with("PLIMSOLL__")).collect();
        variables.keys().try_for_each(|key| refuse_deep("the environment", key.matches("__").count()))?;
        let environment = Environment::with_prefix("PLIMSOLL")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true)
            .source(Some(variables));
        let mut builder = Config::builder();
        for path in &self.files {
            if !path.is_file() {
                return Err(user_error(format!(
                    "read the configuration from {}: there is no such file",
                    path.display()
                )));
            }
            refuse_deep_file(path)?;
            let file = File::from(path.as_path()).format(FileFormat::Toml);
            refuse_unknown(&path.display().to_string(), Config::builder().add_source(file.clone()))?;
            builder = builder.add_source(file);
        }
        refuse_unknown("the environment", Config::builder().add_source(environment.clone()))?;
        builder = builder.add_source(environment);
        for set in &self.sets {
            let (key, value) = parse_set(set)?;
            refuse_deep("--set", nesting(key))?;
            let overridden = |it: Builder| it.set_override(key, value.clone()).map_err(|error| config_error(&error));
            refuse_unknown("--set", overridden(Config::builder())?)?;
            builder = overridden(builder)?;
        }
        let merged = with_defaults(&builder)?;
        let values = flatten(merged.clone().try_deserialize().map_err(|error| config_error(&error))?);
        let settings: Settings = merged.try_deserialize().map_err(|error| config_error(&error))?;
        settings.check()?;
        Ok(Loaded { settings, values })
    }
}

/// Lays the defaults below what was given: first those that all jobs have, then those of the job that was asked for.
fn with_defaults(given: &Builder) -> Result<Config, UserError> {
    let merge = |own: Option<JobName>| {
        let mut below = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(job) = own {
            below = below.add_source(File::from_str(job.defaults(), FileFormat::Toml));
        }
        let given = given.build_cloned()?;
        below.add_source(given).build()
    };
    let merged = merge(None).map_err(|error| config_error(&error))?;
    let job: JobName = merged.get("job").map_err(|error| config_error(&error))?;
    merge(Some(job)).map_err(|error| config_error(&error))
}

impl Loaded {
    /// Replaces "auto" by the batch that was found, in the values and in what is written.
    pub(crate) fn keep_batch_size(&mut self, batch: u32) {
        self.settings.batch.size = BatchSize::Fixed(batch);
        let value = Value::new(None, ValueKind::I64(i64::from(batch)));
        self.values.insert("batch.batch_size".to_owned(), value);
    }

    /// Writes the resolved configuration with the comment of each key, as a file that can be loaded again.
    pub(crate) fn to_toml(&self) -> String {
        let mut section = String::new();
        let mut resolved = |line: &str| {
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                section = format!("{name}.");
            }
            let (key, _) = line.split_once(" = ")?;
            Some(format!("{key} = {}\n", shown(self.values.get(&format!("{section}{key}"))?)))
        };
        DEFAULTS.lines().map(|line| resolved(line).unwrap_or_else(|| format!("{line}\n"))).collect()
    }
}

fn shown(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) => TomlStringBuilder::new(text).as_basic().to_toml_value(),
        ValueKind::Float(number) => format!("{number:?}"),
        other => other.to_string(),
    }
}

/// Turns nested tables into dotted keys.
fn flatten(table: Map<String, Value>) -> Map<String, Value> {
    let mut flat = Map::new();
    for (key, value) in table {
        match value.kind {
            ValueKind::Table(inner) => {
                flat.extend(flatten(inner).into_iter().map(|(below, value)| (format!("{key}.{below}"), value)));
            }
            _ => drop(flat.insert(key, value)),
        }
    }
    flat
}

/// The most dots and brackets of a layer: far more than every key at once has, far fewer than the stack holds levels.
const MOST_NESTING: usize = 1000;
/// The largest file in bytes; with every key and its comment, one has 7 KB.
const LARGEST_FILE: u64 = 64 << 10;

/// Counts what can open a level; a line that is a comment opens none.
fn nesting(toml: &str) -> usize {
    let lines = toml.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.map(|line| line.matches(['.', '[', '{']).count()).sum()
}

/// Refuses what is nested so deeply that reading it would need more stack than there is.
fn refuse_deep(layer: &str, found: usize) -> Result<(), UserError> {
    if found <= MOST_NESTING {
        return Ok(());
    }
    Err(user_error(format!(
        "read the configuration from {layer}: it nests too deeply, with {found} dots and brackets; \
         {MOST_NESTING} are allowed, and no key needs more than one, as in `memory.target`"
    )))
}

fn refuse_deep_file(path: &Path) -> Result<(), UserError> {
    let layer = path.display().to_string();
    let failed = |error: &dyn Display| user_error(format!("read the configuration from {layer}: {error}"));
    let size = path.metadata().map_err(|error| failed(&error))?.len();
    if LARGEST_FILE < size {
        return Err(failed(&format!("it has {size} bytes, at most {LARGEST_FILE} are allowed")));
    }
    let text = std::fs::read(path).map_err(|error| failed(&error))?;
    refuse_deep(&layer, nesting(&String::from_utf8_lossy(&text)))
}

/// Names the first key of a layer that no default documents, with the nearest one that does.
fn refuse_unknown(layer: &str, builder: Builder) -> Result<(), UserError> {
    let keys = |builder: Builder| -> Result<Map<String, Value>, UserError> {
        let tables = builder.build().and_then(Config::try_deserialize);
        Ok(flatten(tables.map_err(|error| config_error(&error))?))
    };
    let known = keys(Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml)))?;
    let given = keys(builder)?;
    let Some(unknown) = given.keys().filter(|key| !known.contains_key(*key)).min() else { return Ok(()) };
    let distance = |it: &str| strsim::damerau_levenshtein(it, unknown);
    let nearest = known.keys().min_by_key(|it| (distance(it), (*it).clone()));
    let hint = match nearest.filter(|it| distance(it) <= (unknown.len() / 3).max(2)) {
        Some(it) => format!("; did you mean `{it}`?"),
        None => "; `plimsoll config` prints all that are known".to_owned(),
    };
    Err(user_error(format!("read the configuration from {layer}: `{unknown}` is no known key{hint}")))
}

/// Reads `KEY=VALUE`; the value is a number, a truth value, or a text with or without quotes.
fn parse_set(set: &str) -> Result<(&str, Value), UserError> {
    let Some((key, text)) = set.split_once('=') else {
        return Err(user_error(format!("read `--set {set}`: write KEY=VALUE, as in `--set memory.target=0.8`")));
    };
    let (key, text) = (key.trim(), text.trim());
    let kind = if let Ok(number) = text.parse::<i64>() {
        ValueKind::I64(number)
    } else if let Ok(number) = text.parse::<f64>() {
        ValueKind::Float(number)
    } else if let Ok(truth) = text.parse::<bool>() {
        ValueKind::Boolean(truth)
    } else {
        let within = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        ValueKind::String(within.unwrap_or(text).to_owned())
    };
    Ok((key, Value::new(Some(&"--set".to_owned()), kind)))
}

fn config_error(error: &ConfigError) -> UserError {
    user_error(format!("read the configuration: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sets: &[&str], variables: &[(&str, &str)]) -> Result<Loaded, UserError> {
        let layers = Layers { files: Vec::new(), sets: sets.iter().map(ToString::to_string).collect() };
        layers.load_with(variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
    }

    #[track_caller]
    fn refused(sets: &[&str], variables: &[(&str, &str)], parts: &[&str]) {
        let Err(error) = load(sets, variables) else { panic!("{sets:?} {variables:?} was accepted") };
        for part in parts {
            assert!(error.to_string().contains(part), "`{error}` lacks `{part}`");
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_defaults() {
        let target = |sets: &[&str], variables: &[(&str, &str)]| {
            load(sets, variables).unwrap().settings.memory.target.get().to_string()
        };
        assert_eq!(target(&[], &[]), "0.9");
        assert_eq!(target(&[], &[("PLIMSOLL__MEMORY__TARGET", "0.8")]), "0.8");
        assert_eq!(target(&["memory.target=0.7"], &[("PLIMSOLL__MEMORY__TARGET", "0.8")]), "0.7");
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_key() {
        refused(&["memory.target=1.7"], &[], &["memory.target", "1.7", "between 0 and 1"]);
        refused(&["memory.capacity=plenty"], &[], &["memory.capacity", "plenty", "1.5 GiB"]);
        refused(&["train.steps=0"], &[], &["`train.steps` is 0", "1 to 4294967296"]);
        refused(&["batch.patch_min=0"], &[], &["batch.patch_min", "preset"]);
        refused(&["policy.kind=clever"], &[], &["policy.kind", "clever", "certified"]);
        refused(&["device=metal"], &[], &["device", "metal", "vulkan"]);
        refused(&["train"], &[], &["KEY=VALUE"]);
    }

    #[test]
    fn a_size_that_makes_no_model_is_refused_with_what_is_allowed() {
        for (set, allowed) in [
            ("batch.n_edges=0", "1 and more"),
            ("data.workers=65", "up to 64"),
            ("sr.channels=0", "1 to 65536"),
            ("sequence.heads=0", "1 to 65536"),
            ("sequence.head_width=0", "1 to 65536"),
            ("sequence.blocks=0", "1 to 1024"),
            ("multitask.channels=0", "1 to 65536"),
            ("multitask.features=0", "1 to 65536"),
            ("multitask.features=62", "a multiple of 4"),
            ("multitask.image_size=0", "1 to 8192"),
            ("multitask.image_size=65536", "1 to 8192"),
            ("multitask.max_words=0", "1 to 65536"),
            ("multitask.label_smoothing=NaN", "from 0 to below 1"),
            ("multitask.label_smoothing=1", "from 0 to below 1"),
            ("multitask.label_smoothing=-0.1", "from 0 to below 1"),
            ("text.vocabulary=256", "257 to 65535"),
            ("text.vocabulary=65536", "257 to 65535"),
            ("text.longest=0", "1 and more"),
            ("text.layers=0", "1 to 1024"),
            ("text.width=0", "1 to 65536"),
            ("text.heads=0", "1 to 65536"),
            ("text.width=126", "a multiple of `text.heads` (4)"),
        ] {
            let (key, value) = set.split_once('=').unwrap();
            refused(&[set], &[], &[&format!("use the configuration: `{key}` is {value}, allowed is {allowed}")]);
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        refused(&["memory.taget=0.8"], &[], &["`memory.taget`", "did you mean `memory.target`?"]);
        refused(&[], &[("PLIMSOLL__TRAIN__STEP", "9")], &["`train.step`", "did you mean `train.steps`?"]);
    }

    #[test]
    fn what_nests_deeper_than_the_stack_is_refused() {
        let (deep, variable) = ("a.".repeat(15_000), format!("PLIMSOLL{}", "__A".repeat(15_000)));
        refused(&[&format!("{deep}a=1")], &[], &["--set", "nests too deeply", "15000 dots"]);
        refused(&[], &[(&variable, "1")], &["the environment", "nests too deeply"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep.toml");
        for text in [format!("{deep}a = 1"), format!("[{deep}a]"), format!("a = {}", "{a=".repeat(15_000))] {
            std::fs::write(&path, text).unwrap();
            let layers = Layers { files: vec![path.clone()], sets: Vec::new() };
            let error = layers.load_with(std::iter::empty()).err().unwrap().to_string();
            assert!(error.contains("deep.toml: it nests too deeply"), "{error}");
        }
        std::fs::File::create(&path).unwrap().set_len(LARGEST_FILE + 1).unwrap();
        let error = Layers { files: vec![path], sets: Vec::new() }.load_with(std::iter::empty()).err().unwrap();
        assert!(error.to_string().contains("it has 65537 bytes, at most 65536 are allowed"), "{error}");
    }

    #[test]
    fn the_resolved_file_loads_again_to_the_same_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let check = |sets: &[&str]| {
            let first = load(sets, &[]).unwrap();
            std::fs::write(&path, first.to_toml()).unwrap();
            let again = Layers { files: vec![path.clone()], sets: Vec::new() }.load_with(std::iter::empty()).unwrap();
            assert_eq!(again.to_toml(), first.to_toml());
            assert_eq!(format!("{:?}", again.settings), format!("{:?}", first.settings));
            first.to_toml()
        };
        // What a folder may be called: a decomposed accent, characters of no width, control characters, quotes, backslashes.
        for name in [
            "Mu\u{308}ller",
            "a\u{200b}b\u{feff}",
            "\u{1b}[31m\t\n\r\u{0}\u{7f}\u{85}",
            "\"'\"",
            "C:\\new\\",
            "{a.b}=#",
        ] {
            let data = format!("data.folder=\"/tmp/{name}\"");
            let folder = load(&[&data], &[]).unwrap().settings.folder("sr");
            assert_eq!(folder, PathBuf::from(format!("/tmp/{name}")));
            check(&[&data]);
        }
        let first = check(&["memory.target=0.75", "job=sr", "memory.capacity=1 GiB"]);
        assert!(first.contains("target = 0.75\n") && first.contains("capacity = \"1 GiB\"\n"), "{first}");
    }

    #[test]
    fn every_key_has_a_comment() {
        let lines: Vec<_> = DEFAULTS.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ")) {
            let above = lines[..at].iter().rev().find(|it| !it.contains(" = "));
            assert!(above.is_some_and(|it| it.starts_with('#')), "`{line}` has no comment");
        }
    }
}
