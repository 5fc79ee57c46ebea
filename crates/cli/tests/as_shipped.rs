//! What puts runs to the test changes nothing of the program that ships.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

use serde_json::json;

mod common;

use common::text;

/// Two steps in seconds.
const SMALL: [&str; 8] = [
    "--steps=2",
    "--capacity=512MiB",
    "--set=sr.channels=4",
    "--set=sr.blocks=1",
    "--set=sr.crops_per_image=4",
    "--set=batch.effective_batch_size=4",
    "--set=batch.patch_min=16",
    "--set=batch.patch_max=16",
];

#[test]
fn variables_that_ask_for_faults_and_for_a_simulated_device_do_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (out, used) = (folder.path().join("run"), folder.path().join("used"));
    let faults = json!({ "used": used, "faults": [{ "id": 1, "at": 1, "kind": "kill" }] });
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--no-supervise"]).args(SMALL).arg("--out").arg(&out);
    let output = command.env("PLIMSOLL_SIMULATED", "1").env("PLIMSOLL_FAULTS", faults.to_string()).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains("simulated") && !used.exists(), "{stderr}");
}
