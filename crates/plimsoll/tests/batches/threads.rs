//! Who works where, and how far ahead.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::Device;
use plimsoll::{BatchesBuilder, Bytes, batches};

/// A sample that is read once so many others are being read.
struct Together {
    n: usize,
    reading: Mutex<usize>,
    more: Condvar,
}

impl Dataset<usize> for Together {
    fn get(&self, index: usize) -> Result<usize, DatasetError> {
        let mut reading = self.reading.lock().unwrap();
        *reading += 1;
        self.more.notify_all();
        let waited = self.more.wait_timeout_while(reading, Duration::from_mins(1), |it| *it < self.n).unwrap();
        assert!(!waited.1.timed_out(), "only {} samples are read at the same time", waited.0);
        Ok(index)
    }

    fn len(&self) -> usize {
        self.n
    }
}

/// Notes who makes a batch.
struct Noting(Arc<Mutex<HashSet<ThreadId>>>);

impl Batcher<usize, usize> for Noting {
    fn batch(&self, items: Vec<usize>, _device: &Device) -> usize {
        self.0.lock().unwrap().insert(thread::current().id());
        items.len()
    }
}

fn together(n: usize) -> BatchesBuilder<usize, usize> {
    let together = Together { n, reading: Mutex::default(), more: Condvar::new() };
    batches(together, Noting(Arc::default())).effective_batch(n).workers(n)
}

#[test]
fn all_workers_help_with_the_costs() {
    assert_eq!(together(16).cost(|it| it + 1).build().unwrap().n_samples(), 16);
}

#[test]
fn all_workers_help_with_one_step() {
    let batches = together(16).build().unwrap();
    assert_eq!(batches.epoch(0).map(|it| it.unwrap().len()).collect::<Vec<_>>(), [16]);
}

/// A dataset that notes who reads.
struct Reading(Arc<Mutex<HashSet<ThreadId>>>);

impl Dataset<usize> for Reading {
    fn get(&self, index: usize) -> Result<usize, DatasetError> {
        self.0.lock().unwrap().insert(thread::current().id());
        Ok(index)
    }

    fn len(&self) -> usize {
        100
    }
}

#[test]
fn the_dataset_is_read_by_workers_and_a_batch_is_made_by_who_asks_for_it() {
    let (readers, makers) = (Arc::default(), Arc::default());
    let (dataset, noting) = (Reading(Arc::clone(&readers)), Noting(Arc::clone(&makers)));
    let batches = batches(dataset, noting).cost(|it| it % 7 + 1).effective_batch(10).workers(3).build().unwrap();
    let loader: Arc<dyn DataLoader<usize>> = batches.loader(8, &Device::flex());
    assert_eq!(loader.iter().map(Result::unwrap).sum::<usize>(), 100);
    let here = thread::current().id();
    assert!(!readers.lock().unwrap().contains(&here));
    assert_eq!(*makers.lock().unwrap(), HashSet::from([here]));
}

/// How many of some things there are, and the most that there have been.
#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One of them.
struct Counted(Arc<Alive>);

impl Counted {
    fn new(alive: &Arc<Alive>) -> Self {
        alive.most.fetch_max(alive.now.fetch_add(1, SeqCst) + 1, SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

struct CountedItems(Arc<Alive>);

impl Dataset<Counted> for CountedItems {
    fn get(&self, _index: usize) -> Result<Counted, DatasetError> {
        Ok(Counted::new(&self.0))
    }

    fn len(&self) -> usize {
        400
    }
}

struct CountedBatches(Arc<Alive>);

impl Batcher<Counted, Counted> for CountedBatches {
    fn batch(&self, _items: Vec<Counted>, _device: &Device) -> Counted {
        Counted::new(&self.0)
    }
}

/// Waits until so many are alive; returns how many are.
fn settled(alive: &Alive, expected: usize) -> usize {
    let waits = || (alive.now.load(SeqCst) < expected).then(|| thread::sleep(Duration::from_millis(1)));
    (0..10_000).map_while(|_| waits()).for_each(drop);
    alive.now.load(SeqCst)
}

#[test]
fn what_is_read_ahead_is_bounded_in_bytes_and_in_steps() {
    let most_ahead = |read_ahead: Bytes, expected: usize| {
        let alive = Arc::<Alive>::default();
        let (dataset, counted) = (CountedItems(Arc::clone(&alive)), CountedBatches(Arc::default()));
        let batches = batches(dataset, counted).item_size(|_| 1000).effective_batch(20).workers(4);
        let batches = batches.read_ahead(read_ahead).build().unwrap();
        let mut most = 0;
        for step in batches.epoch(0).take(10) {
            let step = step.unwrap();
            // Workers are asked again when half of it is used.
            most = most.max(settled(&alive, 20 + expected.div_ceil(2)));
            assert!(alive.most.load(SeqCst) <= 20 + expected.max(1), "{}", alive.most.load(SeqCst));
            drop(step);
        }
        assert!((expected.div_ceil(2)..=expected.max(1)).contains(&(most - 20)), "{most} of {expected}");
    };
    most_ahead(Bytes(15_000), 15);
    // Two steps, whatever there is room for; and one sample in any case.
    most_ahead(Bytes::gib(1), 40);
    most_ahead(Bytes(1), 1);
}

#[test]
fn a_loader_holds_no_batch_of_its_own() {
    let alive = Arc::<Alive>::default();
    let batches = batches(CountedItems(Arc::default()), CountedBatches(Arc::clone(&alive))).effective_batch(20);
    let loader = batches.build().unwrap().loader(20, &Device::flex());
    let n_batches = loader.iter().map(|batch| drop(batch.unwrap())).count();
    assert_eq!((n_batches, alive.most.load(SeqCst)), (20, 1));
}
