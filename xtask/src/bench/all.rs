//! `cargo xtask bench all`: every benchmark that takes no Burn, in one file, beside an earlier one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::comparison::Comparison;
use super::figures::Figures;
use super::{gather, recovery, sampler};
use crate::args::{flags, unknown};
use crate::process::{Stop, cargo, root, run as run_command};

/// Above the differences of two measurements of the same program on an idle machine.
const ABOVE: f64 = 1.1;

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Request {
    /// What the figures are compared with.
    base: Option<PathBuf>,
    /// Figures that were measured before, in place of new ones.
    now: Option<PathBuf>,
    /// Ratio from which on a figure is worse.
    above: f64,
}

pub(super) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let request = request(args)?;
    // Before minutes are spent on what it is compared with.
    let base = request.base.as_deref().map(Figures::read).transpose()?;
    let now = request.now.as_deref().map_or_else(measure, Figures::read)?;
    let Some(base) = base else { return Ok(()) };
    let comparison = Comparison::new(&base, &now, request.above);
    println!("{comparison}");
    anyhow::ensure!(0 < comparison.n_common(), "failed to compare: the two have no figure in common");
    if comparison.n_worse() == 0 { Ok(()) } else { Err(Stop::Worse { n: comparison.n_worse() }.into()) }
}

fn request(args: &[OsString]) -> anyhow::Result<Request> {
    let only = "`bench all` takes nothing but --compare BASE.json, --now FILE.json and --above RATIO";
    let mut request = Request { base: None, now: None, above: ABOVE };
    let mut ratio = None;
    flags(args, only, |flag, value| match flag {
        "compare" => value.path().map(|it| request.base = Some(it)),
        "now" => value.path().map(|it| request.now = Some(it)),
        "above" => value.text().map(|it| ratio = Some(it)),
        _ => unknown(),
    })?;
    if request.base.is_none() && (request.now.is_some() || ratio.is_some()) {
        return Err(Stop::Usage("--now and --above of `bench all` need --compare BASE.json".to_owned()).into());
    }
    Ok(Request { above: ratio.map_or(Ok(ABOVE), |it| above(&it))?, ..request })
}

fn above(ratio: &str) -> Result<f64, Stop> {
    let parsed = ratio.parse().ok().filter(|it: &f64| it.is_finite() && 1.0 <= *it);
    parsed.ok_or_else(|| Stop::Usage(format!("--above is {ratio}, it must be a number from 1 on")))
}

/// Runs the benchmarks, and writes what they say.
fn measure() -> anyhow::Result<Figures> {
    let folder = root().join("target/bench");
    let hot_paths = folder.join("criterion");
    // What is no benchmark any more is not measured any more.
    if hot_paths.exists() {
        fs::remove_dir_all(&hot_paths).with_context(|| format!("failed to delete {}", hot_paths.display()))?;
    }
    let mut command = cargo("bench --package plimsoll-bench");
    command.env("CRITERION_HOME", &hot_paths);
    run_command(command)?;
    sampler(&[])?;
    recovery(&[])?;
    let figures = gathered(&folder, &hot_paths)?;
    let out = folder.join("all.json");
    figures.write(&out)?;
    println!("{} figures in {}", figures.by_name.len(), out.display());
    Ok(figures)
}

fn gathered(folder: &Path, hot_paths: &Path) -> anyhow::Result<Figures> {
    let mut figures = Figures::here();
    gather::criterion(hot_paths, &mut figures)?;
    for report in ["sampler", "recovery"] {
        gather::report(report, &folder.join(format!("{report}.json")), &mut figures)?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(args: &[&str]) -> Result<Request, String> {
        request(&args.iter().map(OsString::from).collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_threshold_is_a_number_from_1_on_and_belongs_to_a_comparison() {
        let request = asked(&["--compare", "/base.json", "--above", "1.25"]).unwrap();
        assert_eq!(request, Request { base: Some("/base.json".into()), now: None, above: 1.25 });
        for wrong in ["0.9", "much", "NaN", "inf"] {
            let message = format!("--above is {wrong}, it must be a number from 1 on");
            assert_eq!(asked(&["--compare", "/base.json", "--above", wrong]), Err(message));
        }
        let message = "--now and --above of `bench all` need --compare BASE.json";
        assert_eq!(asked(&["--above", "1.25"]).unwrap_err(), message);
        assert_eq!(asked(&["--now", "/now.json"]).unwrap_err(), message);
        assert!(asked(&["--compare"]).unwrap_err().starts_with("`bench all` takes nothing but"));
    }

    #[test]
    fn what_got_worse_fails_and_what_did_not_passes() {
        let folder = root().join("target/bench/tests/all");
        let file = |name: &str, median| {
            let (mut figures, path) = (Figures::here(), folder.join(name));
            figures.add("guard/preflight".to_owned(), median, "ns").unwrap();
            figures.write(&path).unwrap();
            path.into_os_string()
        };
        let (base, slower) = (file("base.json", 100.0), file("slower.json", 112.0));
        let compare = |base: &OsString, now: &OsString, above: &str| {
            run(&["--compare".into(), base.clone(), "--now".into(), now.clone(), "--above".into(), above.into()])
        };
        let error = compare(&base, &slower, "1.1").unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Stop::Worse { n: 1 })), "{error}");
        let (other, mut figures) = (folder.join("other.json"), Figures::here());
        figures.add("policy/step".to_owned(), 1.0, "ns").unwrap();
        figures.write(&other).unwrap();
        let error = compare(&other.into_os_string(), &base, "1.1").unwrap_err();
        assert_eq!(error.to_string(), "failed to compare: the two have no figure in common");
        assert!(compare(&base, &slower, "1.2").is_ok() && compare(&slower, &base, "1.1").is_ok());
    }
}
