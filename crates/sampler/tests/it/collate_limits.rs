//! What a mixed batch cannot hold is refused, with the sample, the axis, the size and the limit.

use plimsoll_sampler::{CollateError, Lattice, MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape};

const CELL: MixedShape = MixedShape { images: 2, height: 2, width: 3, tokens: 4, labels: 1 };
const CONFIG: MixedConfig = MixedConfig { channels: 1, n_metadata: 1, padding_token: 50 };

/// Starts a batch of so many samples, which leave half of the cell empty.
fn fill(buffer: &mut MixedBuffer, n: u64) {
    let images = [MixedImage { height: 2, width: 3, pixels: &[1; 6] }];
    buffer.begin(CELL);
    for id in 0..n {
        let sample = MixedSample { id, task: 2, images: &images, tokens: &[1; 2], labels: &[], metadata: &[0.5] };
        buffer.push(&sample).expect("room for the sample");
    }
}

#[test]
fn what_does_not_fit_is_named_and_changes_nothing() {
    let mut buffer = MixedBuffer::with_capacity(CONFIG, &[(2, CELL)]);
    fill(&mut buffer, 1);
    let before = format!("{:?}", buffer.batch());
    let sample = MixedSample { id: 17, tokens: &[0; 5], metadata: &[0.5], ..MixedSample::default() };
    let error = buffer.push(&sample).unwrap_err();
    assert_eq!(error.to_string(), "collate sample 17: `tokens` would be 5, the limit is 4");
    let wide = [MixedImage { height: 1, width: 4, pixels: &[0; 4] }];
    let error = buffer.push(&MixedSample { images: &wide, tokens: &[], ..sample }).unwrap_err();
    assert_eq!(error.to_string(), "collate sample 17: `width` would be 4, the limit is 3");
    assert!(buffer.push(&MixedSample { tokens: &[], metadata: &[], ..sample }).is_err());
    assert_eq!(format!("{:?}", buffer.batch()), before);
}

#[test]
fn a_full_buffer_names_the_sample_that_is_too_many() {
    let mut buffer = MixedBuffer::with_capacity(CONFIG, &[(2, CELL)]);
    fill(&mut buffer, 2);
    let sample = MixedSample { id: 17, metadata: &[0.5], ..MixedSample::default() };
    let message = "collate sample 17: `samples` would be 3, the limit is 2";
    assert_eq!(buffer.push(&sample).unwrap_err().to_string(), message);
    buffer.begin(MixedShape { tokens: 9, ..CELL });
    let message = "collate sample 17: `samples × tokens` would be 9, the limit is 8";
    assert_eq!(buffer.push(&sample).unwrap_err().to_string(), message);
    assert!(buffer.batch().is_empty());
}

#[test]
fn a_sample_beyond_lattice_or_buffer_is_refused_and_the_batch_is_empty() {
    let mut buffer = MixedBuffer::with_capacity(CONFIG, &[(2, CELL)]);
    fill(&mut buffer, 2);
    let lattice = Lattice::try_new([vec![], vec![], vec![], vec![2, 4], vec![]]).unwrap();
    let short = MixedSample { id: 3, tokens: &[1], metadata: &[0.5], ..MixedSample::default() };
    let error = buffer.collate(&[short, MixedSample { id: 17, tokens: &[1; 6], ..short }], &lattice).unwrap_err();
    assert_eq!(error, CollateError::DoesNotFit { id: 17, axis: "tokens", size: 6, limit: 4 });
    assert!(buffer.batch().is_empty());
    let error = buffer.collate(&[short; 3], &lattice).unwrap_err();
    assert_eq!(error, CollateError::DoesNotFit { id: 3, axis: "samples", size: 3, limit: 2 });
    assert!(buffer.batch().is_empty());
    let long = MixedSample { id: 18, labels: &[1; 2], ..short };
    let error = buffer.collate(&[short, long], &Lattice::default()).unwrap_err();
    assert_eq!(error, CollateError::DoesNotFit { id: 18, axis: "labels", size: 2, limit: 1 });
}
