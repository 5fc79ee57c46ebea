//! `cargo xtask bench overhead`: what Plimsoll costs inside a real run.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::networks;
use crate::process::{root, run as run_command};

const PARTS: [&str; 8] = ["probe", "predict", "policy", "guard", "sampler", "monitor", "rest", "total"];

pub(super) fn run() -> anyhow::Result<()> {
    let folder = root().join("target/bench");
    let out = folder.join("overhead-run");
    let mut command = Command::new(networks::shipped_program("plimsoll")?);
    command.args(["train", "--steps", "200", "--overwrite", "--out"]).arg(&out).current_dir(root());
    fs::create_dir_all(&folder)?;
    run_command(command)?;

    let measured = out.join("overhead.json");
    let json = fs::read(&measured).with_context(|| format!("failed to read {}", measured.display()))?;
    let table = table(&serde_json::from_slice(&json)?)?;
    // Whole, as it was in the run directory, and beside the other reports.
    let published = folder.join("overhead.json");
    fs::rename(&measured, &published)?;
    println!("{table}{}", published.display());
    Ok(())
}

fn table(report: &Value) -> anyhow::Result<String> {
    let number = |pointer: &str| {
        report.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("overhead.json has no {pointer}"))
    };
    let mut table = format!("median of {} steps         µs  of the step\n", number("/steps")?);
    let step = number("/step_us")?;
    let mut row =
        |name: &str, micros: f64, ratio: f64| writeln!(table, "{name:<22} {micros:>9.1}  {:>9.3} %", 100.0 * ratio);
    for part in PARTS {
        let micros = number(&format!("/median_us/{part}"))?;
        row(part, micros, if part == "total" { number("/overhead_ratio")? } else { micros / step })?;
    }
    row("check before optimizer", number("/check_us")?, number("/check_ratio")?)?;
    row("step", step, 1.0)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_each_part_and_its_share() {
        let mut report = serde_json::json!({
            "steps": 200,
            "median_us": {"probe": 1.0, "predict": 8.0, "policy": 2.0, "guard": 0.5, "sampler": 20.0, "monitor": 10.25,
                "rest": 3.0, "total": 44.75},
            "check_us": 500.0, "step_us": 100_000.0, "overhead_ratio": 0.000_447_5, "check_ratio": 0.005,
        });
        let expected = "\
median of 200 steps         µs  of the step
probe                        1.0      0.001 %
predict                      8.0      0.008 %
policy                       2.0      0.002 %
guard                        0.5      0.001 %
sampler                     20.0      0.020 %
monitor                     10.2      0.010 %
rest                         3.0      0.003 %
total                       44.8      0.045 %
check before optimizer     500.0      0.500 %
step                    100000.0    100.000 %
";
        assert_eq!(table(&report).unwrap(), expected);
        report["median_us"]["guard"] = Value::Null;
        assert_eq!(table(&report).unwrap_err().to_string(), "overhead.json has no /median_us/guard");
    }
}
