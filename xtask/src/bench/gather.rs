//! What benchmarks have written, as figures.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::figures::Figures;

/// What Criterion writes of each benchmark: who it is, and what came of it.
const IDENTITY: &str = "benchmark.json";
const ESTIMATES: &str = "estimates.json";
/// Its folder of the last measurement, beside that of the one before.
const LAST: &str = "new";

/// Fields of reports of which less is better, with what is measured and its unit.
const FIELDS: [(&str, &str, &str); 13] = [
    ("ns_per_sample", "time", "ns a sample"),
    ("bytes_per_sample", "memory", "bytes a sample"),
    ("waste", "padding", "share"),
    ("mates_kept", "mates kept", "share"),
    ("cpu_ms", "time", "ms"),
    ("resume_ms", "resuming", "ms"),
    ("position_us", "position", "us"),
    ("position_bytes", "position as JSON", "bytes"),
    ("late", "not back in time", "disturbances"),
    ("slowest", "until it is back", "steps"),
    ("out_of_memory", "out of memory", "steps"),
    ("changes_per_1000", "changes", "in 1000 steps"),
    ("state_most", "state", "bytes"),
];

/// Fields that say of what a row is, in this order.
const OF: [&str; 7] = ["name", "kind", "data", "setting", "row_len", "n", "n_changes"];

/// Adds the median of every benchmark below a folder of Criterion's.
pub(super) fn criterion(folder: &Path, figures: &mut Figures) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|it| it == LAST) && path.join(IDENTITY).is_file() {
            let name = text(&read(&path.join(IDENTITY))?, "/full_id")?;
            let estimates = path.join(ESTIMATES);
            let median = read(&estimates)?.pointer("/median/point_estimate").and_then(Value::as_f64);
            let missing = || format!("{} has no /median/point_estimate", estimates.display());
            figures.add(name, median.with_context(missing)?, "ns")?;
        } else if path.is_dir() {
            criterion(&path, figures)?;
        }
    }
    Ok(())
}

/// Adds what the rows of a report say, of all its parts.
pub(super) fn report(name: &str, path: &Path, figures: &mut Figures) -> anyhow::Result<()> {
    rows(name, &read(path)?, figures).with_context(|| format!("failed to gather {}", path.display()))
}

/// Adds the known fields of a row, or of all rows of a part; a part that is a list has its name before those of its rows.
fn rows(name: &str, part: &Value, figures: &mut Figures) -> anyhow::Result<()> {
    if let Some(list) = part.as_array() {
        for row in list {
            rows(name, row, figures)?;
        }
    } else if let Some(row) = part.as_object() {
        let words = OF.iter().filter_map(|key| word(row.get(*key)?));
        let of = std::iter::once(name.to_owned()).chain(words).collect::<Vec<_>>().join("/");
        for (key, what, unit) in FIELDS {
            if let Some(median) = row.get(key).and_then(Value::as_f64) {
                figures.add(format!("{of}/{what}"), median, unit)?;
            }
        }
        for (key, it) in row.iter().filter(|(_, it)| it.is_array() || it.is_object()) {
            let below = if key == "rows" { of.clone() } else { format!("{of}/{key}") };
            rows(&below, it, figures)?;
        }
    }
    Ok(())
}

fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| Some(value.as_u64()?.to_string()))
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let parse = || -> anyhow::Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    parse().with_context(|| format!("failed to read {}", path.display()))
}

fn text(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    Ok(text.with_context(|| format!("{value} has no {pointer}"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::files::write_whole;
    use crate::process::root;

    #[test]
    fn the_medians_of_criterion_s_last_measurement_are_found_at_any_depth() {
        let folder = root().join("target/bench/tests/criterion");
        // What an earlier version of this test has left.
        drop(fs::remove_dir_all(&folder));
        let put = |path: &str, median: f64| {
            let place = folder.join(path);
            write_whole(&place.join(IDENTITY), &json!({ "full_id": path }).to_string()).unwrap();
            let estimates = json!({ "mean": { "point_estimate": 9.0 }, "median": { "point_estimate": median } });
            write_whole(&place.join(ESTIMATES), &estimates.to_string()).unwrap();
        };
        put("guard/new", 12.5);
        put("guard/base", 99.0);
        put("collate/copy/64/new", 300.0);
        let mut found = Figures::default();
        criterion(&folder, &mut found).unwrap();
        let medians: Vec<_> = found.by_name.iter().map(|(name, it)| (name.as_str(), it.median)).collect();
        assert_eq!(medians, [("collate/copy/64/new", 300.0), ("guard/new", 12.5)]);
    }

    #[test]
    fn rows_have_the_names_of_what_they_are_of() {
        let mut found = Figures::default();
        let rows_of = json!({
            "clock": "processor",
            "rows": [{"data": "chats", "setting": "window", "n": 100, "ns_per_sample": 13.0, "waste": 0.01, "mates_kept": null}],
            "packed": [
                {"data": "chats", "n": 100, "row_len": 8192, "ns_per_sample": 20.0, "waste": 0.02, "resume_ms": 0.25},
            ],
            "resume": {"data": "speech", "n": 7, "cpu_ms": 0.5},
        });
        rows("sampler", &rows_of, &mut found).unwrap();
        let names: Vec<_> =
            found.by_name.iter().map(|(name, it)| format!("{name}: {} {}", it.median, it.unit)).collect();
        assert_eq!(
            names,
            [
                "sampler/chats/window/100/padding: 0.01 share",
                "sampler/chats/window/100/time: 13 ns a sample",
                "sampler/packed/chats/8192/100/padding: 0.02 share",
                "sampler/packed/chats/8192/100/resuming: 0.25 ms",
                "sampler/packed/chats/8192/100/time: 20 ns a sample",
                "sampler/resume/speech/7/time: 0.5 ms",
            ]
        );
    }

    #[test]
    fn rows_that_nothing_tells_apart_are_refused() {
        let rows_of =
            json!({"rows": [{"name": "calm", "late": 0}, {"name": "bursts", "late": 0}, {"name": "calm", "late": 2}]});
        let error = rows("recovery", &rows_of, &mut Figures::default()).unwrap_err();
        let expected = "two figures are named `recovery/calm/not back in time`: 0 disturbances and 2 disturbances";
        assert_eq!(error.to_string(), expected);
    }
}
