//! Runs of which a machine is gone.

use crate::common::text;
use crate::{check_epochs, done, has_ranks, own_launcher, plimsoll, steps_of};

/// Starts ranks as `mpirun` does, of which one machine is gone after the first checkpoint: the second of two that the run is
/// told it has.
const LAUNCHER_THAT_LOSES_A_MACHINE: &str = r#"#!/bin/sh
case "$*" in
    "-host gone -n 1 true") exit 255 ;;
    "-host here -n 1 true") exit 0 ;;
    "-host here:1 "*) shift 2 ;;
    *)
        exec 3<&0
        "$MPIRUN" "$@" <&3 &
        while kill -0 $! && ! ls "$OUT"/checkpoints/step-*[1-9]* > /dev/null 2>&1; do sleep 0.01; done
        kill -9 $!
        wait
        sed -i 's/"machines":\[.*\]/"machines":["here","gone"]/' "$OUT/processes.jsonl"
        exit 255
        ;;
esac
exec "$MPIRUN" "$@"
"#;

#[test]
fn a_run_goes_on_without_the_ranks_of_a_machine_that_does_not_come_back() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let sets = ["train.checkpoint_every=2"];
    let mut command = plimsoll(&["--ranks", "2", "--steps", "120", "--capacity", "40MiB"], &out, &sets);
    own_launcher(&mut command, folder.path(), LAUNCHER_THAT_LOSES_A_MACHINE).env("OUT", &out);
    let said = text(&done(command).stderr);
    assert!(said.contains("gone does not answer: going on with 1 of 2 ranks"), "{said}");
    assert!(said.contains("lost by its launcher, which ended with code 255, after step"), "{said}");
    assert!(0 < check_epochs(&out));
    assert_eq!(steps_of(&out).len(), 120);
    assert!((2..120).contains(&steps_of(&out.join("ranks/1")).len()), "the second rank has begun, and is gone");
}
