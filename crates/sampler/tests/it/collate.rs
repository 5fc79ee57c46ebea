//! Mixed samples come out where they were put, and everything else is padding.

use plimsoll_sampler::{
    IGNORED_LABEL, Lattice, MixedBatch, MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape,
};
use proptest::{collection::vec, prelude::*};

/// Neither pixels, tokens nor labels of the samples are ever these, so that padding can be told from them.
const CONFIG: MixedConfig = MixedConfig { channels: 2, n_metadata: 2, padding_token: 1_000 };

/// The most samples that are drawn.
const N: u32 = 6;

/// No sample that is drawn is longer.
const MOST: MixedShape = MixedShape { images: 4, height: 5, width: 5, tokens: 9, labels: 3 };

/// What a sample borrows.
#[derive(Clone, Debug)]
struct Owned {
    task: u32,
    images: Vec<(u32, u32, Vec<u8>)>,
    tokens: Vec<u32>,
    labels: Vec<i32>,
    metadata: Vec<f64>,
}

impl Owned {
    fn images(&self) -> Vec<MixedImage<'_>> {
        self.images
            .iter()
            .map(|(height, width, pixels)| MixedImage { height: *height, width: *width, pixels })
            .collect()
    }

    fn sample<'a>(&'a self, id: u64, images: &'a [MixedImage<'a>]) -> MixedSample<'a> {
        let Self { task, tokens, labels, metadata, .. } = self;
        MixedSample { id, task: *task, images, tokens, labels, metadata }
    }
}

fn owned() -> impl Strategy<Value = Owned> {
    let image = (0..=MOST.height, 0..=MOST.width).prop_flat_map(|(height, width)| {
        (Just(height), Just(width), vec(1..=255u8, (CONFIG.channels * height * width) as usize))
    });
    let parts = (
        0..4u32,
        vec(image, 0..=MOST.images as usize),
        vec(0..900u32, 0..=MOST.tokens as usize),
        vec(-1..9i32, 0..=MOST.labels as usize),
        vec(-1.0..1.0f64, CONFIG.n_metadata as usize),
    );
    parts.prop_map(|(task, images, tokens, labels, metadata)| Owned { task, images, tokens, labels, metadata })
}

/// No edges, or edges on every axis of which the last holds the longest sample.
fn lattice() -> impl Strategy<Value = Lattice<5>> {
    let all = [vec![2, 4], vec![5], vec![3, 5], vec![4, 12], vec![3]];
    let none = [const { vec![] }; 5];
    let some = [vec![], vec![4, 8], vec![], vec![1, 16], vec![]];
    prop_oneof![Just(none), Just(all), Just(some)].prop_map(|edges| Lattice::try_new(edges).expect("edges that grow"))
}

/// Returns whether `row` is `real` and then nothing but `padding`.
fn padded<T: PartialEq>(row: &[T], real: &[T], padding: &T) -> bool {
    row.starts_with(real) && row[real.len()..].iter().all(|value| value == padding)
}

/// Returns row `i` of a block with `length` elements in each.
fn row<T>(block: &[T], i: usize, length: u32) -> &[T] {
    &block[i * length as usize..][..length as usize]
}

/// Returns what pixel belongs at a place of an image's block.
fn expected(image: Option<&(u32, u32, Vec<u8>)>, [channel, y, x]: [u32; 3]) -> u8 {
    match image {
        Some((height, width, pixels)) if y < *height && x < *width => {
            pixels[((channel * height + y) * width + x) as usize]
        }
        _ => 0,
    }
}

fn check_images(batch: &MixedBatch<'_>, i: usize, owned: &Owned) -> Result<(), TestCaseError> {
    let MixedShape { images, height, width, .. } = batch.cell;
    let real = vec![true; owned.images.len()];
    prop_assert!(padded(row(batch.image_mask, i, images), &real, &false));
    let sizes: Vec<_> = owned.images.iter().map(|(height, width, _)| [*height, *width]).collect();
    prop_assert!(padded(row(batch.image_sizes, i, images), &sizes, &[0; 2]));
    let mut pixels = row(batch.pixels, i, images * CONFIG.channels * height * width).iter();
    for image in 0..images as usize {
        for at in places(height, width) {
            prop_assert_eq!(pixels.next(), Some(&expected(owned.images.get(image), at)), "image {}, {:?}", image, at);
        }
    }
    Ok(())
}

fn places(height: u32, width: u32) -> impl Iterator<Item = [u32; 3]> {
    let rows = (0..CONFIG.channels).flat_map(move |channel| (0..height).map(move |y| (channel, y)));
    rows.flat_map(move |(channel, y)| (0..width).map(move |x| [channel, y, x]))
}

fn check_text(batch: &MixedBatch<'_>, i: usize, owned: &Owned) -> Result<(), TestCaseError> {
    let MixedShape { tokens, labels, .. } = batch.cell;
    prop_assert!(padded(row(batch.tokens, i, tokens), &owned.tokens, &CONFIG.padding_token));
    prop_assert!(padded(row(batch.attention_mask, i, tokens), &vec![true; owned.tokens.len()], &false));
    prop_assert!(padded(row(batch.labels, i, labels), &owned.labels, &IGNORED_LABEL));
    prop_assert_eq!(row(batch.metadata, i, CONFIG.n_metadata), &owned.metadata);
    prop_assert_eq!(batch.tasks[i], owned.task);
    Ok(())
}

/// Returns how many values of a block are not padding, and its length.
fn count<T: PartialEq>(block: &[T], padding: &T) -> (usize, usize) {
    (block.iter().filter(|value| *value != padding).count(), block.len())
}

proptest! {
    #[test]
    fn what_was_put_in_comes_out_and_the_rest_is_padding(
        batches in vec((vec(owned(), 1..=N as usize), lattice()), 1..4),
    ) {
        let room = MixedShape { images: 4, height: 8, width: 5, tokens: 16, labels: 3 };
        let mut buffer = MixedBuffer::with_capacity(CONFIG, &[(N, room)]);
        for (all, lattice) in batches {
            let images: Vec<_> = all.iter().map(Owned::images).collect();
            let samples: Vec<_> = (70..).zip(&all).zip(&images).map(|((id, own), images)| own.sample(id, images)).collect();
            let batch = buffer.collate(&samples, &lattice).unwrap();
            let longest = samples.iter().map(MixedSample::shape).reduce(MixedShape::longest).unwrap();
            prop_assert_eq!(Some(batch.cell), longest.cell(&lattice));
            prop_assert_eq!(batch.ids, (70..70 + all.len() as u64).collect::<Vec<_>>());
            for (i, own) in all.iter().enumerate() {
                check_images(&batch, i, own)?;
                check_text(&batch, i, own)?;
            }
        }
    }

    #[test]
    fn masks_agree_with_lengths(all in vec(owned(), 1..=N as usize)) {
        let images: Vec<_> = all.iter().map(Owned::images).collect();
        let mut buffer = MixedBuffer::with_capacity(CONFIG, &[(N, MOST)]);
        buffer.begin(MOST);
        for (i, own) in all.iter().enumerate() {
            buffer.push(&own.sample(i as u64, &images[i])).unwrap();
        }
        let batch = buffer.batch();
        let sum = |length: fn(&MixedShape) -> u32| batch.lengths.iter().map(|own| length(own) as usize).sum::<usize>();
        let block = |length: u32| all.len() * length as usize;
        prop_assert_eq!(count(batch.image_mask, &false), (sum(|own| own.images), block(MOST.images)));
        prop_assert_eq!((batch.image_sizes.len(), batch.metadata.len()), (block(MOST.images), block(CONFIG.n_metadata)));
        let pixels = MOST.images * CONFIG.channels * MOST.height * MOST.width;
        prop_assert_eq!(batch.pixels.len(), block(pixels));
        prop_assert_eq!(count(batch.attention_mask, &false), (sum(|own| own.tokens), block(MOST.tokens)));
        prop_assert_eq!(count(batch.tokens, &CONFIG.padding_token), (sum(|own| own.tokens), block(MOST.tokens)));
        prop_assert_eq!(count(batch.labels, &IGNORED_LABEL), (sum(|own| own.labels), block(MOST.labels)));
    }
}
