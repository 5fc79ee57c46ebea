//! Batches planned from a file of lengths, as a user plans them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const BUDGET: u64 = 4_000;

fn plan(folder: &Path, out: &str, budget: u64, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.current_dir(folder).args(["plan-batches", "--lengths", "lengths.txt", "--out", out, "--budget"]);
    command.arg(budget.to_string()).args(args).output().unwrap()
}

fn numbers(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    bytes.chunks(8).map(|it| usize::try_from(u64::from_le_bytes(it.try_into().unwrap())).unwrap()).collect()
}

#[test]
fn a_plan_has_every_sample_once_and_no_batch_above_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let lengths: Vec<u64> = (0..5_000).map(|id| 1 + id * 7_919 % 401).collect();
    let lines: Vec<String> = lengths.iter().map(u64::to_string).collect();
    fs::write(folder.path().join("lengths.txt"), lines.join("\n")).unwrap();
    let runs = [("a", "0", "700"), ("b", "0", "700"), ("c", "1", "700"), ("d", "1", "5000")];
    let plans = runs.map(|(out, epoch, window)| {
        let output = plan(folder.path(), out, BUDGET, &["--seed", "7", "--epoch", epoch, "--window", window]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("samples      5000\nbatches      "));
        numbers(&folder.path().join(out))
    });
    for plan in &plans {
        let (ids, offsets) = plan.split_at(5_000);
        assert_eq!((offsets[0], *offsets.last().unwrap()), (0, 5_000));
        for ends in offsets.windows(2) {
            let longest = ids[ends[0]..ends[1]].iter().map(|id| lengths[*id]).max().unwrap();
            assert!(longest * (ends[1] - ends[0]) as u64 <= BUDGET);
        }
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..5_000));
    }
    assert!(plans[0] == plans[1] && plans[0] != plans[2] && plans[2].len() > plans[3].len());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
}

#[test]
fn a_report_says_in_json_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..3_000u32).map(|id| (1 + id * 7_919 % 401).to_string()).collect();
    fs::write(folder.path().join("lengths.txt"), lines.join("\n")).unwrap();
    let output = plan(folder.path(), "plan", BUDGET, &["--report", "report.json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("report.json")).unwrap()).unwrap();
    let [kept, wanted, reachable] = ["kept", "wanted", "reachable"]
        .map(|key| format!("{:.2} %", 100.0 * report["mates_kept"][key].as_f64().unwrap()));
    let line =
        format!("mates kept   {kept} in the next epoch; {wanted} wanted, at most {reachable} with these lengths\n");
    assert!(stdout.contains(&line), "{stdout}");
    assert!(stdout.contains(&format!("batches      {}\n", report["n_batches"])), "{stdout}");
    let refused = plan(folder.path(), "plan", BUDGET, &["--report", "plan"]);
    assert_eq!(String::from_utf8_lossy(&refused.stderr), "error: failed to write plan: it is to hold the plan\n");
}

#[test]
fn bad_lengths_leave_no_plan() {
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [
        ("5\n6\n4001\n", "failed to read lengths.txt: line 3 has length 4001, the budget has room for 4000 at most"),
        ("5\nsix\n", "failed to read lengths.txt: line 2 is `six`, a whole number from 1 to 4000 is expected"),
        ("", "failed to read lengths.txt: it is empty, one length per line is expected"),
    ] {
        fs::write(folder.path().join("lengths.txt"), text).unwrap();
        let output = plan(folder.path(), "plan", BUDGET, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("error: {expected}\n"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_budget_and_a_window_of_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (budget, window, flag) in [(BUDGET, "0", "--window <N>"), (0, "700", "--budget <N>")] {
        let output = plan(folder.path(), "plan", budget, &["--window", window]);
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(&format!("invalid value '0' for '{flag}'")), "{stderr}");
    }
}
