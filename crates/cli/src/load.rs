//! Layers of configuration: documented defaults, a file, the environment, flags.

mod given;
mod kinds;
mod known;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use config::builder::DefaultState;
use config::{Config, ConfigBuilder, ConfigError, File, FileFormat, FileSourceString, Map, Value, ValueKind};
use plimsoll_policy::Bounds;
use plimsoll_train::CONFIG_FILE;
use toml_writer::{ToTomlValue as _, TomlStringBuilder};

pub(crate) use self::given::Given;
use self::kinds::{Kind, shown};
use self::known::{Known, flatten, nest};
use crate::exit::{UserError, user_error};
use crate::settings::{Settings, range};
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
    /// What flags of their own say, above all.
    pub(crate) flags: Vec<Given>,
}

/// A configuration as values and as it was written.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    values: Map<String, Value>,
}

impl Layers {
    /// Adds what another flag says.
    pub(crate) fn with(mut self, flag: Option<Given>) -> Self {
        self.flags.extend(flag);
        self
    }

    /// Merges all layers and checks the result.
    pub(crate) fn load(&self) -> Result<Loaded, UserError> {
        self.load_with(std::env::vars_os())
    }

    fn load_with(&self, variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Loaded, UserError> {
        let known = Known::read()?;
        let (mut builder, mut origins) = (Config::builder(), Origins::new());
        for path in &self.files {
            builder = builder.add_source(read_file(path, &known, &mut origins)?);
        }
        let mut given = given::variables(variables, &known)?;
        for set in &self.sets {
            given.push(given::set(set, &known)?);
        }
        given.extend(self.flags.iter().map(|it| it.read(&known)));
        for Given { layer, key, value } in given {
            let value = Value::new(Some(&layer), value);
            builder = builder.set_override(&key, value).map_err(|error| config_error(&error))?;
            origins.insert(key, layer);
        }
        let values = with_defaults(&builder, |values| checked(values, &known, &origins))?;
        let nested = Value::new(None, ValueKind::Table(nest(&values)));
        let mut settings: Settings = nested.try_deserialize().map_err(|error| value_error(&error, &origins))?;
        settings.leave_packing_open();
        settings.check()?;
        Ok(Loaded { settings, values })
    }
}

/// Which layer each key comes from, but for defaults.
type Origins = Map<String, String>;

/// Reads a file, and refuses keys that there are not.
fn read_file(
    path: &Path,
    known: &Known,
    origins: &mut Origins,
) -> Result<File<FileSourceString, FileFormat>, UserError> {
    let layer = path.display().to_string();
    let failed = |error: &dyn Display| user_error(format!("read the configuration from {layer}: {error}"));
    if !path.is_file() {
        let reason = match (path.exists(), path.is_dir()) {
            (false, _) => "there is no such file",
            (true, true) => "it is a folder, a file is needed",
            // The worker of a run reads it too.
            (true, false) => "it is no file that can be read more than once, as one on the disk can",
        };
        return Err(failed(&reason));
    }
    let file = File::from_str(&text_of(path)?, FileFormat::Toml);
    let tables = Config::builder().add_source(file.clone()).build().and_then(Config::try_deserialize);
    let given = flatten(tables.map_err(|error| failed(&error))?);
    // A section without keys says nothing.
    let mut keys: Vec<_> = given.iter().filter(|(key, it)| !is_empty(it) || known.has(key)).collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    for (key, _) in keys {
        known.check(&layer, key)?;
        origins.insert(key.clone(), layer.clone());
    }
    Ok(file)
}

fn is_empty(value: &Value) -> bool {
    matches!(&value.kind, ValueKind::Table(table) if table.is_empty())
}

/// Lays the defaults below what was given: first those that all jobs have, then those of the job that was asked for.
fn with_defaults(
    given: &Builder,
    checked: impl Fn(Map<String, Value>) -> Result<Map<String, Value>, UserError>,
) -> Result<Map<String, Value>, UserError> {
    let merge = |own: Option<JobName>| {
        let mut below = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(job) = own {
            below = below.add_source(File::from_str(job.defaults(), FileFormat::Toml));
        }
        let merged = given.build_cloned().and_then(|given| below.add_source(given).build()?.try_deserialize());
        checked(flatten(merged.map_err(|error| config_error(&error))?))
    };
    let job = merge(None)?.get("job").map(ToString::to_string).unwrap_or_default();
    // Another name is refused with its layer, with all other values.
    merge(JobName::try_from(job).ok())
}

/// Takes each value that is of the kind of its default and in its range, and refuses the first that is not.
fn checked(values: Map<String, Value>, known: &Known, origins: &Origins) -> Result<Map<String, Value>, UserError> {
    let mut values: Vec<_> = values.into_iter().filter(|(key, it)| !is_empty(it) || known.has(key)).collect();
    values.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let take = |(key, value): (String, Value)| {
        let (kind, range) = (known.kind(&key), range(&key));
        let allowed = || match range {
            Some(range) if kind == Kind::Whole => format!("a whole number, {range}"),
            Some(range) => range.to_string(),
            None => kind.name().to_owned(),
        };
        let refused = |shown: &str, allowed: &str| {
            user_error(format!("read the configuration{}: `{key}` is {shown}, allowed is {allowed}", of(origins, &key)))
        };
        let taken = kind.taken(&value.kind).ok_or_else(|| refused(&shown(&value.kind), &allowed()))?;
        if let Some(range) = range.filter(|it| !it.has(&taken)) {
            return Err(refused(&shown(&taken), &range.to_string()));
        }
        Ok((key, Value::new(None, taken)))
    };
    values.into_iter().map(take).collect()
}

/// Returns every key of a configuration as it was written, with its value.
pub(crate) fn flat(toml: &str) -> Result<BTreeMap<String, String>, UserError> {
    refuse_deep(CONFIG_FILE, nesting(toml))?;
    let config = Config::builder().add_source(File::from_str(toml, FileFormat::Toml)).build();
    let tables =
        config.and_then(Config::try_deserialize).map_err(|error| user_error(format!("read {CONFIG_FILE}: {error}")))?;
    Ok(flatten(tables).into_iter().map(|(key, value)| (key, value.to_string())).collect())
}

/// Says where a key comes from.
fn of(origins: &Origins, key: &str) -> String {
    origins.get(key).map_or_else(String::new, |layer| format!(" from {layer}"))
}

impl Loaded {
    /// Replaces "auto" by the batch that was found, in the values and in what is written.
    pub(crate) fn keep_batch_size(&mut self, batch: u32) {
        self.settings.batch.size = BatchSize::Fixed(batch);
        let value = Value::new(None, ValueKind::I64(i64::from(batch)));
        self.values.insert("batch.batch_size".to_owned(), value);
    }

    /// Writes whether samples of a run are packed in place of "auto": another device would decide otherwise.
    pub(crate) fn keep_packing(&mut self, is_packed: bool) {
        let value = Value::new(None, ValueKind::Boolean(is_packed));
        self.values.insert("batch.pack".to_owned(), value);
    }

    /// Writes the bounds of a run in place of "preset": another capacity has others, and the run keeps its own.
    pub(crate) fn keep_bounds(&mut self, bounds: &Bounds) {
        let Bounds { patch_min, patch_max, batch_min, batch_max, .. } = *bounds;
        let named = [
            ("batch.patch_min", patch_min),
            ("batch.patch_max", patch_max),
            ("batch.batch_min", batch_min),
            ("batch.batch_max", batch_max),
        ];
        for (key, bound) in named {
            self.values.insert(key.to_owned(), Value::new(None, ValueKind::I64(i64::from(bound))));
        }
    }

    /// Writes the resolved configuration with the comment of each key, as a file that can be loaded again.
    pub(crate) fn to_toml(&self) -> String {
        let mut section = String::new();
        let mut resolved = |line: &str| {
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                section = format!("{name}.");
            }
            let (key, _) = line.split_once(" = ")?;
            Some(format!("{key} = {}\n", written(self.values.get(&format!("{section}{key}"))?)))
        };
        DEFAULTS.lines().map(|line| resolved(line).unwrap_or_else(|| format!("{line}\n"))).collect()
    }
}

fn written(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) => TomlStringBuilder::new(text).as_basic().to_toml_value(),
        ValueKind::Float(number) => format!("{number:?}"),
        other => other.to_string(),
    }
}

/// The most dots and brackets of a layer: far more than every key at once has, far fewer than the stack holds levels.
const MOST_NESTING: usize = 1000;
/// The largest file in bytes; with every key and its comment, one has 7 KB.
const LARGEST_FILE: u64 = 64 << 10;

/// Counts what can open a level; a line that is a comment opens none, and a text does not either.
fn nesting(toml: &str) -> usize {
    // A text of several lines could begin and end anywhere.
    let has_long_texts = toml.contains("\"\"\"") || toml.contains("'''");
    let lines = toml.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.map(|line| if has_long_texts { line.matches(OPENING).count() } else { n_opening(line) }).sum()
}

const OPENING: [char; 3] = ['.', '[', '{'];

/// Counts what opens a level outside of texts.
fn n_opening(line: &str) -> usize {
    let (mut text, mut is_escaped, mut n) = (None, false, 0);
    for c in line.chars() {
        match text {
            None if c == '"' || c == '\'' => text = Some(c),
            None => n += usize::from(OPENING.contains(&c)),
            Some('"') if is_escaped => is_escaped = false,
            Some('"') if c == '\\' => is_escaped = true,
            Some(quote) if c == quote => text = None,
            Some(_) => (),
        }
    }
    n
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

/// Reads a file that is no larger and no deeper than one may be.
fn text_of(path: &Path) -> Result<String, UserError> {
    let layer = path.display().to_string();
    let failed = |error: &dyn Display| user_error(format!("read the configuration from {layer}: {error}"));
    let size = path.metadata().map_err(|error| failed(&error))?.len();
    if LARGEST_FILE < size {
        return Err(failed(&format!("it has {size} bytes, at most {LARGEST_FILE} are allowed")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    refuse_deep(&layer, nesting(&text))?;
    Ok(text)
}

fn config_error(error: &ConfigError) -> UserError {
    user_error(format!("read the configuration: {error}"))
}

/// Says which value is refused, and where it comes from.
fn value_error(error: &ConfigError, origins: &Origins) -> UserError {
    match error {
        ConfigError::At { error, key: Some(key), .. } => {
            user_error(format!("read the configuration{}: `{key}`: {error}", of(origins, key)))
        }
        error => config_error(error),
    }
}
