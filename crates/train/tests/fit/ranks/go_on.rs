//! Ranks that go on from a checkpoint, as many as before or others, or go back to it.

use plimsoll_probe::OomKills;
use plimsoll_train::{Death, Existing, FitConfig, RunDir, last_process};
use plimsoll_types::{Bytes, EndReason, Event, Knobs, Stage};

use super::{
    assert_close, assert_whole_epochs, dirs, events, logs, of_batches, roomy, run_ranks, run_ranks_in, weights, with,
};
use crate::common::{alone, run, steps};
use crate::recovery::Faulty;
use crate::tiny::{Tiny, certified, config};

#[test]
fn a_run_goes_on_with_other_numbers_of_ranks() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let mut existing = Existing::Refuse;
    for (n, stop_after) in [(4, Some(6)), (2, Some(13)), (1, Some(17)), (3, None)] {
        let ranks = (0..n).map(|_| roomy(of_batches(24, 4))).collect();
        let ran = run_ranks(ranks, &path, existing, stop_after);
        let reasons: Vec<_> = ran.iter().map(|it| it.outcome.as_ref().unwrap().reason).collect();
        let expected = if stop_after.is_some() { EndReason::Interrupted } else { EndReason::Completed };
        assert_eq!(reasons, vec![expected; n]);
        existing = Existing::Resume;
    }
    assert_whole_epochs(&logs(&path), 7);
    let one = folder.path().join("one");
    let undisturbed = run(&Tiny::new(), &of_batches(24, 16), Bytes::gib(1), &one, Existing::Refuse, None);
    undisturbed.outcome.unwrap();
    assert_close(&weights(&one, 24), &weights(&path, 24), "weights");
}

#[test]
fn what_ranks_did_after_the_last_checkpoint_is_undone_on_all_of_them_whatever_their_number() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let four = |n_steps| (0..4).map(|_| roomy(of_batches(n_steps, 4))).collect();
    events(run_ranks(four(10), path, Existing::Refuse, None));
    // As if all had been killed before the checkpoint of step 10 had its name.
    std::fs::remove_dir_all(path.join("checkpoints/step-00000010")).unwrap();
    let two = (0..2).map(|_| roomy(of_batches(24, 4))).collect();
    events(run_ranks(two, path, Existing::Resume, None));
    assert_whole_epochs(&logs(path), 7);
}

#[test]
fn a_rank_that_joined_after_the_checkpoint_has_its_steps_undone_too() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let seldom = |n_steps| FitConfig { checkpoint_every: 100, validate_every: 100, ..of_batches(n_steps, 4) };
    let ranks = |n, n_steps| (0..n).map(|_| roomy(seldom(n_steps))).collect();
    events(run_ranks(ranks(2, 10), path, Existing::Refuse, None));
    events(run_ranks(ranks(4, 15), path, Existing::Resume, None));
    // As if all had been killed before the checkpoint of step 15 had its name.
    std::fs::remove_dir_all(path.join("checkpoints/step-00000015")).unwrap();
    events(run_ranks(ranks(4, 24), path, Existing::Resume, None));
    assert_whole_epochs(&logs(path), 7);
}

#[test]
fn all_ranks_go_back_where_the_optimizer_of_one_runs_out_of_memory() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // The seventh optimizer's step of the second rank.
    let ranks = vec![roomy(of_batches(12, 8)), with(of_batches(12, 8), Faulty::with(&[6]))];
    let ran = run_ranks(ranks, folder.path(), Existing::Refuse, None);
    let warned = ran[1].warnings.iter().any(|it| it.contains("went back to its last checkpoint"));
    assert!(warned, "{:?}", ran[1].warnings);
    let ran = events(ran);
    for of_rank in &ran {
        assert_eq!(steps(of_rank).iter().map(|it| it.step).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    }
    assert_whole_epochs(&ran, 3);
}

#[test]
fn a_rank_on_whose_machine_the_kernel_killed_for_want_of_memory_goes_lower_though_its_supervisor_saw_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let on_machines = |existing, kills: [u64; 2]| {
        let mut dirs = dirs(2, path, existing);
        for (dir, n) in dirs.iter_mut().zip(kills) {
            dir.set_machines(["a", "b"].map(str::to_owned).into(), OomKills { group: None, machine: Some(n) });
        }
        dirs
    };
    let ranks = |n_steps| (0..2).map(|_| roomy(config(n_steps, certified()))).collect();
    events(run_ranks_in(
        ranks(14),
        on_machines(Existing::Refuse, [3, 7]),
        &Tiny::beside,
        (Existing::Refuse, None),
        None,
    ));
    // As if both had been killed before the checkpoint of step 14 had its name.
    std::fs::remove_dir_all(path.join("checkpoints/step-00000014")).unwrap();
    let what = "killed by SIGKILL after step 13; nothing says that memory was the cause".to_owned();
    let death = Death { what, is_unexplained: true, ..Death::default() };
    let dirs = on_machines(Existing::Resume, [3, 8]);
    let ran = events(run_ranks_in(ranks(16), dirs, &Tiny::beside, (Existing::Resume, Some(&death)), None));
    let died = |it: &Event| {
        if let Event::StepFailed(it) = it { (it.stage == Stage::Process).then_some(it.rung) } else { None }
    };
    let deaths: Vec<Vec<_>> = ran.iter().map(|it| it.iter().filter_map(died).collect()).collect();
    assert_eq!((deaths[0].len(), deaths[1].len()), (0, 1));
    let after = |of_rank: &[Event]| steps(of_rank).iter().find(|it| it.step == 12).map(|it| it.rung).unwrap();
    let work = |it: Knobs| it.micro_batch_size * it.patch_size.pow(2);
    assert!(work(after(&ran[1])) < work(deaths[1][0]), "{:?} after {:?}", after(&ran[1]), deaths[1]);
    let notes = [0, 1].map(|rank| format!("{:?}", last_process(&RunDir::path_of_rank(path, rank)).unwrap().why));
    assert!(!notes[0].contains("rose") && notes[1].contains("the out-of-memory count of b rose"), "{notes:?}");
    // An end that says what it was is not blamed on memory, and another machine counts on its own.
    let told = Death { is_unexplained: false, ..death };
    let dirs = on_machines(Existing::Resume, [9, 9]);
    let ran = events(run_ranks_in(ranks(18), dirs, &Tiny::beside, (Existing::Resume, Some(&told)), None));
    assert_eq!(ran[1].iter().filter_map(died).count(), 1);
}
