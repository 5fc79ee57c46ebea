//! Samples that are padded along several axes.

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::tensor::Device;
use plimsoll::{Admit, Batches, BatchesBuilder, Extent, Oversize, batches};

use super::assert_each_once;

/// Where a pair is, the words of both sides, and of a third where there is one.
type Sample = (usize, [usize; 3]);

/// Where the pairs of a batch are, and to how many words each side is padded.
type Padded = (Vec<usize>, [usize; 3]);

struct Sides;

impl Batcher<Sample, Padded> for Sides {
    fn batch(&self, items: Vec<Sample>, _device: &Device) -> Padded {
        let padded = [0, 1, 2].map(|side| items.len() * items.iter().map(|it| it.1[side]).max().unwrap());
        (items.iter().map(|it| it.0).collect(), padded)
    }
}

fn sample(at: usize) -> Sample {
    (at, [1 + at * 7919 % 64, 1 + at * 104_729 % 30, 1 + at % 3])
}

fn of(n: usize) -> BatchesBuilder<Sample, Padded> {
    batches(InMemDataset::new((0..n).map(sample).collect()), Sides)
}

fn two(n: usize) -> BatchesBuilder<Sample, Padded> {
    of(n).lengths(|it| [it.1[0], it.1[1]])
}

#[test]
fn every_axis_keeps_its_own_limit() {
    let three = |n| of(n).lengths(|it| it.1).max_padded([1024, 400, 60]);
    for (builder, most) in
        [(two(2000).max_padded([1024, 400]), [1024, 400, usize::MAX]), (three(2000), [1024, 400, 60])]
    {
        let batches = builder.effective_batch(128).build().unwrap();
        let loader = batches.loader(1000, &Device::flex());
        let all: Vec<_> = loader.iter().map(Result::unwrap).collect();
        assert!(all.iter().all(|(_, padded)| padded.iter().zip(most).all(|(padded, most)| *padded <= most)));
        // Some are as full as the tightest axis allows, and none has more than a step.
        assert!(all.iter().any(|(_, padded)| most[0] - padded[0] < 64) && all.iter().all(|(it, _)| it.len() <= 128));
        assert_each_once(all.into_iter().flat_map(|it| it.0).collect(), 2000);
        for step in batches.epoch(1) {
            let step = step.unwrap();
            let padded = |side: usize| step.len() * step.iter().map(|it| it.1[side]).max().unwrap();
            assert!((0..3).all(|side| padded(side) <= most[side]));
        }
    }
}

#[test]
fn samples_of_a_batch_are_alike_on_every_axis() {
    let part_padded = |builder: BatchesBuilder<Sample, Padded>| {
        let loader = builder.effective_batch(64).build().unwrap().loader(64, &Device::flex());
        let (mut padded, mut real) = ([0; 3], [0; 3]);
        for batch in loader.iter() {
            let (ids, of) = batch.unwrap();
            (0..3).for_each(|side| padded[side] += of[side]);
            for at in ids {
                (0..3).for_each(|side| real[side] += sample(at).1[side]);
            }
        }
        [0, 1].map(|side| padded[side] as f64 / real[side] as f64)
    };
    let both = part_padded(two(8192));
    let by_product = part_padded(of(8192).cost(|it| it.1[0] * it.1[1]));
    assert!(both.iter().all(|it| *it < 1.3) && by_product.iter().all(|it| 1.4 < *it), "{both:?} {by_product:?}");
}

#[test]
fn a_step_says_what_each_sample_extends_to_and_costs_the_product() {
    let batches = two(300).effective_batch(32).build().unwrap();
    let step = batches.epoch(0).next().unwrap().unwrap();
    for ((item, extent), cost) in step.iter().zip(&step.extents).zip(&step.costs) {
        let edges = [item.1[0], item.1[1]].map(|it| u32::try_from(it).unwrap());
        assert_eq!((*extent, *cost), (Extent::try_new(&edges).unwrap(), edges[0] * edges[1]));
    }
    // A step counted in what its samples cost counts the products, with the padding.
    let by_cost = two(2000).effective_cost(20_000).build().unwrap();
    let (mut sum, mut n_steps) = (0, 0);
    for step in by_cost.epoch(0) {
        let step = step.unwrap();
        let cell: usize = [0, 1].map(|side| step.iter().map(|it| it.1[side]).max().unwrap()).iter().product();
        assert!((step.len() - 1) * cell < 20_000, "{} of {cell}", step.len());
        (sum, n_steps) = (sum + step.len() * cell, n_steps + 1);
    }
    assert!(15_000 < sum / n_steps, "{sum} in {n_steps} steps");
}

#[test]
fn limits_of_a_loader_are_asked_about_what_a_batch_is_padded_to() {
    let loader =
        two(500).effective_batch(64).build().unwrap().loader(|area: u32| 9000 / area as usize, &Device::flex());
    let mut all = Vec::new();
    for batch in loader.iter() {
        let (ids, padded) = batch.unwrap();
        assert!(padded[0] * padded[1] / ids.len() <= 9000, "{} of {padded:?}", ids.len());
        all.extend(ids);
    }
    assert_each_once(all, 500);
}

#[test]
fn an_epoch_and_a_loader_go_on_where_they_were_left() {
    let make = || two(400).max_padded([512, 300]).effective_batch(32).build().unwrap();
    let whole: Vec<_> = make().epoch(1).map(Result::unwrap).collect();
    for (at, step) in whole.iter().enumerate().take(whole.len() - 1) {
        let rest: Vec<_> = make().resume(&step.position).unwrap().map(Result::unwrap).collect();
        assert_eq!(rest, whole[at + 1..]);
    }
    let (undisturbed, loader) = (make().loader(7, &Device::flex()), make().loader(7, &Device::flex()));
    let ids = |loader: &dyn DataLoader<Padded>| -> Vec<_> { loader.iter().flat_map(|it| it.unwrap().0).collect() };
    let all = ids(&*undisturbed);
    let taken: Vec<_> = loader.iter().take(20).flat_map(|it| it.unwrap().0).collect();
    let resumed = make().loader(7, &Device::flex());
    resumed.seek(&loader.position().unwrap()).unwrap();
    assert_eq!([taken, ids(&*resumed)].concat(), all);
    let slice = loader.slice(100, 150);
    let mut some = ids(&*slice);
    some.sort_unstable();
    assert_eq!(some, (100..150).collect::<Vec<_>>());
}

#[track_caller]
fn refused(built: Result<Batches<Sample, Padded>, plimsoll::BatchesError>, message: &str) {
    assert_eq!(built.err().unwrap().to_string(), message);
}

#[test]
fn what_makes_no_batches_on_several_axes_is_refused_by_name() {
    refused(
        two(9).max_padded([10]).build(),
        "make batches: `max_padded` has 1 limits for samples of 2 axes, one for each is needed",
    );
    refused(two(9).max_padded([10, 0]).build(), "make batches: `max_padded` is 0, it must be at least 1");
    let admit = Admit { longest: 9, too_long: Oversize::Skip, ..Admit::default() };
    refused(
        two(9).admit(admit).build(),
        "make batches: `admit` bounds one length, the samples have 2; filter the dataset instead",
    );
    let empty = of(9).lengths(|it| [it.1[0], usize::from(it.0 != 4)]);
    refused(empty.build(), "make batches: sample 4 costs 0, a cost is from 1 to 4294967295");
    let long = two(9).max_padded([64, 20]).build().err().unwrap().to_string();
    let first = (0..9).find(|at| 20 < sample(*at).1[1]).unwrap();
    assert!(long.contains(&format!("sample {first}")) && long.contains("20"), "{long}");
    // On one axis, of those that are left the index in the dataset is named.
    let few = Admit { shortest: 1, longest: 64, too_short: Oversize::Skip, too_long: Oversize::Skip };
    let one = of(9).cost(|it| if it.0 < 3 { 0 } else { it.1[0] }).admit(few).max_padded([40]).build();
    let first = (3..9).find(|at| 40 < sample(*at).1[0]).unwrap();
    let one = one.err().unwrap().to_string();
    assert!(one.contains(&format!("sample {first}")), "{one}");
}
