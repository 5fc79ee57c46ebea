//! Classification of the project's own tones.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/held_out.rs"]
mod held_out;
#[path = "../common/parts.rs"]
mod parts;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use plimsoll_probe::TrackingAllocator;
use plimsoll_sampler::{BatchPlanner, EpochCursor, PaddedBudget, PlanConfig};
use plimsoll_step::WeightedAccumulator;
use plimsoll_train::{Index, Item, Job, Lengths, Loader, LoaderConfig, Metric, Part, Source, StepError, Wanted};
use plimsoll_types::{Bytes, Extent, StepShape};
use plimsoll_workloads::Shares;
use plimsoll_workloads::sequence::{
    Encoder, EncoderConfig, Recording, Recordings, RecordingsConfig, SequenceConfig, SequenceJob,
};

use common::check_splits;
use held_out::with_inference;
use parts::{collated, length, parts};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

fn config(folder: &Path) -> RecordingsConfig {
    RecordingsConfig::new(folder.to_owned())
}

fn tones() -> Recordings {
    Recordings::read(&config(&plimsoll_fixtures::dir().join("sequence"))).unwrap()
}

fn job(recordings: Recordings, stream: bool) -> SequenceJob {
    let model = EncoderConfig { heads: 2, head_width: 8, blocks: 1 };
    SequenceJob::new(SequenceConfig { model, stream }, Arc::new(recordings))
}

/// What the steps of these tests have room for.
const LARGEST: StepShape = StepShape::new(16, 64);

#[test]
fn every_split_of_a_step_has_the_gradient_of_the_undivided_one() {
    let (job, device) = (job(tones(), true), Device::flex().autodiff());
    device.seed(11);
    let model = job.init(&device);
    let parts = parts(&job, 3);
    let whole = Part::new(parts.iter().flat_map(|part| part.ids.clone()).collect(), 60);
    let gradients = |parts: &[Part], sizes: &[usize]| {
        let (buffer, mut accumulator, mut start) = (collated(&job, parts, LARGEST), WeightedAccumulator::new(13), 0);
        for n in sizes {
            let loss = job.mean_loss(&model, job.batch(&buffer, start..start + n, &device), &[]).mean;
            let part = accumulator.backward(&model, &loss, *n as u64);
            accumulator.add(&model, part);
            start += n;
        }
        accumulator.finish()
    };
    let undivided = gradients(std::slice::from_ref(&whole), &[13]);
    let splits = [
        (&parts[..], vec![2, 5, 6]),
        (&parts[..], vec![2, 3, 2, 4, 2]),
        (&parts[..], vec![1; 13]),
        (&[whole][..], vec![8, 5]),
    ];
    let splits = splits.map(|(parts, sizes)| (format!("{sizes:?}"), gradients(parts, &sizes)));
    check_splits(&model, &device, &undivided, splits);
}

#[test]
fn padding_does_not_change_the_loss_of_a_recording() {
    let (job, device) = (job(tones(), true), Device::flex());
    device.seed(12);
    let model = job.init(&device);
    let parts = parts(&job, 3);
    let loss = |parts: Vec<Part>, at: usize| {
        let buffer = collated(&job, &parts, LARGEST);
        job.mean_loss(&model, job.batch(&buffer, at..at + 1, &device), &[]).mean.into_scalar::<f32>()
    };
    let ids: Vec<_> = parts.iter().flat_map(|part| part.ids.clone()).collect();
    for (at, id) in ids.iter().enumerate() {
        let alone = loss(vec![Part::new(vec![*id], length(&job, *id))], 0);
        for edge in [parts[2].extent.edge(), 60] {
            let padded = loss(vec![Part::new(ids.clone(), edge)], at);
            assert!((alone - padded).abs() < 1e-5, "{id} at {edge}: {alone} {padded}");
        }
    }
}

#[test]
fn what_is_planned_has_the_shapes_of_what_is_run() {
    let (job, device) = (job(tones(), true), Device::flex().autodiff());
    let model = job.init(&device);
    let blank = job.mean_loss(&model, job.blank_batch(StepShape::new(3, 20), &device), &[]).mean;
    assert!(blank.into_scalar::<f32>().is_finite());
    let scores = job.blank_forward(&model.valid(), StepShape::new(3, 20), &Device::flex());
    assert_eq!(scores.dims(), [15]);
    // The shortest that there may be.
    let shortest = job.mean_loss(&model, job.blank_batch(StepShape::new(1, 1), &device), &[]).mean;
    assert!(shortest.into_scalar::<f32>().is_finite());
}

#[test]
fn reading_and_splitting_are_the_same_every_time() {
    let (first, again) = (tones(), tones());
    assert_eq!((&first.train, &first.validation, &first.classes), (&again.train, &again.validation, &again.classes));
    assert_eq!((first.train.len(), first.validation.len()), (50, 10));
    // Two tones of each kind are held out.
    for class in 0..5 {
        assert_eq!(first.validation.iter().filter(|it| it.class == class).count(), 2);
    }
    let (first, again) = (job(first, true).source(), job(again, false).source());
    for id in 0..first.n_samples() {
        assert_eq!(first.read(0, id).unwrap(), again.read(3, id).unwrap());
    }
}

/// Sounds of the fixtures, divided by their speakers where a column says whose they are.
fn divided(group_column: Option<&str>) -> Recordings {
    let shares = Shares { validation: 0.2, test: 0.2 };
    let folder = plimsoll_fixtures::dir().join("sequence");
    let group_column = group_column.map(str::to_owned);
    Recordings::read(&RecordingsConfig { shares, group_column, ..config(&folder) }).unwrap()
}

#[test]
fn no_speaker_is_in_two_parts_where_recordings_are_divided_by_them() {
    let parts = |it: &Recordings| [it.train.clone(), it.validation.clone(), it.test.clone()];
    let speaker = |it: &Recording| {
        let at: u64 = it.name.trim_start_matches("wav/")[..2].parse().unwrap();
        plimsoll_fixtures::sound_of(at).1
    };
    let speakers =
        |parts: &[Vec<Recording>; 3]| parts.each_ref().map(|it| it.iter().map(speaker).collect::<BTreeSet<_>>());
    let (by_speaker, one_by_one) = (divided(Some("speaker")), divided(None));
    let grouped = speakers(&parts(&by_speaker));
    assert_eq!(grouped.each_ref().map(BTreeSet::len), [4, 1, 1]);
    assert_eq!(grouped.iter().flatten().collect::<BTreeSet<_>>().len(), 6, "{grouped:?}");
    assert_eq!(parts(&by_speaker).map(|it| it.len()), [40, 10, 10]);
    assert!(parts(&by_speaker) == parts(&divided(Some("speaker"))), "the same every time");
    let alone = parts(&one_by_one);
    assert_eq!(alone.each_ref().map(Vec::len), [40, 10, 10]);
    assert!(speakers(&alone)[1..].iter().all(|it| 1 < it.len()), "speakers are mixed: {:?}", speakers(&alone));
    let names = alone.iter().flatten().map(|it| &it.name).collect::<BTreeSet<_>>();
    assert_eq!(names.len(), 60, "each recording is in one part");
    let (device, grouped) = (Device::flex().autodiff(), job(by_speaker, false));
    let measured = with_inference(grouped.features(), |mut it| grouped.test(&grouped.init(&device), &device, &mut it))
        .unwrap()
        .unwrap();
    assert_eq!(measured.metric.name, "accuracy, new `speaker` (%)");
}

#[test]
fn recordings_are_in_the_order_of_their_sources_where_a_column_names_them() {
    let folder = plimsoll_fixtures::dir().join("sequence");
    let of = |column: Option<&str>| {
        let source_column = column.map(str::to_owned);
        Recordings::read(&RecordingsConfig { source_column, ..config(&folder) }).unwrap()
    };
    let (alone, mixed) = (of(None), of(Some("speaker")));
    assert!(alone.sources.is_empty() && alone.train.is_sorted_by_key(|it| it.class));
    assert!(mixed.train.is_sorted_by_key(|it| (it.source, it.class)));
    let names: Vec<_> = mixed.sources.iter().map(|it| it.name.clone()).collect();
    assert!(names.len() == 6 && names.is_sorted(), "{names:?}");
    for (number, source) in (0..).zip(&mixed.sources) {
        let of_source: Vec<_> = mixed.train.iter().filter(|it| it.source == number).collect();
        assert_eq!(of_source.len() as u64, source.n_samples);
        for it in of_source {
            let at: u64 = it.name.trim_start_matches("wav/")[..2].parse().unwrap();
            assert_eq!(plimsoll_fixtures::sound_of(at).1, source.name, "{it}");
        }
    }
    let fingerprint = |it: Recordings| job(it, true).fingerprint();
    assert_ne!(fingerprint(of(Some("label"))), fingerprint(of(Some("speaker"))));
    // Of known lengths, shares go by the tasks of the index.
    let expected: Vec<_> = mixed.train.iter().map(|it| it.source).collect();
    let source = job(mixed, false).source();
    let Lengths::Known(index) = source.lengths() else { panic!("they are known") };
    assert_eq!(index.tasks(), Some(&expected[..]));
    assert_eq!(source.read(0, 30).unwrap().task(), expected[30]);
}

#[test]
fn recordings_of_a_group_stay_together_where_a_column_names_it() {
    let folder = plimsoll_fixtures::dir().join("sequence");
    let of = |column: Option<&str>| {
        let together_column = column.map(str::to_owned);
        Recordings::read(&RecordingsConfig { together_column, ..config(&folder) }).unwrap()
    };
    let recordings = of(Some("speaker"));
    let speaker = |it: &Recording| {
        let at: u64 = it.name.trim_start_matches("wav/")[..2].parse().unwrap();
        plimsoll_fixtures::sound_of(at).1
    };
    let speakers: Vec<_> = recordings.train.iter().map(speaker).collect();
    let lengths: Vec<_> = recordings.train.iter().map(|it| it.n_frames).collect();
    let source = job(recordings, false).source();
    let Lengths::Grouped(groups) = source.lengths() else { panic!("they stay together") };
    assert_eq!(groups.len(), speakers.iter().collect::<BTreeSet<_>>().len());
    for group in (0..).take(groups.len()) {
        let of_group: BTreeSet<_> = groups.members(group).iter().map(|id| &speakers[*id as usize]).collect();
        assert_eq!(of_group.len(), 1, "{of_group:?}");
    }
    assert!(groups.index().iter().map(|[length]| length).eq(lengths));
    assert!(matches!(job(of(None), false).source().lengths(), Lengths::Known(_)));
    assert!(matches!(job(of(Some("speaker")), true).source().lengths(), Lengths::Streamed { .. }));
}

#[test]
fn recordings_are_drawn_by_their_weights_where_a_column_has_them() {
    let folder = tempfile::tempdir().unwrap();
    plimsoll_fixtures::copy_folder(&plimsoll_fixtures::dir().join("sequence"), folder.path()).unwrap();
    let list = fs::read_to_string(folder.path().join("labels.csv")).unwrap();
    let weighed = |weight: fn(usize) -> u32| {
        let field = |at: usize| if at == 0 { "often".to_owned() } else { weight(at).to_string() };
        let lines = list.lines().enumerate().map(|(at, line)| format!("{line},{}\n", field(at)));
        fs::write(folder.path().join("labels.csv"), lines.collect::<String>()).unwrap();
        let weight_column = Some("often".to_owned());
        Recordings::read(&RecordingsConfig { weight_column, ..config(folder.path()) })
    };
    // Of every five two are never drawn, and one twice as often as the other two.
    let recordings = weighed(|at| [0, 1, 2, 0, 1][at % 5]).unwrap();
    let weights: Vec<_> = recordings.train.iter().map(|it| it.weight.unwrap()).collect();
    let fingerprint = job(weighed(|at| [0, 1, 2, 0, 1][at % 5]).unwrap(), false).fingerprint();
    assert_eq!(job(recordings, false).fingerprint(), fingerprint);
    let other = weighed(|at| [0, 2, 1, 0, 1][at % 5]).unwrap();
    assert_ne!(job(other, false).fingerprint(), fingerprint);
    let source = job(weighed(|at| [0, 1, 2, 0, 1][at % 5]).unwrap(), false).source();
    let Lengths::Known(Index::One(index)) = source.lengths() else { panic!("they are known") };
    let planner = BatchPlanner::try_new(index, PaddedBudget([1 << 20]), PlanConfig::default());
    let (planner, mut drawn) = (planner.unwrap(), vec![0u32; weights.len()]);
    let n_epochs = 500;
    for epoch in 0..n_epochs {
        for id in planner.batches(epoch).flat_map(|batch| batch.ids) {
            drawn[usize::try_from(id).unwrap()] += 1;
        }
    }
    let n_draws: u32 = drawn.iter().sum();
    assert_eq!(u64::from(n_draws), n_epochs * weights.len() as u64);
    let sum: f64 = weights.iter().sum();
    for (drawn, weight) in drawn.into_iter().zip(weights) {
        let (drawn, expected) = (f64::from(drawn), weight / sum * f64::from(n_draws));
        // Five standard deviations.
        assert!(
            (drawn - expected).abs() <= 5.0 * expected.sqrt(),
            "{drawn} draws of weight {weight}, {expected} expected"
        );
    }
    let error = weighed(|_| 0).err().unwrap().to_string();
    assert!(error.contains("by `often`: the weights of the 50 to train on sum to 0"), "{error}");
}

#[test]
fn lengths_are_known_unless_they_are_streamed() {
    let recordings = tones();
    let lengths: Vec<_> = recordings.train.iter().map(|it| it.n_frames).collect();
    let source = job(recordings, false).source();
    let Lengths::Known(index) = source.lengths() else { panic!("they are known") };
    for (id, length) in (0..).zip(&lengths) {
        assert_eq!(
            (index.get(id), source.read(0, id).unwrap().extent()),
            (Some(Extent::new(*length)), Extent::new(*length))
        );
    }
    let longest = *lengths.iter().max().unwrap();
    assert_eq!(job(tones(), true).source().lengths(), Lengths::Streamed { longest: longest.into() });
}

#[test]
fn an_epoch_has_every_recording_once_whatever_the_number_of_workers() {
    for stream in [true, false] {
        let source = job(tones(), stream).source();
        let wanted = Wanted::Batches(vec![12, 8, 4]);
        let draws = |workers| {
            let cells = vec![20, 35, 64].into();
            let config = LoaderConfig { workers, cells, ..LoaderConfig::cut(5, 16, 64, Bytes::mib(4)) };
            let mut loader = Loader::try_new(&source, None, &wanted, &config).unwrap();
            let (mut steps, mut ends) = (Vec::new(), false);
            while !ends {
                let samples = loader.next(&wanted).unwrap();
                ends = samples.ends_epoch;
                steps.push((samples.draw.clone(), samples.extents.clone(), samples.buffer.clone()));
                loader.recycle(samples).unwrap();
            }
            steps
        };
        let steps = draws(1);
        assert!(steps == draws(3), "streamed: {stream}");
        let mut ids: Vec<_> = steps.iter().flat_map(|(draw, ..)| draw.ids()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..source.n_samples()).collect::<Vec<_>>(), "streamed: {stream}");
        for (draw, lengths, _) in &steps {
            let edges = draw.parts.iter().flat_map(|part| part.ids.iter().map(|_| part.extent));
            assert!(edges.zip(lengths).all(|(edge, length)| edge.covers(*length)), "{draw:?} {lengths:?}");
        }
    }
}

fn validate(job: &SequenceJob, model: &Encoder, device: &Device) -> Result<Metric, StepError> {
    with_inference(job.features(), |mut inference| job.validate(model, device, &mut inference))
        .map(|it| it.unwrap().metric)
}

#[test]
fn the_default_model_tells_tones_apart_after_fifty_steps() {
    let (job, device) = (SequenceJob::new(SequenceConfig::default(), Arc::new(tones())), Device::flex().autodiff());
    device.seed(1);
    let (mut model, mut optimizer, source) = (job.init(&device), AdamConfig::new().init(), job.source());
    let mut cursor = EpochCursor::try_new(source.n_samples(), 1).unwrap();
    let untrained = validate(&job, &model, &device).unwrap();
    for step in 0..50 {
        let (epoch, ids) = cursor.take(16);
        let buffer = collated(&job, &[Part::new(ids.clone(), 60)], LARGEST);
        assert!(epoch <= step, "an epoch has more than one step");
        let loss = job.mean_loss(&model, job.batch(&buffer, 0..ids.len(), &device), &[]).mean;
        model = optimizer.step(2e-3, model.clone(), GradientsParams::from_grads(loss.backward(), &model));
    }
    let trained = validate(&job, &model, &device).unwrap();
    assert_eq!((untrained.baseline, trained.baseline, trained.name.as_str()), (20.0, 20.0, "accuracy (%)"));
    assert!(untrained.value < 50.0 && trained.value >= 80.0, "{untrained:?} {trained:?}");
}

#[test]
fn pen_strokes_are_read_like_sounds() {
    let folder = tempfile::tempdir().unwrap();
    let mut list = "path,label\n".to_owned();
    for (at, label) in ["line", "corner", "line", "corner"].into_iter().enumerate() {
        let turn = if label == "line" { format!("{},0,400", 40 + at) } else { format!("20,{},400", 20 + at) };
        fs::write(folder.path().join(format!("{at}.txt")), format!("START\n0,0,0\n20,0,200\n{turn}\nBREAK\n")).unwrap();
        list += &[&format!("{at}.txt"), label].join(",");
        list += "\n";
    }
    fs::write(folder.path().join("labels.csv"), list).unwrap();
    let recordings = Recordings::read(&config(folder.path())).unwrap();
    assert_eq!((recordings.n_values(), recordings.train.len(), recordings.majority()), (6, 2, 0.5));
    let job = job(recordings, false);
    let frames = job.source().read(0, 1).unwrap();
    // A line of the longer side's length has a point at its start and 24 more.
    assert_eq!((frames.extent(), frames.values.len()), (Extent::new(25), 150));
}
