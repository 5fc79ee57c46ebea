//! What the sampler can do, asked for by the builder.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use plimsoll::{Admit, AdmitCounts, BatchesBuilder, EpochEnd, Fraction, Objective, Oversize, TaskMix};

use super::{Pad, Padded, Text, Texts, assert_each_once, batches, lengths, of_texts, steps};

#[test]
fn groups_are_multiples_and_what_makes_no_whole_step_is_left_out() {
    for (groups, n) in [(1, 1000), (4, 1000), (1, 1024), (4, 1024)] {
        let builder = || of_texts(n).effective_batch(64).groups_per_step(groups).multiple_of(8);
        let (all, whole) = (builder().build().unwrap(), builder().drop_last().build().unwrap());
        for epoch in 0..3 {
            assert_each_once(steps(&all, epoch).concat(), n);
            let sizes: Vec<_> = steps(&whole, epoch).iter().map(Vec::len).collect();
            // With one group, what is left beyond eight is left out, and the rest of it is a step.
            let n_whole = if groups == 1 { n - n % 8 } else { n - n % 64 };
            assert_eq!(sizes.iter().sum::<usize>(), n_whole, "{groups} groups of {n}: {sizes:?}");
            assert!(sizes.iter().all(|it| it % 8 == 0 && (*it == 64 || groups == 1)), "{sizes:?}");
        }
        // The last step ends the epoch, and a run that goes on from there begins the next one.
        let last = whole.epoch(0).map(Result::unwrap).last().unwrap();
        assert_eq!((last.position.epoch(), last.position.n_taken()), (1, 0));
        let next: Vec<_> = whole.resume(&last.position).unwrap().map(|it| it.unwrap().indices).collect();
        assert_eq!(next, whole.epoch(1).map(|it| it.unwrap().indices).collect::<Vec<_>>());
    }
}

#[test]
fn groups_are_arranged_as_is_asked_for() {
    let padded = |builder: BatchesBuilder<Text, Padded>| -> u64 {
        let batches = builder.build().unwrap();
        let steps = batches.epoch(0).map(Result::unwrap);
        steps.map(|it| it.len() as u64 * u64::from(it.costs.into_iter().max().unwrap())).sum()
    };
    let builder = || of_texts(1000).effective_batch(32);
    let (usual, apart) = (padded(builder()), padded(builder().most_mates_kept(Fraction::ONE)));
    assert!(apart < usual, "{apart} where nothing is mixed, {usual} where neighbours are");
    assert!(usual < padded(builder().window(64)), "less is sorted at a time");
    let least = padded(builder().objective(Objective::LeastTime { batch_overhead: 0.0 }));
    assert!(least < usual, "{least} of {usual}");
}

#[test]
fn a_dataset_that_makes_no_whole_step_is_refused() {
    for builder in [of_texts(20).effective_batch(32), of_texts(20).effective_batch(32).groups_per_step(2)] {
        let refused = builder.drop_last().build().err().unwrap().to_string();
        assert!(refused.starts_with("make batches: 20 samples make no whole step, and `drop_last`"), "{refused}");
    }
}

#[test]
fn what_is_left_of_a_loaders_epoch_is_told_by_its_own_batches() {
    // Sixty-four texts cost a step, and two are left.
    let texts = || batches(Texts(vec![10; 130]), Pad).cost(|text: &Text| text.n_words).effective_cost(640);
    for groups in [1, 4] {
        let batches = texts().groups_per_step(groups).drop_last().build().unwrap();
        assert_eq!(steps(&batches, 0).iter().map(Vec::len).collect::<Vec<_>>(), [64, 64]);
        let loader = batches.loader(|_: u32| 1000, &Device::flex());
        let sizes: Vec<_> = loader.iter().map(|it| it.unwrap().texts.len()).collect();
        assert_eq!(sizes, [64, 64], "{groups} groups");
        assert_eq!(loader.slice(0, 64).iter().count(), 1);
    }
}

#[test]
fn a_position_late_in_an_epoch_in_which_samples_come_again_is_gone_on_from() {
    let mix = TaskMix { shares: Some(vec![0.5, 0.5]), ends: EpochEnd::LastExhausted, ..TaskMix::default() };
    let batches = of_texts(400).tasks(|text| u16::from(text.at % 4 == 0)).task_mix(mix).effective_batch(40);
    let batches = batches.build().unwrap();
    let steps: Vec<_> = batches.epoch(0).map(Result::unwrap).collect();
    let late = &steps[steps.len() - 2].position;
    assert!(400 <= late.n_taken(), "{} of 600", late.n_taken());
    let rest: Vec<_> = batches.resume(late).unwrap().map(|it| it.unwrap().indices).collect();
    assert_eq!(rest, [steps.last().unwrap().indices.clone()]);
}

#[test]
fn a_loaders_batches_are_multiples_where_so_many_fit() {
    let batches = of_texts(512).effective_batch(64).multiple_of(8).build().unwrap();
    let loader = batches.loader(|cost: u32| 700 / cost as usize, &Device::flex());
    let sizes: Vec<_> = loader.iter().map(|it| it.unwrap()).map(|it| (it.texts.len(), 700 / it.width)).collect();
    assert_eq!(sizes.iter().map(|it| it.0).sum::<usize>(), 512);
    assert!(sizes.iter().all(|(n, most)| n <= most && n % 8 == 0), "{sizes:?}");
}

#[test]
fn tasks_come_in_the_shares_that_are_wanted() {
    let mix = TaskMix { shares: Some(vec![0.5, 0.5]), ends: EpochEnd::FirstExhausted, ..TaskMix::default() };
    let batches = of_texts(800).tasks(|text| u16::from(text.at % 4 == 0)).task_mix(mix).effective_batch(40);
    let batches = batches.build().unwrap();
    let texts = steps(&batches, 0).concat();
    // Of two hundred, and as many others; each epoch has others of these.
    assert_eq!(texts.len(), 400);
    assert_eq!(texts.iter().filter(|it| *it % 4 == 0).count(), 200);
    assert_ne!(texts, steps(&batches, 1).concat());
}

#[test]
fn a_slice_without_one_of_the_tasks_has_those_of_the_others() {
    let halves = TaskMix { shares: Some(vec![0.5, 0.5]), ..TaskMix::default() };
    let batches = of_texts(60).tasks(|text| u16::from(50 <= text.at)).task_mix(halves).effective_batch(10);
    let slice = batches.build().unwrap().loader(4, &Device::flex()).slice(20, 30);
    let mut texts: Vec<_> = slice.iter().flat_map(|it| it.unwrap().texts).collect();
    texts.sort_unstable();
    assert_eq!(texts, (20..30).collect::<Vec<_>>());
}

#[test]
fn what_does_not_take_part_is_counted_and_indices_are_those_of_the_dataset() {
    let words = |at: usize| [0, 3, 9, 40, 7][at % 5];
    let texts = || Texts((0..100).map(words).collect());
    let admit = Admit { shortest: 4, longest: 20, too_short: Oversize::Skip, too_long: Oversize::Truncate };
    let builder = || batches(texts(), Pad).cost(|it| it.n_words).effective_batch(8);
    let refused = builder().build().err().unwrap().to_string();
    assert_eq!(refused, "make batches: sample 0 costs 0, a cost is from 1 to 4294967295");
    let admitted = builder().admit(admit).build().unwrap();
    let counts = AdmitCounts { empty: 20, too_short: 20, truncated: 20, ..AdmitCounts::default() };
    assert_eq!((admitted.n_samples(), admitted.left_out()), (60, counts));
    let mut seen = Vec::new();
    for step in admitted.epoch(0) {
        let step = step.unwrap();
        for ((text, cost), index) in step.items.iter().zip(&step.costs).zip(&step.indices) {
            assert_eq!((text.at, text.n_words.min(20)), (*index, *cost as usize));
            seen.push(text.at);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).filter(|at| 4 <= words(*at)).collect::<Vec<_>>());
    // A part of them is told by its place among those that take part.
    let slice = admitted.loader(8, &Device::flex()).slice(0, 30);
    let texts: Vec<_> = slice.iter().flat_map(|it| it.unwrap().texts).collect();
    assert!(texts.len() == 30 && texts.iter().all(|at| *at < 50 && 4 <= words(*at)), "{texts:?}");
}

#[test]
fn samples_are_drawn_by_their_weights() {
    let weights: Vec<_> = (0..500).map(|at| if at < 50 { 9.0 } else { f64::from(at % 2) }).collect();
    let batches = of_texts(500).weights(weights.clone()).effective_batch(20).build().unwrap();
    let texts = steps(&batches, 0).concat();
    assert!(texts.len() == 500 && texts.iter().all(|at| 0.0 < weights[*at]));
    // Two thirds of all draws.
    let n = texts.iter().filter(|at| **at < 50).count();
    assert!((290..380).contains(&n), "{n}");
    let refused = of_texts(3).weights(vec![1.0]).build().err().unwrap().to_string();
    assert_eq!(refused, "index the samples: there are 1 weights for 3 samples");
}

#[test]
fn a_window_is_padded_more_and_mixes_more() {
    let padded = |window| {
        let batches = of_texts(2048).effective_batch(32).window(window).build().unwrap();
        let of = |step: plimsoll::StepItems<_>| step.costs.iter().max().unwrap() * u32::try_from(step.len()).unwrap();
        batches.epoch(0).map(|it| of(it.unwrap())).sum::<u32>()
    };
    let real: usize = lengths(2048).iter().sum();
    assert!(padded(2048) < padded(128) && real < padded(2048) as usize);
}
