//! Batches that are to have a multiple of so many samples.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_train::{Existing, Loader, LoaderConfig, LoaderError, StepUnit, Unit, Wanted};
use plimsoll_types::Bytes;

use super::common::{alone, flex_with, run_on, steps};
use super::job::{EDGES, N_SAMPLES, Rows, tiny};
use super::{config, kept};

const MULTIPLE: u32 = 4;

fn batches_of_four(unit: StepUnit) -> LoaderConfig {
    LoaderConfig { multiple_of: MULTIPLE, ..config(1, unit, 16).loader }
}

fn loader(streamed: bool, sizes: &[u32], config: &LoaderConfig) -> Result<Loader<Rows>, LoaderError> {
    let source = Arc::new(Rows::new(streamed, None, 1));
    Loader::try_new(&source, None, &Wanted::Batches(sizes.to_vec()), config)
}

/// Takes so many batches; returns what each is padded to and how many samples it has, epoch by epoch.
fn taken(loader: &mut Loader<Rows>, sizes: &[u32], n: usize) -> BTreeMap<u64, Vec<(u32, u32)>> {
    let mut epochs: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for _ in 0..n {
        let samples = loader.next(&Wanted::Batches(sizes.to_vec())).unwrap();
        let [part] = &samples.draw.parts[..] else { panic!("a step is a batch") };
        let batch = (part.extent.edge(), u32::try_from(part.ids.len()).unwrap());
        epochs.entry(samples.draw.epoch).or_default().push(batch);
        loader.recycle(samples).unwrap();
    }
    epochs
}

#[test]
fn batches_are_multiples_and_give_way_to_a_memory_that_has_no_room_for_them() {
    let (ample, scarce, config) = ([16, 9, 6, 4], [16, 9, 3, 2], batches_of_four(StepUnit::Batch));
    for streamed in [false, true] {
        let mut loader = loader(streamed, &[1; 4], &config).unwrap();
        let most = |sizes: [u32; 4], edge: u32| sizes[EDGES.iter().position(|it| *it == edge).unwrap()];
        for sizes in [ample, scarce, ample] {
            for (epoch, batches) in taken(&mut loader, &sizes, 60) {
                let n: u32 = batches.iter().map(|it| it.1).sum();
                assert!(u64::from(n) <= N_SAMPLES, "epoch {epoch} has {n} samples");
                let is_ragged = |(edge, n): &&(u32, u32)| MULTIPLE <= most(sizes, *edge) && n % MULTIPLE != 0;
                let ragged: Vec<_> = batches.iter().filter(is_ragged).collect();
                // Of a stream, half of the buffer may have more beyond a multiple than there is room to keep.
                assert!(streamed || ragged.len() <= 1, "epoch {epoch}, {sizes:?}: {ragged:?}");
                // What was taken ahead of need has the sizes of then.
                let too_many = batches.iter().filter(|(edge, n)| most(sizes, *edge) < *n).count();
                assert!(too_many <= if streamed { 8 } else { 0 }, "epoch {epoch}, {sizes:?}: {batches:?}");
            }
        }
    }
}

#[test]
fn a_multiple_that_no_step_has_room_for_is_refused() {
    for (unit, most) in [(StepUnit::Samples, 16), (StepUnit::Positions, 1)] {
        for streamed in [false, true] {
            let fits = LoaderConfig { multiple_of: most, ..batches_of_four(unit) };
            loader(streamed, &[1; 4], &fits).unwrap();
            let above = LoaderConfig { multiple_of: most + 1, ..fits };
            let Err(error) = loader(streamed, &[1; 4], &above) else { panic!("it was taken") };
            let expected = format!(
                "plan the steps: `batch.multiple_of` is {}, it must be at most {most}, as many samples of length 40 as a step \
                 allows a batch; fewer `batch.batches_per_step` or a larger `batch.effective_batch_size` would help",
                most + 1
            );
            assert!(error.to_string() == expected && matches!(error, LoaderError::MultipleAboveStep { .. }), "{error}");
        }
    }
}

#[test]
fn a_run_says_that_its_batches_are_smaller_than_the_multiple() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (mut config, job) = (config(3, StepUnit::Samples, 16), tiny(false, Unit::Samples));
    (config.deterministic, config.controller.policy, config.loader) =
        (true, kept(2), batches_of_four(StepUnit::Samples));
    let ran = run_on(flex_with(Bytes::mib(64)), &job, &config, folder.path(), Existing::Refuse, None);
    ran.outcome.unwrap();
    let [warning] = &ran.warnings[..] else { panic!("{:?}", ran.warnings) };
    assert!(warning.contains("`batch.multiple_of` is 4, and there is room for 2 samples of length 8"), "{warning}");
    assert!(steps(&ran.events).iter().flat_map(|it| &it.micro_batches).all(|it| it.ids.len() <= 2));
}
