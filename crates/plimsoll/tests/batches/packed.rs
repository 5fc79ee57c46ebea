//! Samples that lie end to end in rows.

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
use plimsoll::{Batches, BatchesError, PackedBuilder, Row, packed_batches};
use plimsoll_sampler::{EpochEnd, TaskMix};

use super::{Text, Texts, assert_each_once, lengths};

/// The parts of each row of a batch: which text, from which word to which.
type Laid = Vec<Vec<(usize, usize, usize)>>;

struct Lay;

impl Batcher<Row<Text>, Laid> for Lay {
    fn batch(&self, rows: Vec<Row<Text>>, _device: &Device) -> Laid {
        let layout = Row::layout(&rows);
        let part = |id: (usize, usize)| &rows[id.0].parts[id.1];
        // What is laid down is what the parts say, in their order.
        let of_row = |row: &[plimsoll::Piece<(usize, usize)>]| {
            let parts = row.iter().map(|piece| (part(piece.id).item.at, piece.start as usize, piece.end as usize));
            parts.collect()
        };
        layout.iter().map(of_row).collect()
    }
}

fn of(n: usize) -> PackedBuilder<Text, Laid> {
    packed_batches(Texts(lengths(n)), Lay, 128).cost(|text: &Text| text.n_words)
}

fn texts(step: &[Row<Text>]) -> Vec<usize> {
    step.iter().flat_map(|row| row.parts.iter().map(|part| part.item.at)).collect()
}

#[test]
fn rows_are_nearly_full_and_have_each_sample_once_an_epoch_in_another_order() {
    let batches = of(3000).effective_cost(1024).build().unwrap();
    let all: Vec<Vec<_>> = [0, 1].map(|epoch| batches.epoch(epoch).map(Result::unwrap).collect()).into();
    let (total, lengths): (usize, _) = (lengths(3000).iter().sum(), lengths(3000));
    for steps in &all {
        let rows: Vec<_> = steps.iter().flat_map(|step| &step.items).collect();
        assert!(rows.iter().all(|row| row.row_len == 128 && row.n_filled() <= 128));
        assert!(0.99 * 128.0 * rows.len() as f64 <= total as f64, "{} rows", rows.len());
        assert!(batches.n_items().abs_diff(rows.len()) <= rows.len() / 100 && batches.n_samples() == 3000);
        assert_each_once(steps.iter().flat_map(|step| texts(step)).collect(), 3000);
        // The epoch reaches each multiple with the row that ends a step.
        let mut taken = 0;
        for step in &steps[..steps.len() - 1] {
            let before = taken;
            taken += step.iter().map(Row::n_filled).sum::<usize>();
            let last = step.items.last().unwrap().n_filled();
            assert!(before / 1024 < taken / 1024 && (taken - last) / 1024 == before / 1024);
            assert_eq!(step.units.as_ref().unwrap().len(), step.len());
        }
        for part in rows.iter().flat_map(|row| &row.parts) {
            assert_eq!((part.index, part.range.clone()), (part.item.at, 0..lengths[part.item.at]));
        }
    }
    assert_ne!(texts(&all[0][0]), texts(&all[1][0]));
    let step = &all[0][3];
    let filled: Vec<_> = step.iter().map(|row| row.n_filled() as u64).collect();
    assert_eq!((step.units.clone().unwrap(), &step.costs), (filled, &vec![128; step.len()]));
}

#[test]
fn a_sample_that_is_longer_than_a_row_is_cut_or_refused_by_its_index() {
    let long = |at: usize| if at == 7 { 300 } else { 20 };
    let of = || packed_batches(Texts((0..40).map(long).collect()), Lay, 128).cost(|text: &Text| text.n_words);
    let error = of().build().err().unwrap().to_string();
    assert!(error.contains("sample 7 has length 300, a row of `row_len` 128"), "{error}");
    let batches = of().split(28).build().unwrap();
    let rows: Vec<_> = batches.epoch(0).flat_map(|step| step.unwrap().items).collect();
    let parts = || rows.iter().flat_map(|row| &row.parts).filter(|part| part.item.at == 7);
    let mut ranges: Vec<_> = parts().map(|part| part.range.clone()).collect();
    ranges.sort_by_key(|it| it.start);
    assert_eq!(ranges, [0..128, 100..228, 200..300]);
    assert!(matches!(of().split(128).build(), Err(BatchesError::Sampler(_))));
    let refused = |builder: PackedBuilder<Text, Laid>, key: &str| {
        let told = format!("`{key}` is 0, it must be at least 1");
        let error = builder.build().err().unwrap().to_string();
        assert!(error.contains(&told), "{error}");
    };
    refused(of().split(0).effective_batch(0), "effective_batch");
    refused(of().split(0).workers(0), "workers");
    let none = packed_batches(Texts(Vec::new()), Lay, 128).build();
    assert!(matches!(none, Err(BatchesError::NoSamples)));
}

#[test]
fn an_epoch_and_a_loader_go_on_where_they_were_left() {
    let make = || of(900).effective_batch(32).workers(2).build().unwrap();
    let whole: Vec<_> = make().epoch(1).map(Result::unwrap).collect();
    for (at, step) in whole.iter().enumerate().take(whole.len() - 1) {
        let position = serde_json::from_str(&serde_json::to_string(&step.position).unwrap()).unwrap();
        let rest: Vec<_> = make().resume(&position).unwrap().map(Result::unwrap).collect();
        assert_eq!(rest, whole[at + 1..]);
    }
    let loader = |batches: &Batches<Row<Text>, Laid>| batches.loader(3, &Device::flex());
    let rows = |loader: &dyn DataLoader<Laid>| loader.iter().flat_map(Result::unwrap).collect::<Vec<_>>();
    let (all, left) = (rows(&*loader(&make())), loader(&make()));
    let batches: Vec<_> = left.iter().take(10).map(Result::unwrap).collect();
    assert!(batches.iter().all(|rows| rows.len() <= 3));
    let resumed = loader(&make());
    resumed.seek(&left.position().unwrap()).unwrap();
    assert_eq!([batches.concat(), rows(&*resumed)].concat(), all);
    assert_each_once(rows(&*left.slice(100, 200)).concat().into_iter().map(|it| it.0 - 100).collect(), 100);

    // A position of rows is none of padded samples.
    let padded = super::of_texts(900).effective_batch(32).build().unwrap();
    let told = |error: Option<BatchesError>| error.unwrap().to_string();
    let of_rows = told(padded.resume(&whole[0].position).err());
    assert_eq!(of_rows, "go on with the samples: the position was taken of packed rows, not of padded samples");
    let of_samples = padded.epoch(0).next().unwrap().unwrap().position;
    let of_samples = told(make().resume(&of_samples).err());
    assert_eq!(of_samples, "go on with the samples: the position was taken of padded samples, not of packed rows");
}

#[test]
fn texts_of_two_sources_come_in_the_shares_that_are_asked_for_or_by_their_weights() {
    let of_first = |at: &usize| at.is_multiple_of(4);
    let shares = Some(vec![0.5, 0.5]);
    let halves = TaskMix { shares, ends: EpochEnd::FirstExhausted, ..TaskMix::default() };
    let mixed = of(3000).tasks(move |text| u16::from(!of_first(&text.at))).task_mix(halves).effective_batch(50);
    let steps: Vec<_> = mixed.build().unwrap().epoch(0).map(|step| texts(&step.unwrap())).collect();
    let n_first = |texts: &[usize]| texts.iter().filter(|at| of_first(at)).count();
    let all = steps.concat();
    assert!(n_first(&all) == 750 && all.len().abs_diff(1500) <= 1, "{} of {}", n_first(&all), all.len());
    // Of the data they are a quarter.
    assert!(steps.iter().all(|step| 2 * n_first(step) + 30 > step.len()), "{steps:?}");
    let weights = (0..400).map(|at| f64::from(u8::from(of_first(&at)))).collect();
    let drawn: Vec<_> =
        of(400).weights(weights).build().unwrap().epoch(0).flat_map(|step| texts(&step.unwrap())).collect();
    assert!(drawn.len() == 400 && drawn.iter().all(of_first));
    let apart = of(40).tasks(|_| 0).task_mix(TaskMix { homogeneous: true, ..TaskMix::default() });
    assert!(apart.build().err().unwrap().to_string().contains("`homogeneous` is true"));
}
