//! Several runs, side by side.

mod figures;
mod page;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::figures::{FIGURES, Scope, Value};
use crate::history::History;
use crate::table::columns_wrapped;
use crate::{RunFacts, TrainingReport};

/// A run that is compared with others.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// What it is called.
    pub name: String,
    /// What its events come to.
    pub history: History,
    /// What came of it.
    pub report: TrainingReport,
    /// Its configuration, a value for each key.
    pub settings: BTreeMap<String, String>,
    /// What is to be known of what was read, such as that the log is cut short.
    pub notes: Vec<String>,
}

impl ComparedRun {
    /// Sums a run up.
    pub fn new(name: String, history: History, facts: RunFacts, settings: BTreeMap<String, String>) -> Self {
        let report = TrainingReport::new(&history, facts);
        Self { name, history, report, settings, notes: Vec::new() }
    }

    /// Returns the mean training loss of its last steps.
    fn loss(&self) -> Option<f64> {
        self.history.learning.loss_before(u64::MAX)
    }
}

/// Several runs, side by side: what is comparable among them, what is not, and which settings differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`Comparison::VERSION`] of the writer.
    version: u32,
    /// What the runs are called, in the order of all values below.
    runs: Vec<String>,
    figures: Vec<Row>,
    /// Why some figures are not compared, one sentence each.
    not_compared: Vec<String>,
    /// What is to be known of single runs.
    notes: Vec<String>,
    /// The keys whose values differ.
    settings: Vec<Difference>,
}

/// A figure of each run.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    /// The figure, with its unit as the last word.
    key: String,
    /// The same for people.
    name: String,
    values: Vec<Value>,
}

/// A key, and what each run has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Difference {
    key: String,
    values: Vec<Option<String>>,
}

impl Comparison {
    /// Version of the layout of the JSON; raised by every change that an older reader would misread.
    pub const VERSION: u32 = 1;

    /// Compares runs; the first is what the others are held against.
    pub fn new(runs: &[ComparedRun]) -> Self {
        let (comparable, not_compared) = comparable(runs);
        let rows = FIGURES.iter().filter(|it| comparable.contains(&it.scope)).map(|it| Row {
            key: it.key.to_owned(),
            name: it.name(runs),
            values: runs.iter().map(|run| (it.value)(run)).collect(),
        });
        let of_run = |run: &ComparedRun| run.notes.iter().map(|it| format!("{}: {it}", run.name)).collect::<Vec<_>>();
        Self {
            version: Self::VERSION,
            runs: runs.iter().map(|it| it.name.clone()).collect(),
            figures: rows.filter(|it| it.values.iter().any(|it| *it != Value::Unknown)).collect(),
            not_compared,
            notes: runs.iter().flat_map(of_run).collect(),
            settings: differences(runs),
        }
    }

    /// Writes it as indented JSON.
    ///
    /// # Panics
    ///
    /// Never: a comparison is plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with text keys always serialises") + "\n"
    }

    /// Writes it as tables for a terminal of so many columns: as many runs beside each other as have room.
    pub fn to_table(&self, width: usize) -> String {
        let mut text = columns_wrapped(&[&[String::new()], self.runs.as_slice()].concat(), &self.rows(), width);
        if !self.settings.is_empty() {
            let names = [&["settings that differ".to_owned()], self.runs.as_slice()].concat();
            text = text + "\n" + &columns_wrapped(&names, &self.setting_rows(), width);
        }
        let sentences: Vec<_> = self.not_compared.iter().chain(&self.notes).map(|it| format!("* {it}\n")).collect();
        if sentences.is_empty() { text } else { text + "\n" + &sentences.concat() }
    }

    /// Returns a row of texts for each figure, its name first.
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |it: &Row| {
            let first = it.values.first();
            let texts = it.values.iter().enumerate().map(|(at, it)| it.beside(first.filter(|_| 0 < at)));
            std::iter::once(it.name.clone()).chain(texts).collect()
        };
        self.figures.iter().map(row).collect()
    }

    fn setting_rows(&self) -> Vec<Vec<String>> {
        let row = |it: &Difference| {
            let values = it.values.iter().map(|it| it.clone().unwrap_or_else(|| "–".to_owned()));
            std::iter::once(it.key.clone()).chain(values).collect()
        };
        self.settings.iter().map(row).collect()
    }
}

/// Returns what is comparable among runs, and a sentence for each kind of figures that is not.
fn comparable(runs: &[ComparedRun]) -> (Vec<Scope>, Vec<String>) {
    let all = |of: fn(&ComparedRun) -> &str| -> Vec<String> {
        let mut seen = BTreeSet::new();
        runs.iter().map(of).filter(|it| !it.is_empty() && seen.insert(*it)).map(str::to_owned).collect()
    };
    let (mut scopes, mut sentences) = (vec![Scope::Any], Vec::new());
    let mut check = |scope, what: &str, are: &str, values: Vec<String>| {
        if values.len() < 2 {
            return scopes.push(scope);
        }
        sentences.push(format!("{what} are not compared: the runs {are} {}.", values.join(", ")));
    };
    check(Scope::Job, "Samples per second and training losses", "are of several jobs:", all(job));
    check(Scope::Unit, "Real positions per second", "count different units:", all(|it| &it.report.unit_of_length));
    check(Scope::Metric, "Validations", "measure different metrics:", all(metric));
    (scopes, sentences)
}

fn job(run: &ComparedRun) -> &str {
    run.report.job.as_deref().unwrap_or_default()
}

fn metric(run: &ComparedRun) -> &str {
    run.report.metric_name.as_deref().unwrap_or_default()
}

/// Returns the keys whose values differ; a run whose configuration is not known has no say.
fn differences(runs: &[ComparedRun]) -> Vec<Difference> {
    let known = || runs.iter().filter(|it| !it.settings.is_empty());
    let keys: BTreeSet<&String> = known().flat_map(|it| it.settings.keys()).collect();
    let differs = |key: &&String| known().map(|it| it.settings.get(*key)).collect::<BTreeSet<_>>().len() != 1;
    let difference = |key: &String| Difference {
        key: key.clone(),
        values: runs.iter().map(|it| it.settings.get(key).cloned()).collect(),
    };
    keys.into_iter().filter(differs).map(difference).collect()
}
