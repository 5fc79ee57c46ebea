//! Burn's data loader.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::split::split_dataloader;
use burn::tensor::Device;
use plimsoll::{BatchLoader, Bytes, Limits, Plan, PlannedShape, Position};

use super::{Padded, Text, assert_each_once, of_texts};

fn texts(loader: &dyn DataLoader<Padded>) -> Vec<Vec<usize>> {
    loader.iter().map(|batch| batch.unwrap().texts).collect()
}

fn loader_of(n: usize, most: usize) -> Arc<BatchLoader<Text, Padded>> {
    of_texts(n).effective_batch(32).build().unwrap().loader(most, &Device::flex())
}

#[test]
fn each_iterator_hands_out_every_sample_of_the_next_epoch_once() {
    let loader = loader_of(300, 100);
    let epochs: Vec<_> = (0..3).map(|_| texts(&*loader)).collect();
    for batches in &epochs {
        assert_each_once(batches.concat(), 300);
    }
    assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2]);
    loader.reset(1);
    assert_eq!(texts(&*loader), epochs[1]);
    assert_eq!(texts(&*loader), epochs[2]);
    assert_eq!(texts(&*loader_of(300, 100)), epochs[0]);
}

#[test]
fn batches_are_as_large_as_a_step_where_that_fits_and_padded_little() {
    let loader = loader_of(2048, 32);
    let batches: Vec<_> = loader.iter().map(Result::unwrap).collect();
    assert!(batches.iter().all(|it| it.texts.len() == 32));
    let padded: usize = batches.iter().map(|it| it.texts.len() * it.width).sum();
    let real: usize = super::lengths(2048).iter().sum();
    assert!((padded as f64) < 1.15 * real as f64, "{padded} {real}");
}

#[test]
fn a_batch_has_what_fits_when_it_is_asked_for() {
    let room = Arc::new(AtomicUsize::new(1024));
    let limits = {
        let room = Arc::clone(&room);
        move |cost: u32| room.load(SeqCst) / cost as usize
    };
    let loader = of_texts(1000).effective_batch(32).build().unwrap().loader(limits, &Device::flex());
    let mut iter = loader.iter();
    let (mut all, mut least, mut largest) = (Vec::new(), 32, 0);
    for at in 0.. {
        // It grows and shrinks in the middle of steps.
        let now = [1024, 256, 64, 4096][at % 4];
        room.store(now, SeqCst);
        let Some(batch) = iter.next() else { break };
        let Padded { texts, width, .. } = batch.unwrap();
        assert!(texts.len() * width <= now, "{} texts of {width} words in {now}", texts.len());
        (least, largest) = (texts.len().min(least), texts.len().max(largest));
        all.extend(texts);
    }
    assert_each_once(all, 1000);
    assert!(least == 1 && largest == 32, "{least} {largest}");
}

#[test]
fn a_plan_says_how_large_the_batches_of_each_length_are() {
    let shape = |samples, edge, fits| PlannedShape { samples, edge, expected: Bytes(1), upper: Bytes(2), fits };
    let shapes = vec![shape(32, 16, true), shape(8, 32, true), shape(32, 32, false), shape(4, 64, true)];
    let plan = Plan { shapes, capacity: Bytes(9), budget: Bytes(8), devices: Vec::new() };
    assert_eq!([1, 16, 17, 32, 33, 64, 65].map(|it| plan.most(it)), [32, 32, 8, 8, 4, 4, 0]);
    let loader = of_texts(500).effective_batch(32).build().unwrap().loader(plan.clone(), &Device::flex());
    let batches: Vec<_> = loader.iter().map(Result::unwrap).collect();
    for Padded { texts, width, .. } in &batches {
        assert!(texts.len() <= plan.most(u32::try_from(*width).unwrap()), "{} of {width}", texts.len());
    }
    assert_each_once(batches.into_iter().flat_map(|it| it.texts).collect(), 500);
}

#[test]
fn samples_that_do_not_fit_at_once_come_in_batches_of_much_the_same_size() {
    let batches = plimsoll::batches(super::Texts(vec![1; 32]), super::Pad).effective_batch(32).build().unwrap();
    let sizes: Vec<_> = texts(&*batches.loader(12, &Device::flex())).iter().map(Vec::len).collect();
    assert_eq!(sizes, [11, 11, 10]);
}

#[test]
fn progress_counts_what_is_handed_out_and_ends_with_all() {
    let loader = loader_of(300, 7);
    assert_eq!(loader.num_items(), 300);
    let mut iter = loader.iter();
    let mut n_handed_out = 0;
    loop {
        let progress = iter.progress();
        assert_eq!((progress.items_processed, progress.items_total), (n_handed_out, 300));
        assert_eq!(progress.is_completed(), n_handed_out == 300);
        let Some(batch) = iter.next() else { break };
        n_handed_out += batch.unwrap().texts.len();
    }
    assert_eq!(n_handed_out, 300);
}

#[test]
fn slices_and_devices_are_as_burn_has_them() {
    let (here, there) = (Device::flex(), Device::flex().autodiff());
    let loader: Arc<dyn DataLoader<Padded>> = loader_of(301, 100);
    let parts = split_dataloader(Arc::clone(&loader), &[here.clone(), there.clone()]);
    assert_eq!(parts.iter().map(|it| it.num_items()).collect::<Vec<_>>(), [150, 151]);
    let mut all = Vec::new();
    for (part, device) in parts.iter().zip([here, there]) {
        for batch in part.iter().map(Result::unwrap) {
            assert_eq!(batch.device, device);
            all.extend(batch.texts);
        }
    }
    assert_each_once(all, 301);
    let inner = loader.slice(100, 200).slice(10, 30);
    let mut some = texts(&*inner).concat();
    some.sort_unstable();
    assert_eq!(some, (110..130).collect::<Vec<_>>());
    // Beyond the end there is nothing, and nothing comes of nothing.
    let none = loader.slice(301, 400);
    assert_eq!((none.num_items(), none.iter().count(), none.slice(0, 1).num_items()), (0, 0, 0));
    assert_eq!(loader.slice(300, 400).num_items(), 1);
}

#[test]
fn a_loader_goes_on_at_any_batch_as_if_it_had_not_been_left() {
    let loader = loader_of(200, 5);
    loader.reset(3);
    let mut places = Vec::new();
    let whole: Vec<_> = loader
        .iter()
        .map(|batch| {
            places.push(loader.position().unwrap());
            batch.unwrap().texts
        })
        .collect();
    for (at, position) in places.iter().enumerate() {
        let kept: Position = serde_json::from_str(&serde_json::to_string(position).unwrap()).unwrap();
        let resumed = loader_of(200, 5);
        resumed.seek(&kept).unwrap();
        assert_eq!(resumed.position().unwrap(), kept);
        if at + 1 == whole.len() {
            assert_eq!((kept.epoch(), kept.n_taken()), (4, 0));
            assert_each_once(texts(&*resumed).concat(), 200);
            break;
        }
        assert_eq!(kept.n_taken(), whole[..=at].concat().len());
        let iter = resumed.iter();
        assert_eq!(iter.progress().items_processed, kept.n_taken());
        let rest: Vec<_> = iter.map(|it| it.unwrap().texts).collect();
        // What is left of a step may be divided in another way.
        assert_eq!(rest.concat(), whole[at + 1..].concat());
        assert_eq!(resumed.position().unwrap().epoch(), 4);
    }
}

#[test]
fn a_position_of_steps_is_none_of_a_loader() {
    let batches = of_texts(100).build().unwrap();
    let loader = batches.loader(5, &Device::flex());
    let of_steps = batches.epoch(0).next().unwrap().unwrap().position;
    assert!(loader.seek(&of_steps).unwrap_err().to_string().contains("an epoch of steps, not of a loader"));
    drop(loader.iter().next());
    let of_loader = loader.position().unwrap();
    assert!(batches.resume(&of_loader).err().unwrap().to_string().contains("a loader, not of an epoch of steps"));
    let slice = of_texts(100).build().unwrap().loader(5, &Device::flex());
    slice.seek(&of_loader).unwrap();
}

#[test]
fn a_loader_that_is_moved_to_a_device_goes_on_where_it_stands() {
    let (undisturbed, loader) = (loader_of(300, 100), loader_of(300, 100));
    let all = texts(&*undisturbed);
    let taken: Vec<_> = loader.iter().take(3).map(|batch| batch.unwrap().texts).collect();
    let resumed = loader_of(300, 100);
    resumed.seek(&loader.position().unwrap()).unwrap();
    // As the strategies of Burn do before an epoch.
    let moved = resumed.to_device(&Device::flex());
    assert_eq!([taken, texts(&*moved)].concat(), all);
    // Whoever has the loader knows where it stands.
    assert_eq!(resumed.position().unwrap().epoch(), 1);
}
