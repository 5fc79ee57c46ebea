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

/// Writes a file of 5 000 samples, and returns it.
fn lines(folder: &Path, name: &str, line: impl Fn(u32) -> String) -> Vec<String> {
    let lines: Vec<_> = (0..5_000).map(line).collect();
    fs::write(folder.join(name), lines.join("\n")).unwrap();
    lines
}

fn json(path: &Path) -> Vec<serde_json::Value> {
    fs::read_to_string(path).unwrap().lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

#[track_caller]
fn planned(folder: &Path, args: &[&str]) -> String {
    let output = plan_of(folder, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn batches_are_arranged_as_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), "lengths.txt", |id| (1 + id * 7_919 % 401).to_string());
    let waste = |args: &[&str]| {
        planned(folder.path(), &[&["--budget", "4000", "--report", "report.json"], args].concat());
        let report: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.path().join("report.json")).unwrap()).unwrap();
        (report["waste"][0].as_f64().unwrap(), report["mates_kept"]["wanted"].as_f64().unwrap())
    };
    let (usual, apart) = (waste(&[]), waste(&["--most-mates-kept", "1"]));
    assert!(apart.0 < usual.0 && (usual.1, apart.1) == (0.03, 1.0), "{usual:?} {apart:?}");
    assert!(waste(&["--least-time", "0"]).0 < usual.0);
    for (args, told) in [
        (["--most-mates-kept", "1.5"], "a number from 0 to 1 is expected"),
        (["--least-time", "-1"], "a number from 0 on is expected"),
    ] {
        let output = plan(folder.path(), "plan", BUDGET, &[&format!("{}={}", args[0], args[1])]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(told), "{stderr}");
    }
}

#[test]
fn two_columns_are_two_budgets_and_batches_go_to_ranks_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let of = |id: u32| [1 + id % 7, 1 + id * 7_919 % 401];
    lines(folder.path(), "lengths.txt", |id| format!("{} {}", of(id)[0], of(id)[1]));
    planned(folder.path(), &["--budget", "64,4000", "--format", "json", "--ranks", "3", "--multiple-of", "4"]);
    let (mut ids, batches) = (Vec::new(), json(&folder.path().join("plan")));
    for (batch, rank) in batches.iter().zip([0, 1, 2].into_iter().cycle()) {
        let own: Vec<_> =
            batch["ids"].as_array().unwrap().iter().map(|it| u32::try_from(it.as_u64().unwrap()).unwrap()).collect();
        let longest = [0, 1].map(|axis| own.iter().map(|id| of(*id)[axis]).max().unwrap());
        assert_eq!((&batch["rank"], &batch["edges"]), (&rank.into(), &longest.to_vec().into()));
        let n = u32::try_from(own.len()).unwrap();
        assert!(n * longest[0] <= 64 && n * longest[1] <= 4_000, "{batch}");
        ids.extend(own);
    }
    assert!(batches.iter().filter(|it| it["ids"].as_array().unwrap().len() % 4 != 0).count() <= 1);
    assert!(batches.len() % 3 == 0, "{} batches", batches.len());
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..5_000));
}

#[test]
fn packed_rows_hold_every_position_once_or_overlap_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), "lengths.txt", |id| (1 + id * 7_919 % 401).to_string());
    let args = ["--budget", "1024", "--row-len", "256", "--overlap", "16", "--format", "json"];
    let said = planned(folder.path(), &args);
    assert!(said.starts_with("pieces ") && said.contains(" full\n"), "{said}");
    let rows_of =
        |batch: &serde_json::Value| serde_json::from_value::<Vec<Vec<[usize; 3]>>>(batch["rows"].clone()).unwrap();
    let batches = json(&folder.path().join("plan"));
    let rows: Vec<_> = batches.iter().flat_map(rows_of).collect();
    // Binary, the pieces and then where each row begins among them.
    planned(folder.path(), &args[..6]);
    let found = numbers(&folder.path().join("plan"));
    let n_pieces = *found.last().unwrap();
    let (flat, begins) = found.split_at(3 * n_pieces);
    assert_eq!(flat, rows.concat().concat());
    assert!(begins.windows(2).map(|it| it[1] - it[0]).eq(rows.iter().map(Vec::len)) && begins[0] == 0);
    let mut pieces = Vec::new();
    for batch in batches {
        let rows: Vec<Vec<[u32; 3]>> = serde_json::from_value(batch["rows"].clone()).unwrap();
        assert!((1..=4).contains(&rows.len()));
        assert!(rows.iter().all(|row| row.iter().map(|[_, start, end]| end - start).sum::<u32>() <= 256));
        pieces.extend(rows.into_iter().flatten());
    }
    pieces.sort_unstable();
    for own in pieces.chunk_by(|a, b| a[0] == b[0]) {
        let length = 1 + own[0][0] * 7_919 % 401;
        assert_eq!((own[0][1], own[own.len() - 1][2]), (0, length));
        assert!(own.windows(2).all(|it| it[1][1] + 16 == it[0][2]), "{own:?}");
    }
    assert_eq!(pieces.iter().filter(|it| it[1] == 0).count(), 5_000);
}

#[test]
fn shares_hold_and_what_is_outside_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), "lengths.txt", |id| (id % 400).to_string());
    let tasks = lines(folder.path(), "tasks.txt", |id| if id % 4 == 0 { "code" } else { "books" }.to_owned());
    let shares = ["--tasks", "tasks.txt", "--shares", "books=0.5,code=0.5", "--ends", "first", "--format", "json"];
    let limits = ["--budget", "2000", "--shortest", "10", "--longest", "300", "--outside", "truncate"];
    let said = planned(folder.path(), &[&shares[..], &limits, &["--report", "report.json"]].concat());
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("report.json")).unwrap()).unwrap();
    let n_short = (0..5_000).filter(|id| id % 400 < 10).count() as u64;
    let counts = ["too_short", "empty"].map(|key| report["left_out"][key].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), n_short);
    assert!(said.contains("left out ") && said.contains("task         code: "), "{said}");
    let ids = json(&folder.path().join("plan")).into_iter().flat_map(|it| it["ids"].as_array().unwrap().clone());
    let ids: Vec<_> = ids.map(|it| usize::try_from(it.as_u64().unwrap()).unwrap()).collect();
    assert!(ids.iter().all(|id| 10 <= id % 400));
    let n_code = ids.iter().filter(|id| tasks[**id] == "code").count();
    assert!((2 * n_code).abs_diff(ids.len()) < ids.len() / 20, "{n_code} of {}", ids.len());
}

#[test]
fn packed_rows_have_the_shares_that_are_asked_for_and_samples_their_weights() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), "lengths.txt", |id| (1 + id % 150).to_string());
    let tasks = lines(folder.path(), "tasks.txt", |id| if id % 4 == 0 { "code" } else { "books" }.to_owned());
    lines(folder.path(), "weights.txt", |id| u8::from(id % 4 == 0).to_string());
    let packed = ["--budget", "512", "--row-len", "128", "--overlap", "0", "--tasks", "tasks.txt", "--format", "json"];
    let of = |args: &[&str]| {
        let said = planned(folder.path(), &[&packed[..], args].concat());
        let rows_of =
            |it: &serde_json::Value| serde_json::from_value::<Vec<Vec<[usize; 3]>>>(it["rows"].clone()).unwrap();
        let rows: Vec<_> = json(&folder.path().join("plan")).iter().flat_map(rows_of).collect();
        (said, rows.concat().into_iter().filter(|it| it[1] == 0).map(|it| it[0]).collect::<Vec<_>>())
    };
    let n_code = |ids: &[usize]| ids.iter().filter(|id| tasks[**id] == "code").count();
    let (said, ids) = of(&["--shares", "books=0.5,code=0.5", "--ends", "first"]);
    assert!((2 * n_code(&ids)).abs_diff(ids.len()) <= 2 && ids.len().abs_diff(2_500) <= 2, "{}", ids.len());
    assert!(said.contains("task         code: 1250 samples, 50.00 %; 50.00 % wanted"), "{said}");
    // In any stretch, too.
    assert!(ids.chunks_exact(400).all(|some| n_code(some).abs_diff(200) <= 20));
    let (_, ids) = of(&["--weights", "weights.txt"]);
    assert!(ids.len() == 5_000 && n_code(&ids) == 5_000);
}

#[test]
fn tasks_are_mixed_by_temperature_or_kept_apart_and_shares_may_be_weights() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), "lengths.txt", |id| (1 + id % 400).to_string());
    let tasks = lines(folder.path(), "tasks.txt", |id| if id % 10 == 0 { "code" } else { "books" }.to_owned());
    let of = |args: &[&str]| {
        let said =
            planned(folder.path(), &[&["--budget", "2000", "--tasks", "tasks.txt", "--format", "json"], args].concat());
        let id = |it: &serde_json::Value| usize::try_from(it.as_u64().unwrap()).unwrap();
        let batches = json(&folder.path().join("plan"));
        let batches = batches.iter().map(|it| it["ids"].as_array().unwrap().iter().map(id).collect());
        (said, batches.collect::<Vec<Vec<_>>>())
    };
    let is_code = |id: &usize| tasks[*id] == "code";
    let share = |batches: &[Vec<usize>]| {
        batches.iter().flatten().filter(|it| is_code(it)).count() as f64 / batches.concat().len() as f64
    };
    // The square roots of 500 and 4500 are as one and three.
    let (said, batches) = of(&["--temperature", "2", "--ends", "first"]);
    assert!((share(&batches) - 0.25).abs() < 1e-3 && said.contains("25.00 % wanted"), "{said}");
    let (_, batches) = of(&["--shares", "code=1,books=0.5", "--normalize-shares", "--ends", "first"]);
    assert!((share(&batches) - 2.0 / 3.0).abs() < 1e-2);
    let (said, _) = of(&["--shares", "code=0.5,books=0.5"]);
    assert!(said.contains("50.00 % wanted, as long as there are any: for 20.00 % of the epoch"), "{said}");
    let (_, batches) = of(&["--homogeneous"]);
    assert!(batches.iter().all(|batch| batch.iter().all(is_code) || !batch.iter().any(is_code)));
    lines(folder.path(), "weights.txt", |id| u8::from(id % 10 == 0).to_string());
    let (_, batches) = of(&["--weights", "weights.txt"]);
    assert!(batches.concat().len() == 5_000 && batches.concat().iter().all(is_code));
}

#[test]
fn samples_of_two_columns_are_left_out_or_cut_by_each() {
    let folder = tempfile::tempdir().unwrap();
    let of = |id: u32| [id % 9, 1 + id % 400];
    lines(folder.path(), "lengths.txt", |id| format!("{} {}", of(id)[0], of(id)[1]));
    let args = ["--budget", "64,4000", "--shortest", "2,10", "--longest", "7,300", "--format", "json"];
    let said = planned(folder.path(), &[&args[..], &["--outside", "skip"]].concat());
    let takes_part = |id: &u64| {
        let [a, b] = of(u32::try_from(*id).unwrap());
        (2..=7).contains(&a) && (10..=300).contains(&b)
    };
    let ids = || {
        let batches = json(&folder.path().join("plan"));
        let mut ids: Vec<_> =
            batches.iter().flat_map(|it| it["ids"].as_array().unwrap()).map(|it| it.as_u64().unwrap()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(), (0..5_000).filter(takes_part).collect::<Vec<_>>());
    assert!(said.contains("too short") && said.contains("too long") && said.contains("empty"), "{said}");
    planned(folder.path(), &[&args[..], &["--outside", "truncate"]].concat());
    assert!(json(&folder.path().join("plan")).iter().all(|it| it["edges"][0].as_u64() <= Some(7)));
    assert_eq!(ids(), (0..5_000).filter(|id| 2 <= id % 9 && 10 <= 1 + id % 400).collect::<Vec<_>>());
}

#[test]
fn groups_stay_together_in_batches_and_in_rows() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path(), "lengths.txt", |id| (20 + id * 7_919 % 61).to_string());
    let groups = lines(folder.path(), "groups.txt", |id| format!("document {}", id * 31 % 5_000 / 4));
    let packed = ["--budget", "4000", "--row-len", "400"];
    for budget in [&["--budget", "1000"][..], &packed] {
        let flags = ["--groups", "groups.txt", "--format", "json", "--report", "report.json"];
        let said = planned(folder.path(), &[budget, &flags].concat());
        assert!(said.contains("\ngroups       1250\n"), "{said}");
        let report: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.path().join("report.json")).unwrap()).unwrap();
        let n_samples = if budget == packed { "n_pieces" } else { "n_samples" };
        assert_eq!((&report[n_samples], &report["groups"]), (&5_000.into(), &1_250.into()));
        let number = |it: &serde_json::Value| usize::try_from(it.as_u64().unwrap()).unwrap();
        // Where the samples of a group are.
        let mut places = vec![std::collections::BTreeSet::new(); 1_250];
        let (mut n, mut see) = (0, |id: usize, place: [usize; 2]| {
            places[groups[id].split_once(' ').unwrap().1.parse::<usize>().unwrap()].insert(place);
        });
        for (at, batch) in json(&folder.path().join("plan")).iter().enumerate() {
            if let Some(rows) = batch["rows"].as_array() {
                let pieces = rows
                    .iter()
                    .enumerate()
                    .flat_map(|(row, of)| of.as_array().unwrap().iter().map(move |it| (row, it)));
                pieces.for_each(|(row, piece)| see(number(&piece[0]), [at, row]));
                n += rows.iter().map(|it| it.as_array().unwrap().len()).sum::<usize>();
            } else {
                let ids = batch["ids"].as_array().unwrap();
                for id in ids {
                    see(number(id), [at, 0]);
                }
                n += ids.len();
                assert!(ids.len() * number(&batch["edges"][0]) <= 1_000, "{batch}");
            }
        }
        assert_eq!(n, 5_000);
        assert!(places.iter().all(|it| it.len() == 1), "{budget:?}");
    }
}

#[test]
fn flags_that_do_not_go_together_are_refused_with_what_would() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lengths.txt"), "3\n300\n").unwrap();
    fs::write(folder.path().join("two.txt"), "3 4\n5 6\n").unwrap();
    fs::write(folder.path().join("tasks.txt"), "code\nbooks\n").unwrap();
    fs::write(folder.path().join("one.txt"), "all\nall\n").unwrap();
    for (args, expected) in [
        (
            &["--budget", "512", "--row-len", "256"][..],
            "line 2 has length 300, a row without `--overlap` has room for 256 at most",
        ),
        (&["--budget", "512", "--row-len", "256", "--overlap", "256"], "`--overlap` is 256, it must be below 256"),
        (&["--budget", "100", "--row-len", "300", "--format", "json"], "a row alone has 300 positions"),
        (&["--budget", "512,9"], "line 1 has 1 lengths, and the budget is numbers for 2"),
        (&["--budget", "512", "--lengths", "two.txt"], "cannot be used multiple times"),
        (
            &["--budget", "512", "--tasks", "tasks.txt", "--shares", "code=0.5"],
            "`books`: one share for each of code, books",
        ),
        (&["--budget", "512", "--tasks", "tasks.txt", "--shares", "code=0.5,prose=0.5"], "`prose`"),
        (
            &["--budget", "512", "--tasks", "tasks.txt", "--shares", "code=0.5,books=0.4"],
            "sum to 0.9, not to 1; `--normalize-shares` divides",
        ),
        (&["--budget", "512", "--shares", "code=1"], "--tasks <FILE>"),
        (&["--budget", "512", "--tasks", "tasks.txt", "--ends", "first"], "--temperature <N>"),
        (&["--budget", "512", "--weights", "tasks.txt"], "tasks.txt: line 1 is `code`, a number from 0 is expected"),
        (&["--budget", "512", "--shortest", "1,2"], "`--shortest` has 2 numbers, one or one for each of 1 columns"),
        (&["--budget", "512", "--multiple-of", "200"], "multiple"),
        (
            &["--budget", "512", "--groups", "one.txt"],
            "group `all` has 2 samples, the longest of length 300, and the budget",
        ),
        (
            &["--budget", "512", "--row-len", "301", "--format", "json", "--groups", "one.txt"],
            "group `all` has 303 positions, and a row has room for 301",
        ),
        (&["--budget", "512", "--groups", "one.txt", "--tasks", "tasks.txt"], "cannot be used with"),
        (&["--budget", "512", "--groups", "two.txt", "--drop-last"], "cannot be used with"),
        (&["--budget", "512", "--row-len", "300", "--tasks", "tasks.txt", "--homogeneous"], "cannot be used with"),
        (
            &["--budget", "512", "--row-len", "300", "--tasks", "tasks.txt", "--shares", "code=0.5,books=0.4"],
            "sum to 0.9, not to 1; `--normalize-shares` divides",
        ),
    ] {
        let output = plan_of(folder.path(), args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{args:?}: {stderr}");
    }
}

fn plan_of(folder: &Path, args: &[&str]) -> Output {
    let all = ["plan-batches", "--lengths", "lengths.txt", "--out", "plan"].iter().chain(args);
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).current_dir(folder).args(all).output().unwrap()
}
