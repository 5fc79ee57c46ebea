//! What is not the same on every machine.

use std::collections::{HashMap, VecDeque};

/// Keys whose values are a clock's, or depend on how far threads are.
const CLOCKS: [&str; 10] = [
    "waited_seconds",
    "waited_share",
    "ready_steps",
    "mean_ready_steps",
    "seconds",
    "undone_seconds",
    "waiting_seconds",
    "samples_per_second",
    "real_positions_per_second",
    "overhead_us_per_step",
];

/// Keys whose values networks or functions of the system compute: the order of a sum is the processor's.
const COMPUTED: [&str; 7] = ["loss", "gradient_norm", "metric", "baseline", "ratio", "weight", "learning_rate"];

/// No other table has as many lines between its columns.
const COLUMNS_OF_TASKS: usize = 8;

/// By how much these may differ from what was accepted: far more than the order of sums makes in so few steps, and far
/// less than another step would.
const TOLERANCE: f64 = 2e-3;

/// What stands before and after a value of a clock, a network or the machine in texts for people.
const IN_SENTENCES: [(&str, &str); 12] = [
    ("data        loaded in ", ","),
    (" was completed in ", "\n"),
    ("| time | ", " |"),
    ("| overhead per step | ", " |"),
    ("| reading ahead | ", " |"),
    (" validation | ", " |"),
    (" Larger micro-batches ", "\n"),
    ("Overfitting: ", "\n"),
    ("The model got worse: ", "\n"),
    ("On what was held out ", "\n"),
    (" steps were done again, ", " |"),
    (" (", " per second)"),
];

/// What a line has that is shown only while something takes long.
const BEAT: &str = " s so far";

/// Returns a text without what depends on the machine.
pub(crate) fn redacted(text: &str) -> String {
    let text: String = text.split_inclusive('\n').filter(|line| !line.contains(BEAT)).collect();
    let text = without_clocks(&text);
    let text = IN_SENTENCES.iter().fold(text, |text, (before, after)| without_values(&text, before, after));
    let text: String = text.split_inclusive('\n').map(without_columns).collect();
    map_numbers(&text, &COMPUTED, |number| number.parse().map_or(number.to_owned(), rounded))
}

/// Returns a log or a report as if it had taken no time.
pub(crate) fn without_clocks(text: &str) -> String {
    map_numbers(text, &CLOCKS, |_| "0.0".to_owned())
}

/// Returns a text with the accepted lines in the place of those that differ from them only as machines do.
pub(crate) fn steadied(text: &str, accepted: &str) -> String {
    let mut known: HashMap<String, VecDeque<&str>> = HashMap::new();
    for line in accepted.lines() {
        known.entry(masked(line)).or_default().push_back(line);
    }
    let steady = |line| {
        let old = known.get_mut(&masked(line)).and_then(VecDeque::pop_front);
        old.filter(|old| is_close(&numbers(line), &numbers(old))).unwrap_or(line)
    };
    text.lines().map(steady).collect::<Vec<_>>().join("\n")
}

fn is_close(new: &[f64], old: &[f64]) -> bool {
    new.iter().zip(old).all(|(new, old)| (new - old).abs() <= TOLERANCE * old.abs())
}

fn masked(line: &str) -> String {
    map_numbers(line, &COMPUTED, |_| "~".to_owned())
}

fn numbers(line: &str) -> Vec<f64> {
    let mut numbers = Vec::new();
    map_numbers(line, &COMPUTED, |number| {
        numbers.extend(number.parse::<f64>());
        String::new()
    });
    numbers
}

/// Four digits: half of the last one is less than the tolerance.
fn rounded(value: f64) -> String {
    format!("{value:.3e}").parse::<f64>().map_or(value.to_string(), |it| it.to_string())
}

/// Replaces the numbers that have one of these keys in JSON.
fn map_numbers(text: &str, keys: &[&str], mut map: impl FnMut(&str) -> String) -> String {
    let (mut mapped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("\":") {
        let key = rest[..at].rsplit('"').next().unwrap_or_default();
        let start = at + 2 + rest[at + 2..].len() - rest[at + 2..].trim_start_matches(' ').len();
        let end = start + rest[start..].find(|it: char| !it.is_ascii_digit() && !"+-.eE".contains(it)).unwrap_or(0);
        mapped.push_str(&rest[..start]);
        let number = &rest[start..end];
        mapped.push_str(&if keys.contains(&key) && !number.is_empty() { map(number) } else { number.to_owned() });
        rest = &rest[end..];
    }
    mapped + rest
}

/// Replaces what stands between two texts on a line.
fn without_values(text: &str, before: &str, after: &str) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| {
        let line = part.find('\n').unwrap_or(part.len());
        match part.find(after).filter(|at| *at <= line) {
            Some(at) => done + before + "~" + &part[at..],
            None => done + before + part,
        }
    })
}

/// Replaces what networks have computed in a row of a table of tasks.
fn without_columns(line: &str) -> String {
    if line.matches('|').count() < COLUMNS_OF_TASKS {
        return line.to_owned();
    }
    let cell = |cell: &str| {
        let is_computed = cell.contains('.') && cell.trim().parse::<f64>().is_ok();
        if is_computed { " ~ ".to_owned() } else { cell.to_owned() }
    };
    line.split('|').map(cell).collect::<Vec<_>>().join("|")
}

#[test]
fn clocks_stand_still_and_networks_keep_four_digits() {
    let line = r#"{"event":"step_done","step":7,"loss":0.123456,"learning_rate":0.001,"seconds":0.25,"peak":123456}"#;
    let expected = r#"{"event":"step_done","step":7,"loss":0.1235,"learning_rate":0.001,"seconds":0.0,"peak":123456}"#;
    assert_eq!(redacted(line), expected);
    assert_eq!(
        redacted("  \"metric\": null,\n  \"baseline\": 27.123456\n"),
        "  \"metric\": null,\n  \"baseline\": 27.12\n"
    );
    assert_eq!(redacted("| pair | 180 | 0.6953 | a | b | c | d |\n"), "| pair | 180 | ~ | a | b | c | d |\n");
    assert_eq!(redacted("| time | 1m 05s |\nflex (1 thread)"), "| time | ~ |\nflex (1 thread)");
    let loaded = |seconds| redacted(&format!("data        loaded in {seconds} s, peak 24.00 MiB\n"));
    assert_eq!(loaded("0.0"), "data        loaded in ~, peak 24.00 MiB\n");
    assert_eq!(loaded("0.0"), loaded("71.3"));
    assert_eq!(redacted("run 1\ntraining    preparing, 2 s so far\nstep 2\n"), "run 1\nstep 2\n");
}

#[test]
fn a_line_is_the_accepted_one_where_only_last_digits_differ() {
    let accepted = "{\"step\":1,\"loss\":0.1235}\n{\"step\":2,\"loss\":0.5}";
    assert_eq!(steadied("{\"step\":1,\"loss\":0.1236}\n{\"step\":2,\"loss\":0.5009}", accepted), accepted);
    let others = ["{\"step\":1,\"loss\":0.1239}", "{\"step\":3,\"loss\":0.5}", "{\"step\":2,\"loss\":0.502}"];
    assert_eq!(steadied(&others.join("\n"), accepted), others.join("\n"));
}
