//! Sounds and images in the formats that other libraries decode.

use std::fs;
use std::path::Path;

use plimsoll_fixtures::name;
use plimsoll_probe::HeapCounters;
use plimsoll_types::Bytes;
use plimsoll_workloads::sr::{BadImage, Photos, PhotosConfig};
use plimsoll_workloads::{Room, Shares};
use tempfile::tempdir;

use super::{Reader, dir, put, read_recordings};

/// Memory that an image may take to be decoded, beside what is there.
const CAPACITY: Bytes = Bytes::mib(32);

/// A compressed sound, among others that are in order.
#[test]
fn compressed_sound() {
    const WORDS: &[&str] = &["fLaC", "OggS", "\u{1}vorbis", "ID3\u{4}\0", "Xing", "Info", "LAME", "\0\0\0\0"];
    let folder = tempdir().unwrap();
    for name in ["a", "b", "c"] {
        put(&folder, &format!("{name}.wav"), &fs::read(dir().join("sequence/wav/00_fall.wav")).unwrap());
    }
    put(&folder, "labels.csv", b"path,label\na.wav,x\nb.wav,x\nc.wav,x\nd.ogg,y\n");
    let sounds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/tests/sequence/sounds");
    let corpus = ["stereo.flac", "mono.ogg", "mono.mp3"].map(|it| fs::read(sounds.join(it)).unwrap()).to_vec();
    let mut read = |input: &[u8]| {
        put(&folder, "d.ogg", input);
        read_recordings(folder.path())
    };
    Reader { name: "compressed_sound", corpus, words: WORDS, read: &mut read }.fuzz();
}

/// An image that is decoded as a whole, among others that are in order.
#[test]
fn picture() {
    const WORDS: &[&str] =
        &["RIFF", "WEBP", "VP8L", "VP8X", "GIF89a", "BM", "P6\n", "P3 9 9 255\n", "qoif", "II*\0", "MM\0*", "\0\0\0\0"];
    let (folder, store) = (tempdir().unwrap(), tempdir().unwrap());
    let drawn = |index| dir().join("sr").join(name(index));
    for name in ["a.png", "b.png"] {
        fs::copy(drawn(0), folder.path().join(name)).unwrap();
    }
    let encoded = |format: &str| {
        let path = store.path().join(format!("image.{format}"));
        image::open(drawn(1)).unwrap().save(&path).unwrap();
        fs::read(path).unwrap()
    };
    let corpus = ["webp", "gif", "bmp", "ppm", "qoi", "tiff"].map(encoded).to_vec();
    let mut read = |input: &[u8]| {
        // Only a name says of this form that it is an image.
        put(&folder, "c.tif", input);
        let in_use = Bytes(HeapCounters::of_program().current() as u64);
        let config = PhotosConfig {
            folder: folder.path().to_owned(),
            shares: Shares::validating(0.3),
            bad_image: BadImage::Skip,
            smallest_patch: 8,
            room: Room { capacity: in_use.saturating_add(CAPACITY), in_use, ..Room::boundless(store.path()) },
        };
        Photos::read(&config).unwrap().skipped.is_empty()
    };
    Reader { name: "picture", corpus, words: WORDS, read: &mut read }.fuzz();
}
