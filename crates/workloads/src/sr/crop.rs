//! Squares that are cut from images.

mod buffer;
mod orientation;
mod place;

pub use self::buffer::{BeyondCapacity, HostBuffer, Pair};
pub use self::orientation::Orientation;
pub use self::place::place_crop;
use crate::chance::hash;

/// What the bits of a position and of an orientation are for; the sampler, whose hash of the same numbers it is, leaves these
/// two out.
const POSITION: u64 = 2;
const ORIENTATION: u64 = 3;

/// A square cut from an image, and the way it is laid down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Crop {
    /// Index of the image.
    pub image: u64,
    /// Left edge in pixels at the input resolution.
    pub x: u32,
    /// Upper edge in pixels at the input resolution.
    pub y: u32,
    /// Side in pixels at the input resolution.
    pub edge: u32,
    /// How the cut is laid down.
    pub orientation: Orientation,
}

/// An image that is smaller than the crop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("crop {edge} × {edge} px from image {image}, which has {width} × {height} px at the input resolution")]
pub struct ImageTooSmall {
    /// Index of the image.
    pub image: u64,
    /// Width of the image in pixels at the input resolution.
    pub width: u32,
    /// Height of the image in pixels at the input resolution.
    pub height: u32,
    /// Edge of the crop in pixels at the input resolution.
    pub edge: u32,
}

/// Returns the image that a sample is cut from: `sample_id = image · crops_per_image + crop`.
///
/// # Panics
///
/// When `crops_per_image` is zero.
pub fn image_of(sample_id: u64, crops_per_image: u32) -> u64 {
    sample_id / u64::from(crops_per_image)
}

/// Returns where a sample lies in its image of `image_size` (width, height) pixels at the input resolution.
///
/// Seed, epoch and sample id fix the *relative* position, which is then scaled to the room that the edge leaves: a
/// change of patch size moves a crop, but does not draw another one.
/// Every position and each of the eight orientations is equally likely.
///
/// # Errors
///
/// [`ImageTooSmall`] when a side of the image is shorter than `edge`.
///
/// # Panics
///
/// When `crops_per_image` is zero.
pub fn crop(
    sample_id: u64,
    crops_per_image: u32,
    image_size: (u32, u32),
    edge: u32,
    seed: u64,
    epoch: u64,
) -> Result<Crop, ImageTooSmall> {
    let image = image_of(sample_id, crops_per_image);
    let (width, height) = image_size;
    if width.min(height) < edge {
        return Err(ImageTooSmall { image, width, height, edge });
    }
    let position = hash(POSITION, [seed, epoch, sample_id]);
    Ok(Crop {
        image,
        x: scaled(position >> 32, width - edge),
        y: scaled(position & u64::from(u32::MAX), height - edge),
        edge,
        orientation: Orientation::from_bits(hash(ORIENTATION, [seed, epoch, sample_id])),
    })
}

/// Scales `ratio`, in units of 2^-32, to `0..=room`, each value equally likely.
const fn scaled(ratio: u64, room: u32) -> u32 {
    ((ratio * (room as u64 + 1)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_image_smaller_than_the_edge_is_an_error_with_the_sizes() {
        let error = crop(7, 2, (40, 30), 32, 0, 0).unwrap_err();
        let message = "crop 32 × 32 px from image 3, which has 40 × 30 px at the input resolution";
        assert_eq!(error.to_string(), message);
    }

    /// Runs that go on draw what they drew.
    #[test]
    fn a_crop_is_the_same_for_ever() {
        let crop = crop(8, 4, (1000, 1000), 32, 1, 0).unwrap();
        assert_eq!((crop.image, crop.x, crop.y, crop.orientation), (2, 867, 791, Orientation::from_bits(6)));
    }

    #[test]
    fn an_image_as_large_as_the_edge_has_one_position() {
        let whole = crop(7, 2, (32, 32), 32, 0, 0).unwrap();
        assert_eq!((whole.image, whole.x, whole.y, whole.edge), (3, 0, 0, 32));
    }

    #[test]
    fn positions_and_orientations_are_uniform() {
        let mut counts = [[0u32; 8]; 4 * 3];
        for id in 0..96_000 {
            let crop = crop(id, 16, (19, 18), 16, 5, 1).unwrap();
            let orientation = Orientation::ALL.iter().position(|it| *it == crop.orientation).unwrap();
            counts[(crop.y * 4 + crop.x) as usize][orientation] += 1;
        }
        // 96 cells of 1 000 expected; the 99.99 % quantile of chi-square with 95 degrees of freedom is 153.
        let chi_square: f64 = counts.as_flattened().iter().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0).sum();
        assert!((45.0..153.0).contains(&chi_square), "{chi_square}");
    }

    #[test]
    fn crops_of_one_image_change_with_crop_epoch_and_seed() {
        let at = |id, seed, epoch| crop(id, 4, (1000, 1000), 32, seed, epoch).unwrap();
        let first = at(8, 1, 0);
        assert!([at(9, 1, 0), at(8, 1, 1), at(8, 2, 0)].iter().all(|it| (it.x, it.y) != (first.x, first.y)));
        assert_eq!(at(8, 1, 0), first);
    }

    proptest! {
        #[test]
        fn the_relative_position_survives_a_change_of_edge(id: u64, seed: u64, epoch: u64, edge in 8u32..200) {
            let size = (300, 200);
            let small = crop(id, 5, size, 8, seed, epoch).unwrap();
            let large = crop(id, 5, size, edge, seed, epoch).unwrap();
            prop_assert_eq!(small.orientation, large.orientation);
            prop_assert!(large.x + edge <= 300 && large.y + edge <= 200);
            let relative = |x: u32, room: u32| f64::from(x) / f64::from(room + 1);
            let (room, small_room) = (300 - edge, 292);
            let shift = (relative(large.x, room) - relative(small.x, small_room)).abs();
            prop_assert!(shift <= 1.0 / f64::from(room + 1), "{}", shift);
        }
    }
}
