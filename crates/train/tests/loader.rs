//! Workers that read the samples of a step together.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use plimsoll_train::{
    BadSample, Draw, Item, Loader, LoaderConfig, LoaderError, Source, SourceError, StepSamples, Wanted,
};
use plimsoll_types::{Bytes, Extent, StepShape};

const EDGE: u32 = 8;

/// Samples that are their own number, some of which cannot be read.
#[derive(Default)]
struct Numbers {
    bad: Vec<u64>,
    /// So many samples are read at once or none is, where that is asked for.
    together: usize,
    /// How many reads have begun.
    begun: Mutex<usize>,
    news: Condvar,
    /// Whether nobody has to wait any more.
    is_over: AtomicBool,
}

struct Number(u64);

impl Item for Number {
    fn extent(&self) -> Extent {
        (1).into()
    }
}

impl Numbers {
    /// Waits until so many reads have begun as are to be under way together.
    fn meet(&self) -> bool {
        let mut begun = self.begun.lock().unwrap();
        *begun += 1;
        let round = begun.div_ceil(self.together.max(1)) * self.together;
        self.news.notify_all();
        let (_begun, waited) =
            self.news.wait_timeout_while(begun, Duration::from_secs(20), |begun| self.waits(*begun, round)).unwrap();
        !waited.timed_out()
    }

    fn waits(&self, begun: usize, round: usize) -> bool {
        begun < round && !self.is_over.load(Ordering::Relaxed)
    }

    /// Lets go of those who wait for reads that do not come, because no more steps are asked for.
    fn let_go(&self) {
        let _begun = self.begun.lock().unwrap();
        self.is_over.store(true, Ordering::Relaxed);
        self.news.notify_all();
    }
}

impl Source for Numbers {
    type Item = Number;
    type Buffer = Vec<u64>;

    fn n_samples(&self) -> u64 {
        64
    }

    fn read(&self, epoch: u64, id: u64) -> Result<Number, SourceError> {
        let error = |reason: &str| SourceError { sample_id: id, reason: reason.to_owned() };
        if !self.meet() {
            return Err(error("nobody else reads"));
        }
        if self.bad.contains(&id) { Err(error("it is damaged")) } else { Ok(Number(1000 * epoch + id)) }
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(8 * u64::from(largest.samples))
    }

    fn buffer(&self, largest: StepShape) -> Vec<u64> {
        Vec::with_capacity(largest.samples as usize)
    }

    fn collate(&self, draw: &Draw, items: &[Number], buffer: &mut Vec<u64>) -> Result<(), SourceError> {
        assert_eq!(draw.n_samples(), items.len());
        buffer.clear();
        buffer.extend(items.iter().map(|it| it.0));
        Ok(())
    }
}

/// A loader of steps of 16 samples.
fn loader(source: &Arc<Numbers>, workers: usize, bad_sample: BadSample) -> (Loader<Numbers>, Wanted) {
    let config = LoaderConfig { workers, bad_sample, ..LoaderConfig::cut(3, 16, EDGE, Bytes::kib(64)) };
    let wanted = Wanted::Edge(EDGE);
    (Loader::try_new(source, None, &wanted, &config).unwrap(), wanted)
}

/// The ids of a step, its content, and what was left out.
type Told = (Vec<u64>, Vec<u64>, Vec<u64>);

/// Tells some steps, or what went wrong.
fn steps(workers: usize, bad: &[u64], bad_sample: BadSample) -> Result<Vec<Told>, LoaderError> {
    let (mut loader, wanted) =
        loader(&Arc::new(Numbers { bad: bad.to_vec(), ..Numbers::default() }), workers, bad_sample);
    let mut step = || {
        let samples = loader.next(&wanted)?;
        let StepSamples { draw, buffer, skipped, .. } = &samples;
        let told = (draw.ids().collect(), buffer.clone(), skipped.clone());
        loader.recycle(samples)?;
        Ok(told)
    };
    (0..9).map(|_| step()).collect()
}

#[test]
fn as_many_workers_as_there_are_read_the_samples_of_one_step() {
    let source = Arc::new(Numbers { together: 8, ..Numbers::default() });
    let (mut loader, wanted) = loader(&source, 8, BadSample::Fail);
    for _ in 0..6 {
        let samples = loader.next(&wanted).unwrap();
        assert_eq!((samples.buffer.len(), samples.extents.len()), (16, 16));
        loader.recycle(samples).unwrap();
    }
    source.let_go();
}

#[test]
fn order_and_content_are_those_of_one_worker() {
    let alone = steps(1, &[], BadSample::Fail).unwrap();
    for (at, (ids, content, skipped)) in alone.iter().enumerate() {
        let expected: Vec<_> = ids.iter().map(|id| 1000 * (at as u64 / 4) + id).collect();
        assert_eq!((ids.len(), content, skipped.len()), (16, &expected, 0));
    }
    for workers in [2, 5, 16, 40] {
        assert_eq!(steps(workers, &[], BadSample::Fail).unwrap(), alone, "{workers} workers");
    }
}

#[test]
fn what_cannot_be_read_is_left_out_or_named_whoever_reads_it() {
    let bad = [5, 17, 40, 41, 63];
    let alone = steps(1, &bad, BadSample::Skip).unwrap();
    let left_out: Vec<_> = alone[..4].iter().flat_map(|it| it.2.clone()).collect();
    assert_eq!(left_out.len(), bad.len());
    let fail = |workers| match steps(workers, &bad, BadSample::Fail) {
        Err(LoaderError::Source(error)) => error,
        other => panic!("{other:?}"),
    };
    for workers in [2, 16] {
        assert_eq!(steps(workers, &bad, BadSample::Skip).unwrap(), alone, "{workers} workers");
        assert_eq!(fail(workers), fail(1), "{workers} workers");
    }
}
