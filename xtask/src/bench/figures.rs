//! The file of medians that `bench all` writes, and that a later one is compared with.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::{fs, thread};

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

use crate::files::write_whole;
use crate::process::said;

/// What the file says that it is.
const FORMAT: &str = "plimsoll benchmarks";
/// Raised when a reader of before would misread what is written now.
const VERSION: u64 = 1;

/// What was measured: time, memory, padding and the like, of which less is better.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) unit: String,
}

/// Figures by name, and on what they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Processor, number of cores and system.
    pub(crate) machine: String,
    /// Of Plimsoll, its sources and the compiler.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) by_name: BTreeMap<String, Figure>,
}

impl Figures {
    /// Returns no figures yet, of this machine.
    pub(crate) fn here() -> Self {
        let commit = said("git", &["describe", "--always", "--dirty"]);
        let versions = [
            ("plimsoll", Some(env!("CARGO_PKG_VERSION").to_owned())),
            ("commit", commit),
            ("rustc", said("rustc", &["-V"])),
        ];
        let known = versions.into_iter().filter_map(|(name, version)| Some((name.to_owned(), version?)));
        Self { machine: machine(), versions: known.collect(), by_name: BTreeMap::new() }
    }

    /// Adds a figure.
    ///
    /// # Errors
    ///
    /// When there is one of that name.
    pub(crate) fn add(&mut self, name: String, median: f64, unit: &str) -> anyhow::Result<()> {
        let new = Figure { median, unit: unit.to_owned() };
        match self.by_name.entry(name) {
            Entry::Vacant(place) => _ = place.insert(new),
            Entry::Occupied(it) => {
                let Figure { median: before, unit: of } = it.get();
                bail!("two figures are named `{}`: {before} {of} and {median} {unit}", it.key());
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let of = |(name, it): (&String, &Figure)| (name.clone(), json!({ "median": it.median, "unit": it.unit }));
        let figures: Map<String, Value> = self.by_name.iter().map(of).collect();
        let report = json!({
            "format": FORMAT, "version": VERSION, "machine": self.machine, "versions": self.versions, "figures": figures,
        });
        write_whole(path, &(serde_json::to_string_pretty(&report)? + "\n"))
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let parse = || parse(&fs::read_to_string(path)?);
        parse().with_context(|| format!("failed to read {}", path.display()))
    }
}

fn parse(json: &str) -> anyhow::Result<Figures> {
    let report: Value = serde_json::from_str(json)?;
    ensure!(report["format"] == FORMAT, "it is no file of `cargo xtask bench all`, whose `format` is {FORMAT:?}");
    let version = &report["version"];
    ensure!(*version == VERSION, "its `version` is {version}, {VERSION} can be read; measure it again");
    let machine = report["machine"].as_str().context("it has no `machine`")?.to_owned();
    let versions = report["versions"].as_object().context("it has no `versions`")?;
    let versions = versions.iter().map(|(name, it)| (name.clone(), it.as_str().unwrap_or("?").to_owned())).collect();
    let figures = report["figures"].as_object().context("it has no `figures`")?;
    let by_name =
        figures.iter().map(|(name, it)| Ok((name.clone(), figure(name, it)?))).collect::<anyhow::Result<_>>()?;
    Ok(Figures { machine, versions, by_name })
}

fn figure(name: &str, it: &Value) -> anyhow::Result<Figure> {
    let (Some(median), Some(unit)) = (it["median"].as_f64(), it["unit"].as_str()) else {
        bail!("figure `{name}` is {it}, it must have a number `median` and a text `unit`");
    };
    ensure!(0.0 <= median, "the median of `{name}` is {median}, it must be at least 0");
    Ok(Figure { median, unit: unit.to_owned() })
}

/// Returns processor, number of cores and system, in words.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, it)| it.trim());
    let n_cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {n_cores} cores, {}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let path = crate::process::root().join("target/bench/tests/figures.json");
        let mut figures = Figures::here();
        figures.add("guard/preflight".to_owned(), 12.5, "ns").unwrap();
        figures.write(&path).unwrap();
        assert_eq!(Figures::read(&path).unwrap(), figures);
        assert!(figures.versions["rustc"].starts_with("rustc 1"), "{figures:?}");
    }

    #[test]
    fn a_name_is_of_one_figure() {
        let mut figures = Figures::default();
        figures.add("sampler/time".to_owned(), 13.0, "ns").unwrap();
        let error = figures.add("sampler/time".to_owned(), 0.5, "ms").unwrap_err();
        assert_eq!(error.to_string(), "two figures are named `sampler/time`: 13 ns and 0.5 ms");
        assert_eq!(figures.by_name["sampler/time"], Figure { median: 13.0, unit: "ns".to_owned() });
    }

    #[track_caller]
    fn refused(json: &str, message: &str) {
        assert_eq!(parse(json).unwrap_err().to_string(), message);
    }

    #[test]
    fn what_is_no_such_file_is_refused_by_what_is_wrong() {
        refused("{", "EOF while parsing an object at line 1 column 1");
        let other = "it is no file of `cargo xtask bench all`, whose `format` is \"plimsoll benchmarks\"";
        refused("[]", other);
        refused(r#"{"rows": []}"#, other);
        let with = |rest: &str| format!(r#"{{"format": "plimsoll benchmarks", {rest}}}"#);
        refused(&with(r#""version": 2"#), "its `version` is 2, 1 can be read; measure it again");
        let with =
            |it: &str| with(&format!(r#""version": 1, "machine": "", "versions": {{}}, "figures": {{"a": {it}}}"#));
        assert!(parse(&with(r#"{"median": 0, "unit": "steps"}"#)).is_ok());
        refused(
            &with(r#"{"median": "1"}"#),
            r#"figure `a` is {"median":"1"}, it must have a number `median` and a text `unit`"#,
        );
        refused(&with(r#"{"median": -1, "unit": "ns"}"#), "the median of `a` is -1, it must be at least 0");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Figures::read(Path::new("nowhere/base.json")).unwrap_err();
        assert!(format!("{error:#}").starts_with("failed to read nowhere/base.json: "), "{error:#}");
    }
}
