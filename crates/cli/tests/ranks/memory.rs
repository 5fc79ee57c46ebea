//! A rank that is refused memory.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::text;
use crate::{check_epochs, done, has_ranks, own_launcher, steps_of, weights, with_settings};

/// Starts ranks as `mpirun` does, of which the second alone is told of faults.
const LAUNCHER: &str = r#"#!/bin/sh
shift 2
exec "$MPIRUN" -n 2 sh -c '
    [ "$PMI_RANK$OMPI_COMM_WORLD_RANK" = 1 ] && export PLIMSOLL_FAULTS="$FAULTS_OF_RANK"
    exec "$@"' sh "$@"
"#;

#[test]
fn a_rank_that_is_refused_an_allocation_goes_lower_alone_and_its_supervisor_says_why() {
    let Some(faulty) = option_env!("CARGO_BIN_EXE_plimsoll-faulty") else {
        return eprintln!("skipped: this build leaves `plimsoll-faulty` out");
    };
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (out, used) = (folder.path().join("run"), folder.path().join("used"));
    let fault = r#"{"id":0,"at":30,"kind":"refused_allocation","bytes":200000,"samples":4}"#;
    let wanted = format!(r#"{{"used":"{}","faults":[{fault}]}}"#, used.display());
    let sets = ["batch.batch_min=1", "batch.batch_max=16", "batch.patch_min=32", "batch.patch_max=32"];
    let sets = [&sets[..], &["train.checkpoint_every=10", "train.warm_up_steps=2"]].concat();
    let args = ["--ranks", "2", "--steps", "60", "--capacity", "300MiB"];
    let mut command = with_settings(Command::new(faulty), &args, &out, &sets);
    own_launcher(&mut command, folder.path(), LAUNCHER).env("FAULTS_OF_RANK", wanted);
    let said = text(&done(command).stderr);
    assert!(used.is_file(), "nothing was refused, so nothing is tested: {said}");
    for part in ["worker rank 1 killed by SIGABRT after step ", "; an allocation of ", " was refused while "] {
        assert!(said.contains(part), "{said}");
    }
    let deaths = [out.clone(), out.join("ranks/1")].map(|it| {
        let log = fs::read_to_string(it.join("events.jsonl")).unwrap();
        let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|it| it["event"] == "step_failed" && it["stage"] == "process").count()
    });
    assert_eq!(deaths, [0, 1], "{said}");
    for it in [out.join("refusal"), out.join("ranks/1/refusal")] {
        assert!(!it.exists(), "{} is left", it.display());
    }
    assert!(0 < check_epochs(&out));
    assert_eq!(steps_of(&out).len(), 60);
    assert!(weights(&out, 60).iter().all(|it| it.is_finite()));
}
