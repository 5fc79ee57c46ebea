//! What the log of a run does not say, and where that is kept.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use plimsoll_monitor::{History, RankReport, Restart, RunFacts, UndoneStep};
use plimsoll_train::{Outcome, PROCESSES_FILE, Process, UNDONE_FILE, Why, folders_of_ranks, read_log_with};
use plimsoll_types::Event;

/// What the log does not say, inside a run directory.
pub(crate) const FACTS_FILE: &str = "facts.json";

/// Adds what the end of a run has shown to what was known at its beginning.
pub(crate) fn at_end(facts: RunFacts, outcome: &Outcome, warnings: Vec<String>) -> RunFacts {
    RunFacts {
        overhead_us_per_step: outcome.overhead.map(|it| it.median_us.total),
        waiting: outcome.overhead.map(|it| (it.waiting.seconds, it.waiting.ratio)),
        waiting_for_ranks: outcome.overhead.and_then(|it| it.ranks).map(|it| (it.seconds, it.ratio)),
        mates_kept: outcome.mates_kept,
        warnings,
        seconds: outcome.seconds,
        ..facts
    }
}

/// Adds what other files of the run directory say.
pub(crate) fn with_others(facts: RunFacts, run_dir: &Path) -> RunFacts {
    let (other_ranks, unread) = other_ranks(run_dir);
    RunFacts {
        other_ranks,
        warnings: facts.warnings.into_iter().chain(unread).collect(),
        restarts: restarts(run_dir),
        undone: undone(run_dir),
        out_dir: run_dir.display().to_string(),
        ..facts
    }
}

/// Writes what is kept of the facts.
pub(crate) fn to_json(facts: &RunFacts) -> String {
    serde_json::to_string_pretty(facts).unwrap_or_else(|_| unreachable!("numbers and texts are always JSON")) + "\n"
}

/// Reads what was kept, or says why that cannot be.
pub(crate) fn read(run_dir: &Path) -> Result<RunFacts, String> {
    let path = run_dir.join(FACTS_FILE);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Sums up the logs of the other ranks, of those too that took part for a time, and says which cannot be read.
fn other_ranks(run_dir: &Path) -> (Vec<RankReport>, Vec<String>) {
    let (mut ranks, mut unread) = (Vec::new(), Vec::new());
    for (rank, folder) in folders_of_ranks(run_dir) {
        let mut history = History::default();
        match read_log_with(&folder, &mut |event| history.hear(&event)) {
            Ok(_) => ranks.push(RankReport::new(rank, &history)),
            Err(error) => {
                unread.push(format!("rank {rank} is left out of this report, and its samples with it: {error}"));
            }
        }
    }
    (ranks, unread)
}

/// Returns the deaths that other processes of the run have noted, whoever started them; what cannot be read is left out.
fn restarts(run_dir: &Path) -> Vec<Restart> {
    let text = fs::read_to_string(run_dir.join(PROCESSES_FILE)).unwrap_or_default();
    let processes = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let restart = |Process { step, why, undone_steps, .. }: Process| match why {
        Why::AfterDeath { death } | Why::Resumed { death: Some(death) } => Some(Restart { step, death, undone_steps }),
        Why::Started | Why::Resumed { death: None } => None,
    };
    processes.filter_map(restart).collect()
}

/// Returns the steps that were undone because a process died or a checkpoint was damaged; what cannot be read is left out.
fn undone(run_dir: &Path) -> Vec<UndoneStep> {
    let Ok(file) = File::open(run_dir.join(UNDONE_FILE)) else { return Vec::new() };
    let step = |line: Vec<u8>| match serde_json::from_slice(&line) {
        Ok(Event::StepDone(done)) => Some(done.into()),
        _ => None,
    };
    // Bytes that are no text make no line that is one of ours.
    BufReader::new(file).split(b'\n').map_while(Result::ok).filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_train::EVENTS_FILE;

    use super::*;

    #[test]
    fn a_rank_whose_log_cannot_be_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for (rank, log) in
            [("1", "{\"event\":\"epoch_done\",\"epoch\":0,\"step\":12,\"samples\":96}\n"), ("2", "{}\n{}\n")]
        {
            let own = folder.path().join("ranks").join(rank);
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join(EVENTS_FILE), log).unwrap();
        }
        let facts = RunFacts { warnings: vec!["before".to_owned()], ..RunFacts::default() };
        let facts = with_others(facts, folder.path());
        assert_eq!(facts.other_ranks.iter().map(|it| it.rank).collect::<Vec<_>>(), [1]);
        let [before, unread] = facts.warnings.as_slice() else { panic!("{:?}", facts.warnings) };
        assert!(
            before == "before" && unread.starts_with("rank 2 is left out") && unread.contains("line 1"),
            "{unread}"
        );
    }

    #[test]
    fn every_process_that_died_is_counted_whoever_started_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let why = [
            r#""why":"started""#,
            r#""why":"after_death","death":"killed by SIGKILL after step 10""#,
            r#""why":"resumed","death":"ended after step 77; nothing says of what""#,
            r#""why":"resumed""#,
        ];
        let lines = (1..)
            .zip(why)
            .map(|(n, why)| format!("{{\"process\":{n},\"pid\":7,\"step\":0,{why},\"undone_steps\":9}}\n"));
        fs::write(folder.path().join(PROCESSES_FILE), lines.collect::<String>()).unwrap();
        let deaths: Vec<_> = restarts(folder.path()).into_iter().map(|it| it.death).collect();
        assert_eq!(deaths, ["killed by SIGKILL after step 10", "ended after step 77; nothing says of what"]);
        assert!(undone(folder.path()).is_empty());
    }

    #[test]
    fn an_undone_step_after_bytes_that_are_no_text_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let log = include_str!("../../../../fixtures/logs/fixed.jsonl");
        let step = log.lines().find(|it| it.contains("\"event\":\"step_done\"")).unwrap();
        fs::write(folder.path().join(UNDONE_FILE), [b"\xff\n", step.as_bytes(), b"\n"].concat()).unwrap();
        assert_eq!(undone(folder.path()).len(), 1);
    }
}
