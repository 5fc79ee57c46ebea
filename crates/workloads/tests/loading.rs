//! What loading holds, measured.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use alone::alone;
use image::{DynamicImage, Rgb, RgbImage};
use plimsoll_fixtures::copy_folder;
use plimsoll_probe::{HeapCounters, TrackingAllocator};
use plimsoll_train::{BadSample, Draw, Item, Source};
use plimsoll_types::{Bytes, StepShape};
use plimsoll_workloads::multitask::{Samples, SamplesConfig};
use plimsoll_workloads::sequence::{RecordingStream, Recordings, RecordingsConfig};
use plimsoll_workloads::sr::{BadImage, CropItem, Crops, DataError, Photos, PhotosConfig};
use plimsoll_workloads::text::{Corpus, CorpusConfig, Cut, TextError};
use plimsoll_workloads::{Interrupted, Room, Shares, StoreConfig, Watch};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

fn in_use() -> Bytes {
    Bytes(HeapCounters::of_program().current() as u64)
}

/// Returns what comes of something, and the high-water mark meanwhile.
fn measured<T>(act: impl FnOnce() -> T) -> (T, Bytes) {
    HeapCounters::of_program().reset_peak();
    let done = act();
    (done, Bytes(HeapCounters::of_program().peak() as u64))
}

fn drawing(width: u32, height: u32) -> DynamicImage {
    let value = |x: u32, y: u32, k: u32| ((x * (k + 3) / 5 + y * 2 + (x * y / 64) * k) % 256).try_into().unwrap();
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |x, y| Rgb([0, 1, 2].map(|k| value(x, y, k)))))
}

/// A folder with two small images and one large one, which has this name.
fn folder(large: &str, image: &DynamicImage) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.png", "b.png"] {
        drawing(80, 64).save(folder.path().join(name)).unwrap();
    }
    image.save(folder.path().join(large)).unwrap();
    folder
}

fn config(folder: &Path, capacity: Bytes, store: &Path) -> PhotosConfig {
    PhotosConfig {
        folder: folder.to_owned(),
        shares: Shares::validating(0.3),
        bad_image: BadImage::Fail,
        smallest_patch: 16,
        room: Room { capacity, in_use: in_use(), ..Room::boundless(store) },
    }
}

#[test]
fn an_image_is_loaded_in_what_its_head_says_and_in_no_less() {
    let _alone = alone();
    let grey = DynamicImage::ImageLuma8(drawing(2400, 1600).into_luma8());
    // What an image holds as a whole, and whether it is decoded as a whole.
    for (name, image, whole) in [
        ("large.jpg", drawing(2400, 1600), Some(2400 * 1600 * 3)),
        ("grey.jpg", grey, Some(2400 * 1600)),
        ("large.png", drawing(2400, 1600), None),
        ("deep.png", DynamicImage::ImageRgb16(drawing(2400, 1600).into_rgb16()), None),
        ("large.bmp", drawing(2400, 1600), Some(2400 * 1600 * 3)),
        ("large.ppm", drawing(2400, 1600), Some(2400 * 1600 * 3)),
        ("large.qoi", drawing(2400, 1600), Some(2400 * 1600 * 3)),
        ("large.tif", drawing(2400, 1600), Some(2400 * 1600 * 3)),
        ("large.webp", drawing(2400, 1600), Some(2400 * 1600 * 3)),
        ("large.gif", drawing(2400, 1600), Some(2400 * 1600 * 4)),
    ] {
        let (folder, store) = (folder(name, &image), tempfile::tempdir().unwrap());
        drop(image);
        let read = |capacity| Photos::read(&config(folder.path(), capacity, store.path()));
        let (refused, peak) = measured(|| read(in_use().saturating_add(Bytes::kib(800))));
        assert!(peak <= in_use().saturating_add(Bytes::kib(800)), "{name}: refused with {peak}");
        let Err(DataError::TooLarge { path, needed, capacity, is_whole, .. }) = refused else {
            panic!("{name}: {refused:?}");
        };
        assert!(path.ends_with(name) && is_whole == whole.is_some(), "{name}: {path:?}");
        // What the image library decodes has planes or a canvas beside it, and the file itself.
        let is_own = name.ends_with("png") || name.ends_with("jpg");
        let beside = if is_own { 0 } else { 2400 * 1600 * 12 + fs::metadata(&path).unwrap().len() };
        let most = Bytes(whole.unwrap_or(0) + beside).saturating_add(Bytes::mib(2));
        assert!(needed <= most, "{name}: {needed}");
        assert!(capacity >= needed, "{name}: {capacity}");
        // The names in the configuration are in use too.
        let capacity = in_use().saturating_add(needed).saturating_add(Bytes::kib(1));
        let (photos, peak) = measured(|| read(capacity));
        assert_eq!(photos.unwrap().skipped, [] as [&str; 0]);
        assert!(peak <= capacity, "{name}: {peak} of {capacity}");
        assert!(whole.is_none_or(|it| in_use().saturating_add(Bytes(it)) <= peak), "{name}: {peak}");
    }
}

#[test]
fn an_image_that_takes_too_much_is_named_or_left_out() {
    let _alone = alone();
    let (folder, store) = (folder("large.jpg", &drawing(2400, 1600)), tempfile::tempdir().unwrap());
    let config = config(folder.path(), in_use().saturating_add(Bytes::mib(4)), store.path());
    let error = Photos::read(&config).unwrap_err().to_string();
    for part in ["large.jpg", "2400 × 1600", "a capacity of at least", "PNG", "bad_sample"] {
        assert!(error.contains(part), "{error}");
    }
    let photos = Photos::read(&PhotosConfig { bad_image: BadImage::Skip, ..config }).unwrap();
    assert_eq!((photos.train.len(), photos.validation.len()), (1, 1));
    assert!(photos.skipped[0].starts_with("large.jpg: to decode 2400 × 1600 pixels takes"), "{:?}", photos.skipped);
}

/// Returns the pixels of some steps.
fn pixels(photos: Photos, n_steps: u64) -> Vec<Vec<u8>> {
    let crops = Crops::new(Arc::new(photos), 8, 5);
    let mut buffer = crops.buffer(StepShape::new(6, 24));
    let step = |step: u64| {
        let ids = (0..6).map(|it| (it * 11 + step * 7) % crops.n_samples()).collect();
        crops.collate(&Draw::of_extent(0, ids, 24), &[CropItem::Cut; 6], &mut buffer).unwrap();
        [buffer.pixels.lr(), buffer.pixels.hr()].concat()
    };
    (0..n_steps).map(step).collect()
}

#[test]
fn a_store_for_one_photo_gives_the_pixels_of_a_store_for_all() {
    let _alone = alone();
    let (folder, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for at in 0..6 {
        drawing(100 + 10 * at, 90 + at).save(folder.path().join(format!("{at}.png"))).unwrap();
    }
    let all = config(folder.path(), Bytes::MAX, store.path());
    let expected = pixels(Photos::read(&all).unwrap(), 10);
    let limit = Bytes(150 * 95 * 3 * 5 / 4);
    let one = StoreConfig { folder: store.path().to_owned(), limit };
    let room = Room { store: one, ..all.room.clone() };
    let photos = Photos::read(&PhotosConfig { room, ..all.clone() }).unwrap();
    assert!(photos.waiting().is_some_and(|(n, stored)| n >= 4 && limit < stored), "{:?}", photos.waiting());
    assert!(expected == pixels(photos, 10));
    let tiny = StoreConfig { folder: store.path().to_owned(), limit: Bytes::kib(1) };
    let error = Photos::read(&PhotosConfig { room: Room { store: tiny, ..all.room.clone() }, ..all }).unwrap_err();
    assert!(error.to_string().contains("0.png") && error.to_string().contains("data.store_limit"), "{error}");
}

#[test]
fn an_image_of_a_sample_that_takes_too_much_is_named_or_its_line_left_out() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let fixtures = plimsoll_fixtures::dir().join("multitask");
    let list = fs::read_to_string(fixtures.join("samples.jsonl")).unwrap();
    copy_folder(&fixtures.join("images"), &folder.path().join("images")).unwrap();
    drawing(2400, 1600).save(folder.path().join("large.jpg")).unwrap();
    let line = r#"{"task":"single","subjects":["bavo"],"images":["large.jpg"],"text":"what is it"}"#;
    fs::write(folder.path().join("samples.jsonl"), format!("{list}\n{line}\n")).unwrap();
    let room =
        Room { capacity: in_use().saturating_add(Bytes::mib(4)), in_use: in_use(), ..Room::boundless(folder.path()) };
    let config = SamplesConfig::new(folder.path().to_owned(), room);
    let (error, peak) = measured(|| Samples::read(&config).unwrap_err().to_string());
    assert!(error.contains("large.jpg: to decode its 2400 × 1600 pixels") && error.contains("capacity"), "{error}");
    assert!(peak <= config.room.capacity, "{peak}");
    let samples = Samples::read(&SamplesConfig { bad_sample: BadSample::Skip, ..config }).unwrap();
    assert_eq!(samples.skipped.len(), 1, "{:?}", samples.skipped);
}

const SENTENCE: &str = "The tide comes in and the tide goes out, as it does on every day of the year.\n";

fn corpus_config(folder: &Path, capacity: Bytes, bad_document: BadSample) -> CorpusConfig {
    let room = Room { capacity, in_use: in_use(), ..Room::boundless(folder) };
    CorpusConfig {
        shares: Shares::validating(0.3),
        bad_document,
        vocabulary: 400,
        cut: Cut { longest: 128, overlap: 0 },
        ..CorpusConfig::new(folder.to_owned(), room)
    }
}

#[test]
fn documents_are_read_and_tokenized_in_what_is_said() {
    let _alone = alone();
    let word = |at: u64| format!("w{:x} ", at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    for (name, text) in [
        ("paragraphs.txt", format!("{SENTENCE}\n").repeat(8000)),
        ("section.txt", SENTENCE.repeat(2000)),
        ("pieces.txt", "a1".repeat(40_000)),
        ("words.txt", (0..30_000).map(word).collect()),
        ("paragraphs of words.txt", (0..60_000).map(|at| word(at) + if at % 20 == 0 { "\n\n" } else { "" }).collect()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("first.txt"), SENTENCE.repeat(3)).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        let (mut capacity, mut last) = (in_use(), None);
        let peak = loop {
            let (read, peak) = measured(|| Corpus::read(&corpus_config(folder.path(), capacity, BadSample::Fail)));
            match read {
                Err(TextError::TooLarge { path, capacity: enough, .. }) => {
                    assert!(capacity < enough, "{name}: {capacity}");
                    (capacity, last) = (enough, Some(path));
                }
                read => {
                    read.unwrap();
                    break peak;
                }
            }
        };
        assert!(last.is_some_and(|it| it.ends_with(name)), "{name} was not refused by its own size");
        assert!(peak <= capacity, "{name}: {peak} of {capacity}");
    }
}

#[test]
fn a_document_that_takes_too_much_is_named_or_left_out_before_it_is_read() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.md"] {
        fs::write(folder.path().join(name), SENTENCE.repeat(3)).unwrap();
    }
    fs::write(folder.path().join("large.txt"), format!("{SENTENCE}\n").repeat(40_000)).unwrap();
    let capacity = in_use().saturating_add(Bytes::mib(20));
    let config = |bad_document| corpus_config(folder.path(), capacity, bad_document);
    let (refused, peak) = measured(|| Corpus::read(&config(BadSample::Fail)).unwrap_err());
    assert!(matches!(refused, TextError::TooLarge { longest: None, .. }), "{refused}");
    let error = refused.to_string();
    for part in ["large.txt", "3.01 MiB", "are left", "a capacity of at least", "bad_sample"] {
        assert!(error.contains(part), "`{error}` lacks `{part}`");
    }
    assert!(peak <= in_use().saturating_add(Bytes::mib(1)), "it was read: {peak}");
    let (corpus, peak) = measured(|| Corpus::read(&config(BadSample::Skip)).unwrap());
    assert!(peak <= capacity, "{peak}");
    assert!(
        corpus.skipped.len() == 1 && corpus.skipped[0].starts_with("large.txt: to read and"),
        "{:?}",
        corpus.skipped
    );
}

/// Makes a WAV file of silence: stereo, 16 bit.
fn silence(path: &Path, rate: u32, seconds: u32) {
    let n_bytes = 4 * rate * seconds;
    let format = [16_u32, 0x0002_0001, rate, 4 * rate, 0x0010_0004];
    let head = [&b"RIFF"[..], &(36 + n_bytes).to_le_bytes(), b"WAVEfmt "].concat();
    let head = [head, format.map(u32::to_le_bytes).concat(), b"data".to_vec(), n_bytes.to_le_bytes().to_vec()].concat();
    fs::write(path, head).unwrap();
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(44 + u64::from(n_bytes)).unwrap();
}

#[test]
fn a_long_recording_is_read_in_blocks() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // Most have the lower rate, so that the other one is resampled; each file has 26 MB or more.
    for (name, rate) in [("a.wav", 22_050), ("b.wav", 22_050), ("c.wav", 22_050), ("d.wav", 44_100)] {
        silence(&folder.path().join(name), rate, 300);
    }
    fs::write(folder.path().join("labels.csv"), "path,label\na.wav,x\nb.wav,x\nc.wav,y\nd.wav,z\n").unwrap();
    let config =
        RecordingsConfig { shares: Shares::validating(0.1), ..RecordingsConfig::new(folder.path().to_owned()) };
    let before = in_use();
    let (recordings, peak) = measured(|| Recordings::read(&config).unwrap());
    assert!(peak <= before.saturating_add(Bytes::mib(2)), "{peak} to look at the files");
    let stream = RecordingStream::new(Arc::new(recordings), false);
    for id in 0..stream.n_samples() {
        let (frames, peak) = measured(|| stream.read(0, id).unwrap());
        assert_eq!(frames.extent().edge(), 30_067, "{}", stream.describe(id));
        // The frames take 4.6 MiB, and as much again while their memory grows.
        assert!(peak <= before.saturating_add(Bytes::mib(14)), "{}: {peak}", stream.describe(id));
    }
}

/// Ends loading at every so many pieces; each time it is an error, and without an end there is none.
#[track_caller]
fn check_interrupted<E: std::error::Error>(job: &str, read: &dyn Fn(Watch<'_>) -> Result<(), E>) {
    let mut n_pieces = 0;
    read(&mut |_, _| {
        n_pieces += 1;
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|error| panic!("{job}: {error}"));
    assert!(n_pieces > 4, "{job}: {n_pieces} pieces");
    for last in [0, 1, n_pieces / 2, n_pieces - 1] {
        let mut n_told = 0;
        let ended = read(&mut |n_done, n| {
            assert!(n_done < n, "{job}: {n_done} of {n}");
            n_told += 1;
            if n_told <= last { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let error = ended.err().unwrap_or_else(|| panic!("{job}: it went on after {last} of {n_pieces}"));
        assert_eq!(error.to_string(), Interrupted.to_string(), "{job}");
        assert_eq!(n_told, last + 1, "{job}: it went on");
    }
}

#[test]
fn whoever_watches_ends_the_loading_of_any_job_at_any_piece() {
    let _alone = alone();
    let (fixtures, store) = (plimsoll_fixtures::dir(), tempfile::tempdir().unwrap());
    let photos = PhotosConfig { folder: fixtures.join("sr"), ..config(&fixtures, Bytes::MAX, store.path()) };
    check_interrupted("sr", &|watch| Photos::read_watched(&photos, watch).map(drop));
    let samples = SamplesConfig::new(fixtures.join("multitask"), Room::boundless(store.path()));
    check_interrupted("multitask", &|watch| Samples::read_watched(&samples, watch).map(drop));
    let recordings = RecordingsConfig::new(fixtures.join("sequence"));
    check_interrupted("sequence", &|watch| Recordings::read_watched(&recordings, watch).map(drop));
    let corpus = corpus_config(&fixtures.join("text"), Bytes::MAX, BadSample::Fail);
    check_interrupted("text", &|watch| Corpus::read_watched(&corpus, watch).map(drop));
}
