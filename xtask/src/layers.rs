//! The layers of the workspace, as data.
//!
//! A crate imports only crates from layers strictly below its own: never up, never sideways.

use anyhow::ensure;
use serde_json::Value;

use crate::process::{Stop, cargo};

/// Lowest layer first.
///
/// `bench` is the highest, since it has the inputs of `proof`.
/// `xtask` has no layer, so it may import none of these.
const LAYERS: &[&[&str]] = &[
    &["plimsoll-types"],
    &[
        "plimsoll-probe",
        "plimsoll-predict",
        "plimsoll-policy",
        "plimsoll-finder",
        "plimsoll-guard",
        "plimsoll-sampler",
        "plimsoll-fleet",
        "plimsoll-monitor",
        "plimsoll-files",
        "plimsoll-signal",
    ],
    &["plimsoll-step", "plimsoll-nn", "plimsoll-fixtures"],
    &["plimsoll-plan"],
    &["plimsoll-train"],
    &["plimsoll-learner"],
    &["plimsoll"],
    &["plimsoll-workloads"],
    &["plimsoll-cli", "plimsoll-proof", "plimsoll-chaos"],
    &["plimsoll-bench"],
];

/// Imported by nobody, from whatever layer: that `cli` is a library is for the binaries of its own package.
const PROGRAMS: [&str; 2] = ["plimsoll-cli", "plimsoll-chaos"];

/// Importable from every layer, but only under `[dev-dependencies]`.
const DEV_ONLY: &str = "plimsoll-fixtures";

/// The program draws the data that come with it where the sources are gone.
const DRAWS: &str = "plimsoll-cli";

/// What has Burn by way of what it calls: the program, and a benchmark of a job.
const BY_WAY: [&str; 2] = ["plimsoll-cli", "plimsoll-bench"];

/// Third-party crates, each with the crates that their family (`burn`, `burn-core`, ..) is confined to.
const CONFINED: &[(&str, &[&str])] = &[
    (
        "burn",
        &[
            "plimsoll-plan",
            "plimsoll-nn",
            "plimsoll-step",
            "plimsoll-train",
            "plimsoll-learner",
            "plimsoll",
            "plimsoll-workloads",
            "plimsoll-proof",
        ],
    ),
    ("clap", &["plimsoll-cli"]),
    ("config", &["plimsoll-cli"]),
    ("criterion", &["plimsoll-bench"]),
    ("cubecl", &["plimsoll-plan", "plimsoll-probe"]),
    ("cudarc", &["plimsoll-probe", "plimsoll-fleet"]),
    ("mpi", &["plimsoll-fleet"]),
    ("nvml-wrapper", &["plimsoll-probe"]),
    ("resvg", &["plimsoll-monitor"]),
];

/// Checks the layers of this workspace.
pub(crate) fn check() -> anyhow::Result<()> {
    let output = cargo("metadata --no-deps --format-version 1").output()?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Stop::Child { code: 101 }.into());
    }
    let metadata = serde_json::from_slice(&output.stdout)?;
    let broken = [violations(&metadata), wrong_defaults(&metadata)].concat();
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// Returns one sentence per broken rule, in package order.
fn violations(metadata: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for package in array(&metadata["packages"]) {
        let name = text(&package["name"]);
        if name != "xtask" && layer(name).is_none() {
            broken.push(format!("{name} has no layer yet"));
        }
        let dependencies = array(&package["dependencies"]);
        broken.extend(dependencies.iter().filter_map(|dependency| violation(name, dependency)));
    }
    broken
}

/// Returns one sentence per crate that is a default member of the workspace and may import Burn, or is none and may not.
fn wrong_defaults(metadata: &Value) -> Vec<String> {
    let defaults = array(&metadata["workspace_default_members"]);
    let wrong = array(&metadata["packages"]).iter().filter_map(|package| {
        let name = text(&package["name"]);
        match (takes_burn(name), defaults.contains(&package["id"])) {
            (true, true) => Some(format!("{name} takes Burn to build, and is among default-members")),
            (false, false) => Some(format!("{name} takes no Burn to build, and is not among default-members")),
            _ => None,
        }
    });
    wrong.collect()
}

/// Whether a crate takes Burn to build.
pub(crate) fn takes_burn(name: &str) -> bool {
    let (_, with_burn) = CONFINED[0];
    with_burn.contains(&name) || BY_WAY.contains(&name)
}

fn violation(name: &str, dependency: &Value) -> Option<String> {
    let imported = text(&dependency["name"]);
    if let Some((_, homes)) = CONFINED.iter().find(|(family, _)| is_family(imported, family))
        && !homes.contains(&name)
    {
        return Some(format!("{name} imports {imported}, which lives only in {}", homes.join(" and ")));
    }
    if imported == DEV_ONLY && layer(name).is_some() {
        return (dependency["kind"] != "dev" && name != DRAWS)
            .then(|| format!("{name} imports {imported} outside [dev-dependencies]"));
    }
    if PROGRAMS.contains(&imported) {
        return Some(format!("{name} imports {imported}, which is a program"));
    }
    let is_below = layer(imported) < layer(name);
    (is_family(imported, "plimsoll") && !is_below).then(|| format!("{name} imports {imported}, which is not below it"))
}

fn is_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the index of a crate's layer; `None` is below all of them.
fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|crates| crates.contains(&name))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_layered() {
        check().unwrap();
    }

    #[test]
    fn the_picture_in_the_book_has_each_crate_in_its_layer() {
        let page = std::fs::read_to_string(crate::process::root().join("docs/layers.md")).unwrap();
        let picture = page.split("```").nth(1).unwrap();
        let rows = picture.lines().skip(1).filter(|row| !row.trim().is_empty() && !row.contains(['│', '┄']));
        let drawn: Vec<Vec<&str>> = rows
            .zip(LAYERS.iter().rev())
            .map(|(row, crates)| row.split_whitespace().take(crates.len()).collect())
            .collect();
        let names = |crates: &&[&'static str]| crates.iter().map(|it| it.trim_start_matches("plimsoll-")).collect();
        let layers: Vec<Vec<&str>> = LAYERS.iter().rev().map(names).collect();
        assert_eq!(drawn, layers);
    }

    #[test]
    fn what_takes_burn_is_no_default_member_and_all_else_is() {
        let metadata = serde_json::json!({
            "packages": [{"name": "plimsoll-step", "id": "a"}, {"name": "plimsoll-guard", "id": "b"}, {"name": "xtask", "id": "c"}],
            "workspace_default_members": ["a", "c"],
        });
        assert_eq!(
            wrong_defaults(&metadata),
            [
                "plimsoll-step takes Burn to build, and is among default-members",
                "plimsoll-guard takes no Burn to build, and is not among default-members",
            ]
        );
    }

    #[test]
    fn every_wrong_direction_is_reported() {
        let metadata = serde_json::json!({"packages": [
            {"name": "plimsoll-policy", "dependencies": [
                {"name": "plimsoll-types", "kind": null},
                {"name": "plimsoll-fixtures", "kind": "dev"},
                {"name": "serde", "kind": null},
                {"name": "plimsoll-predict", "kind": "dev"},
                {"name": "cudarc", "kind": null}]},
            {"name": "plimsoll-types", "dependencies": [{"name": "plimsoll-train", "kind": null}]},
            {"name": "plimsoll-train", "dependencies": [
                {"name": "burn", "kind": null},
                {"name": "burn-core", "kind": null},
                {"name": "cubecl-cuda", "kind": null},
                {"name": "plimsoll-fixtures", "kind": null}]},
            {"name": "plimsoll-cli", "dependencies": [
                {"name": "burn-flex", "kind": null},
                {"name": "plimsoll-proof", "kind": null}]},
            {"name": "plimsoll-proof", "dependencies": [
                {"name": "burn", "kind": null},
                {"name": "plimsoll-workloads", "kind": "dev"},
                {"name": "plimsoll-cli", "kind": "dev"}]},
            {"name": "plimsoll-bench", "dependencies": [
                {"name": "plimsoll-proof", "kind": "dev"},
                {"name": "plimsoll-chaos", "kind": "dev"}]},
            {"name": "plimsoll-new", "dependencies": [{"name": "plimsoll-newer", "kind": null}]},
            {"name": "xtask", "dependencies": [
                {"name": "plimsoll-types", "kind": null},
                {"name": "plimsoll-fixtures", "kind": "dev"}]},
        ]});
        assert_eq!(
            violations(&metadata),
            [
                "plimsoll-policy imports plimsoll-predict, which is not below it",
                "plimsoll-policy imports cudarc, which lives only in plimsoll-probe and plimsoll-fleet",
                "plimsoll-types imports plimsoll-train, which is not below it",
                "plimsoll-train imports cubecl-cuda, which lives only in plimsoll-plan and plimsoll-probe",
                "plimsoll-train imports plimsoll-fixtures outside [dev-dependencies]",
                "plimsoll-cli imports burn-flex, which lives only in plimsoll-plan and plimsoll-nn and plimsoll-step and plimsoll-train and plimsoll-learner and plimsoll and plimsoll-workloads and plimsoll-proof",
                "plimsoll-cli imports plimsoll-proof, which is not below it",
                "plimsoll-proof imports plimsoll-cli, which is a program",
                "plimsoll-bench imports plimsoll-chaos, which is a program",
                "plimsoll-new has no layer yet",
                "plimsoll-new imports plimsoll-newer, which is not below it",
                "xtask imports plimsoll-types, which is not below it",
                "xtask imports plimsoll-fixtures, which is not below it",
            ]
        );
    }
}
