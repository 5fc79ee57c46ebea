//! Every sample once, in steps of one size.

use plimsoll::{Batches, Position, StepItems};

use super::{Pad, Padded, Text, Texts, assert_each_once, lengths, of_texts, steps};

#[test]
fn every_sample_comes_once_per_epoch_in_steps_of_the_size_that_was_asked_for() {
    let batches = of_texts(1000).effective_batch(64).build().unwrap();
    let epochs: Vec<_> = (0..3).map(|epoch| steps(&batches, epoch)).collect();
    for steps in &epochs {
        let mut sizes: Vec<_> = steps.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [vec![40], vec![64; 15]].concat());
        assert_each_once(steps.concat(), 1000);
    }
    assert_ne!(epochs[0], epochs[1]);
    assert_ne!(epochs[0].first(), steps(&of_texts(1000).effective_batch(64).seed(1).build().unwrap(), 0).first());
}

#[test]
fn the_order_does_not_depend_on_the_number_of_workers_nor_on_where_the_costs_come_from() {
    let with = |n| of_texts(300).effective_batch(32).workers(n).build().unwrap();
    let alone = steps(&with(1), 1);
    for n_workers in [2, 7] {
        assert_eq!(steps(&with(n_workers), 1), alone);
    }
    let column = plimsoll::batches(Texts(lengths(300)), Pad).costs(lengths(300)).effective_batch(32).build().unwrap();
    assert_eq!(steps(&column, 1), alone);
}

#[test]
fn samples_of_a_step_cost_much_the_same_unless_several_groups_are_wanted() {
    let padding = |n, groups| {
        let batches = of_texts(n).effective_batch(64).groups_per_step(groups).build().unwrap();
        let (mut real, mut padded) = (0, 0);
        for step in batches.epoch(0) {
            let step = step.unwrap();
            let expected: Vec<_> = step.iter().map(|it| u32::try_from(it.n_words).unwrap()).collect();
            assert_eq!(step.costs, expected);
            real += step.costs.iter().sum::<u32>();
            padded += step.costs.iter().max().unwrap() * u32::try_from(step.len()).unwrap();
        }
        f64::from(padded) / f64::from(real)
    };
    // In a random order the longest of 64 texts of 1 to 64 words has twice the words of their mean.
    for n in [2048, 2000, 641] {
        assert!(padding(n, 1) < 1.15, "{} of {n}", padding(n, 1));
        assert!(1.3 < padding(n, 8), "{} of {n}", padding(n, 8));
    }
}

#[test]
fn a_step_may_be_counted_in_what_its_samples_cost() {
    let batches = of_texts(1000).effective_cost(1024).build().unwrap();
    let padded = |step: &StepItems<Text>| step.costs.iter().max().unwrap() * u32::try_from(step.len()).unwrap();
    let n_less = batches.epoch(0).map(Result::unwrap).filter(|it| !(1024..1024 + 64).contains(&padded(it))).count();
    // What is left of the epoch.
    assert!(n_less <= 1, "{n_less}");
    assert_each_once(steps(&batches, 0).concat(), 1000);
}

#[test]
fn a_step_of_several_groups_costs_as_much_on_average() {
    let batches = of_texts(1000).effective_cost(1024).groups_per_step(4).build().unwrap();
    let costs: Vec<u32> = batches.epoch(0).map(|it| it.unwrap().costs.iter().sum()).collect();
    let mut sum = 0;
    for (at, cost) in (1..costs.len()).zip(&costs) {
        sum += cost;
        let expected = 1024 * u32::try_from(at).unwrap();
        assert!((expected..expected + 64).contains(&sum), "{sum} after {at} steps");
    }
    assert_each_once(steps(&batches, 0).concat(), 1000);
}

#[test]
fn samples_that_cost_nothing_in_particular_are_shuffled_too() {
    let batches = plimsoll::batches(Texts(vec![5; 100]), Pad).effective_batch(8).build().unwrap();
    let (first, second) = (steps(&batches, 0).concat(), steps(&batches, 1).concat());
    assert!(!first.is_sorted() && first != second);
    assert_each_once(first, 100);
}

#[test]
fn an_epoch_goes_on_at_any_position_as_if_it_had_not_been_left() {
    for groups in [1, 4] {
        goes_on_anywhere(|| of_texts(300).effective_batch(32).groups_per_step(groups).build().unwrap());
    }
}

fn goes_on_anywhere(make: impl Fn() -> Batches<Text, Padded>) {
    let batches = make();
    let whole: Vec<_> = batches.epoch(2).map(Result::unwrap).collect();
    assert_eq!(whole.last().unwrap().position.epoch(), 3);
    for (at, step) in whole.iter().enumerate().take(whole.len() - 1) {
        let n_taken = whole[..=at].iter().map(|it| it.len()).sum();
        assert_eq!((step.position.epoch(), step.position.n_taken()), (2, n_taken));
        let kept: Position = serde_json::from_str(&serde_json::to_string(&step.position).unwrap()).unwrap();
        let rest: Vec<_> = make().resume(&kept).unwrap().map(Result::unwrap).collect();
        assert_eq!(rest, whole[at + 1..]);
    }
    // After the last step the next epoch begins.
    let next: Vec<_> = batches.resume(&whole.last().unwrap().position).unwrap().map(Result::unwrap).collect();
    assert_eq!(next, batches.epoch(3).map(Result::unwrap).collect::<Vec<_>>());
    assert_eq!(batches.epoch(2).position().n_taken(), 0);
}

#[test]
fn a_position_of_other_data_is_refused_with_what_differs() {
    let position = |seed, n: usize, size| {
        let batches = of_texts(n).effective_batch(size).seed(seed).build().unwrap();
        batches.epoch(0).next().unwrap().unwrap().position
    };
    let batches = of_texts(300).effective_batch(32).build().unwrap();
    let refused = |position: &Position| batches.resume(position).err().unwrap().to_string();
    assert!(refused(&position(1, 300, 32)).contains("`seed` 1, the plan has 0"));
    assert!(refused(&position(0, 299, 32)).contains("`n_samples` 299, the plan has 300"));
    assert!(refused(&position(0, 300, 64)).contains("fingerprint of the capacity rule"));
    let longer = plimsoll::batches(Texts(vec![3; 300]), Pad).cost(|it: &Text| it.n_words).effective_batch(32).build();
    let longer: Batches<Text, Padded> = longer.unwrap();
    assert!(refused(longer.epoch(0).position()).contains("fingerprint of the lengths"));
}
