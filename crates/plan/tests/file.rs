//! Plans as files: what is read back, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use plimsoll_plan::{
    Compared, Fingerprint, Fit, FleetPlan, MemoryPlan, PLAN_FILE, PLAN_VERSION, Pace, PlanError, PlannedCell,
};
use plimsoll_predict::{Booked, Correction, Phase, Source};
use plimsoll_types::{Bytes, Extent, Fraction, Prediction, Recompute, StepShape};

fn fingerprint() -> Fingerprint {
    Fingerprint {
        model: "a model of 3 layers".to_owned(),
        optimizer: "Adam".to_owned(),
        dtype: "f32".to_owned(),
        recompute: Recompute::NEVER,
        effective_batch_size: 32,
        device: "a card".to_owned(),
        fusion: false,
        autotune: false,
        versions: Fingerprint::versions(),
    }
}

fn cell(batch: u32, mib: u64) -> PlannedCell {
    PlannedCell {
        phase: Phase::Train,
        batch,
        extent: 64.into(),
        resident: Bytes::mib(5),
        nodes: 0,
        packed: Bytes::ZERO,
        reserved: Bytes::mib(mib),
        upper: Bytes::mib(mib),
        in_run: None,
        in_use: None,
        upper_in_use: None,
        page: Bytes::mib(2),
        largest_allocation: Bytes::mib(u64::from(batch)),
        source: Source::DryRun,
        fit: Fit::Fits,
        planning_ms: 1.5,
    }
}

fn plan(cells: Vec<PlannedCell>) -> MemoryPlan {
    MemoryPlan::new(fingerprint(), Bytes::mib(100), Fraction::try_new(0.9).unwrap(), cells)
}

#[test]
fn a_plan_reads_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(PLAN_FILE);
    let pace = |batch, seconds| Pace { batch, seconds };
    let compared = Compared { extent: 64.into(), n_samples: 9, kept: pace(2, 0.25), recomputed: pace(3, 0.5) };
    let written = MemoryPlan { compared: vec![compared], ..plan(vec![cell(1, 40), cell(2, 80), cell(3, 120)]) };
    written.write(&path).unwrap();
    assert_eq!(MemoryPlan::read(&path, &fingerprint(), false).unwrap(), written);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_plan_of_anything_else_is_refused_with_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(PLAN_FILE);
    plan(vec![cell(1, 40)]).write(&path).unwrap();
    let refused = |now: Fingerprint, parts: &[&str]| {
        let error = MemoryPlan::read(&path, &now, false).unwrap_err();
        assert!(matches!(error, PlanError::OtherProgram { .. }), "{error}");
        let text = error.to_string();
        for part in parts.iter().chain(&["memory_plan.json", "plimsoll plan"]) {
            assert!(text.contains(part), "`{text}` lacks `{part}`");
        }
    };
    refused(Fingerprint { model: "another".to_owned(), ..fingerprint() }, &["model", "a model of 3 layers", "another"]);
    refused(Fingerprint { optimizer: "SGD".to_owned(), ..fingerprint() }, &["optimizer", "Adam", "SGD"]);
    refused(Fingerprint { dtype: "bf16".to_owned(), ..fingerprint() }, &["dtype", "f32", "bf16"]);
    refused(
        Fingerprint { recompute: Recompute::ALWAYS, ..fingerprint() },
        &["gradient checkpointing", "`off`", "`on`"],
    );
    refused(Fingerprint { effective_batch_size: 64, ..fingerprint() }, &["effective batch size", "32", "64"]);
    refused(Fingerprint { device: "no card".to_owned(), ..fingerprint() }, &["device", "a card", "no card"]);
    refused(Fingerprint { fusion: true, ..fingerprint() }, &["fusion"]);
    refused(Fingerprint { autotune: true, ..fingerprint() }, &["autotune"]);
    refused(
        Fingerprint { versions: "burn 0.1".to_owned(), ..fingerprint() },
        &["versions", &Fingerprint::versions(), "burn 0.1"],
    );
}

#[test]
fn a_program_that_may_choose_what_is_recomputed_takes_a_plan_that_has_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(PLAN_FILE);
    let chosen = Fingerprint { recompute: Recompute::from(48), ..fingerprint() };
    MemoryPlan { fingerprint: chosen, ..plan(vec![cell(1, 40)]) }.write(&path).unwrap();
    assert!(MemoryPlan::read(&path, &fingerprint(), false).is_err());
    assert_eq!(MemoryPlan::read(&path, &fingerprint(), true).unwrap().fingerprint.recompute, Recompute::from(48));
    assert!(MemoryPlan::read(&path, &Fingerprint { fusion: true, ..fingerprint() }, true).is_err());
}

#[test]
fn each_device_finds_its_own_plan_in_the_file_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(PLAN_FILE);
    let cells = vec![cell(1, 40), cell(2, 80), PlannedCell { extent: 32.into(), ..cell(2, 30) }];
    let large = plan(cells.clone());
    let other = Fingerprint { device: "another card".to_owned(), ..fingerprint() };
    let tight = MemoryPlan::new(other.clone(), Bytes::mib(50), Fraction::ONE, cells);
    let written = FleetPlan::new(vec![large.clone(), tight.clone()]);
    written.write(&path).unwrap();
    assert_eq!(FleetPlan::read(&path).unwrap(), written);
    assert_eq!([&fingerprint(), &other].map(|it| MemoryPlan::read(&path, it, false).unwrap()), [large, tight]);
    let told = |now: Fingerprint| MemoryPlan::read(&path, &now, false).unwrap_err().to_string();
    assert!(told(Fingerprint { device: "no card".to_owned(), ..other.clone() }).contains("device `a card`"));
    assert!(told(Fingerprint { model: "small".to_owned(), ..other }).contains("model `a model of 3 layers`"));
}

#[test]
fn devices_take_together_what_each_takes_and_the_tightest_is_named() {
    let cells = |edge: u32| {
        [(1, 20), (2, 40), (4, 80)]
            .map(|(n, mib)| PlannedCell { extent: edge.into(), ..cell(n, u64::from(edge) / 32 * mib) })
    };
    let under = |mib| {
        MemoryPlan::new(fingerprint(), Bytes::mib(mib), Fraction::ONE, cells(32).into_iter().chain(cells(64)).collect())
    };
    let taken = |mib: [u64; 3]| {
        let plan = FleetPlan::new(mib.map(under).to_vec());
        assert_eq!(plan.tightest(), plan.together.last().map(|it| it.tightest));
        plan.together.into_iter().map(|it| (it.extent.edge(), it.batches, it.samples, it.tightest)).collect::<Vec<_>>()
    };
    assert_eq!(taken([100, 160, 50]), [(32, vec![4, 4, 2], 10, 2), (64, vec![2, 4, 1], 7, 2)]);
    assert_eq!(taken([99, 30, 98]), [(32, vec![4, 1, 4], 9, 1), (64, vec![2, 0, 2], 4, 1)]);
    assert_eq!(
        taken([99, 100, 98])[1],
        (64, vec![2, 2, 2], 6, 2),
        "of those that take as many the one with the least left"
    );
    assert_eq!(FleetPlan::new(Vec::new()).tightest(), None);
}

#[test]
fn the_versions_are_those_of_the_build() {
    let lock = fs::read_to_string("../../Cargo.lock").unwrap();
    let named = |name: &str| lock.lines().skip_while(|it| *it != format!("name = \"{name}\"")).nth(1).unwrap();
    let number = |name: &str| named(name).trim_matches(|it: char| !it.is_ascii_digit()).to_owned();
    let [burn, cubecl, own] = ["burn", "cubecl", "plimsoll-plan"].map(number);
    assert_eq!(Fingerprint::versions(), format!("burn {burn}, cubecl {cubecl}, plimsoll {own}"));
}

#[test]
fn a_damaged_plan_and_one_of_another_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(PLAN_FILE);
    let refused = |text: &str, parts: &[&str]| {
        fs::write(&path, text).unwrap();
        let error = MemoryPlan::read(&path, &fingerprint(), false).unwrap_err();
        assert!(matches!(error, PlanError::Malformed { .. }), "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "`{error}` lacks `{part}`");
        }
    };
    plan(vec![cell(1, 40)]).write(&path).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    refused(&whole[..whole.len() / 2], &["memory_plan.json", "line"]);
    refused("", &["EOF"]);
    let version = format!("\"version\": {PLAN_VERSION}");
    let reads = format!("reads version {PLAN_VERSION}");
    refused(&whole.replacen(&version, "\"version\": 99", 1), &["version is 99", &reads]);
    refused(&whole.replacen("\"batch\": 1", "\"batch\": -1", 1), &["-1"]);
    assert!(matches!(
        MemoryPlan::read(&folder.path().join("none.json"), &fingerprint(), false),
        Err(PlanError::File { action: "read", .. })
    ));
}

#[test]
fn a_failed_write_leaves_the_earlier_plan_and_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join(PLAN_FILE);
    let error = plan(vec![cell(1, 40)]).write(&path).unwrap_err();
    assert!(matches!(error, PlanError::File { action: "write", .. }), "{error}");
    // The name is taken by a folder, so that the rename fails.
    fs::create_dir_all(&path).unwrap();
    plan(vec![cell(1, 40)]).write(&path).unwrap_err();
    assert_eq!(fs::read_dir(folder.path().join("missing")).unwrap().count(), 1);
}

#[test]
fn what_real_steps_held_in_another_plan_is_added_to_one_that_none_has_corrected() {
    let booked = |pages: u64, auxiliary: u64| Booked {
        reserved: Bytes::mib(2 * pages),
        auxiliary: Bytes::mib(auxiliary),
        page: Bytes::mib(2),
    };
    let mut first = plan(vec![cell(1, 60)]);
    let mut correction = Correction::default();
    correction.observe(StepShape::new(1, 64), booked(3, 0), booked(4, 1));
    first.training_correction = correction;
    let in_run = Prediction { expected: Bytes::mib(41), upper: Bytes::mib(42) };
    let forward = PlannedCell { phase: Phase::Infer, ..cell(4, 20) };
    let cells = vec![PlannedCell { in_run: Some(in_run), ..cell(1, 40) }, cell(2, 78), forward];
    // A page that a real step held beyond its rehearsal, 1 MiB beside the pages, twice in a bound, and a page more.
    let planned = plan(cells).corrected_as(Some(&first), Bytes::mib(3));
    let bounds: Vec<_> = planned.cells.iter().map(|it| (it.reserved, it.upper)).collect();
    assert_eq!(bounds, [(44, 48), (82, 86), (20, 23)].map(|(a, b)| (Bytes::mib(a), Bytes::mib(b))));
    let in_run = Prediction { expected: Bytes::mib(45), upper: Bytes::mib(50) };
    assert_eq!(planned.cells[0].in_run, Some(in_run));
    assert_eq!(planned.training_correction, first.training_correction);
    // Pages that are larger by now count as they are; without another plan they are all there is.
    let planned = plan(vec![cell(1, 40), cell(2, 80)]).corrected_as(None, Bytes::mib(12));
    assert_eq!(planned.cells.iter().map(|it| it.fit).collect::<Vec<_>>(), [Fit::Fits, Fit::OverBudget]);
    assert_eq!((planned.cells[0].reserved, planned.cells[0].upper), (Bytes::mib(40), Bytes::mib(52)));
}

#[test]
fn another_capacity_changes_what_fits() {
    let plan = plan(vec![cell(1, 40), cell(2, 80), cell(3, 120)]);
    let fits = |plan: &MemoryPlan| plan.cells.iter().map(|it| it.fit).collect::<Vec<_>>();
    assert_eq!(fits(&plan), [Fit::Fits, Fit::Fits, Fit::OverBudget]);
    assert_eq!(plan.first(Phase::Train).map(|it| it.batch), Some(2));
    let smaller = plan.under(Bytes::mib(50), Fraction::ONE);
    assert_eq!(fits(&smaller), [Fit::Fits, Fit::OverBudget, Fit::OverBudget]);
    smaller.check().unwrap();
}

#[test]
fn a_plan_whose_smallest_step_does_not_fit_says_what_would_help() {
    let error = plan(vec![cell(2, 120), cell(4, 240)]).check().unwrap_err().to_string();
    for part in ["2 × 64", "120.00 MiB", "90.00 MiB", "133.34 MiB", "batch_min", "smaller patches", "checkpointing"] {
        assert!(error.contains(part), "`{error}` lacks `{part}`");
    }
    assert!(!error.contains("was tried"), "{error}");
    let sparing = Fingerprint { recompute: Recompute::ALWAYS, ..fingerprint() };
    let sparing = MemoryPlan::new(sparing, Bytes::mib(100), Fraction::ONE, vec![cell(2, 120)]);
    let error = sparing.check().unwrap_err().to_string();
    assert!(error.contains("gradient checkpointing was tried; any of these would help"), "{error}");
    assert!(!error.contains("memory.gradient_checkpointing"), "{error}");
    assert!(matches!(plan(vec![]).check(), Err(PlanError::NoCell)));
}

#[test]
fn a_plan_that_trains_and_cannot_validate_says_so_where_nothing_would_refuse() {
    let validation = |batch, edge: u32, mib| PlannedCell {
        phase: Phase::Infer,
        extent: edge.into(),
        page: Bytes::ZERO,
        source: Source::Memo,
        ..cell(batch, mib)
    };
    let cells = vec![cell(1, 40), validation(1, 128, 95), validation(2, 128, 180), validation(1, 64, 30)];
    let unfit = plan(cells.clone());
    let error = unfit.check().unwrap_err();
    assert!(
        matches!(error, PlanError::ValidationDoesNotFit { shape, .. } if shape == StepShape::new(1, 128)),
        "{error}"
    );
    let error = error.to_string();
    for part in ["1 × 128", "95.00 MiB", "90.00 MiB", "100.00 MiB in all", "a capacity of 105.56 MiB"] {
        assert!(error.contains(part), "`{error}` lacks `{part}`");
    }
    assert_eq!(unfit.longest_validation(), Some(64));
    // Under more memory one item fits, however many do not; and a device with pages refuses by itself.
    plan(cells.clone()).under(Bytes::mib(106), Fraction::try_new(0.9).unwrap()).check().unwrap();
    let paged = cells.into_iter().map(|it| PlannedCell { page: Bytes::mib(2), ..it }).collect();
    plan(paged).check().unwrap();
}

#[test]
fn a_plan_holds_every_outermost_extent_of_a_validation_against_the_budget() {
    let validation = |batch, edges: [u32; 2], mib| PlannedCell {
        phase: Phase::Infer,
        extent: Extent::try_new(&edges).unwrap(),
        page: Bytes::ZERO,
        ..cell(batch, mib)
    };
    // Many positions and little memory, fewer and more, and one that both cover.
    let cells = vec![cell(1, 40), validation(1, [8, 8], 50), validation(2, [8, 8], 95), validation(1, [2, 8], 20)];
    plan(cells.clone()).check().unwrap();
    let long = validation(1, [2, 24], 92);
    let error = plan(cells.into_iter().chain([long]).collect()).check().unwrap_err();
    assert!(matches!(error, PlanError::ValidationDoesNotFit { shape, .. } if shape.edges() == [2, 24]), "{error}");
}

#[test]
fn a_cell_that_never_fits_stays_so_under_any_capacity() {
    let never = PlannedCell { fit: Fit::NeverFits, ..cell(2, 20) };
    let plan = plan(vec![cell(1, 40), never]).under(Bytes::gib(100), Fraction::ONE);
    assert_eq!(plan.cells[1].fit, Fit::NeverFits);
}

#[test]
fn a_run_is_told_of_the_cells_of_its_ladder_that_fit() {
    let in_run = Prediction { expected: Bytes::mib(50), upper: Bytes::mib(52) };
    let cells = vec![PlannedCell { in_run: Some(in_run), ..cell(1, 40) }, cell(2, 80), cell(3, 120)];
    let plan = MemoryPlan { ladder: [1, 3].map(|n| StepShape::new(n, 64)).to_vec(), ..plan(cells) };
    let uppers = |plan: &MemoryPlan| plan.needs().iter().map(|it| (it.shape.samples, it.upper)).collect::<Vec<_>>();
    assert_eq!(uppers(&plan), [(1, Bytes::mib(52))]);
    assert_eq!(plan.first(Phase::Train).map(|it| it.batch), Some(1), "2 is no rung");
    // On a larger card the third was not planned as the run finds it: a page more is room for that.
    let larger = plan.under(Bytes::mib(200), Fraction::ONE);
    assert_eq!(uppers(&larger), [(1, Bytes::mib(52)), (3, Bytes::mib(122))]);
    assert_eq!(larger.first(Phase::Train).map(|it| it.batch), Some(3));
}
