//! Which samples fill this plan, in which layout?
//!
//! Three steps lead from a data set to samples in host memory.
//! An [`EpochCursor`] says which sample ids come next, drawn from a [`Permutation`] of the epoch.
//! [`crop`] says where in its image a sample lies.
//! [`place_crop`] writes the pixels into a [`HostBuffer`], in the planar layout that a tensor wants.
//!
//! # Invariants
//!
//! * No tensors, files, threads or clock: ids, numbers and byte slices only.
//! * Randomness comes from `(seed, epoch, id)` alone, so that a sample's place and orientation depend neither on the
//!   batch that it falls into nor on the worker that loads it, and a resumed run sees what an uninterrupted one sees.
//! * The order of an epoch does not depend on how many samples are drawn at a time: a policy may change the batch size
//!   at any step without repeating or losing a sample.
//! * A [`HostBuffer`] never grows: the host memory of a run is known when it starts.
//!
//! # Example
//!
//! ```
//! use plimsoll_sampler::{EpochCursor, HostBuffer, crop, place_crop};
//!
//! // Two images of 40 × 30 px at the input resolution, each cropped three times per epoch, for super-resolution × 2.
//! let (crops_per_image, edge, scale) = (3, 16, 2);
//! let mut cursor = EpochCursor::try_new(2 * 3, 7)?;
//! let mut buffer = HostBuffer::with_capacity(4, edge, scale);
//!
//! let (epoch, ids) = cursor.take(5);
//! for some in ids.chunks(4) {
//!     buffer.begin(some, edge)?;
//!     for (index, &id) in some.iter().enumerate() {
//!         let crop = crop(id, crops_per_image, (40, 30), edge, 7, epoch)?;
//!         // The shell reads these pixels at (crop.x, crop.y) of image crop.image.
//!         let (low, high) = (vec![0; 16 * 16 * 3], vec![0; 32 * 32 * 3]);
//!         let pair = buffer.pair_mut(index);
//!         place_crop(&low, edge, crop.orientation, pair.lr);
//!         place_crop(&high, edge * scale, crop.orientation, pair.hr);
//!     }
//! }
//! assert_eq!(buffer.lr().len(), 3 * 16 * 16); // The ragged tail: one sample.
//! # Ok::<(), plimsoll_sampler::SamplerError>(())
//! ```
//!
//! # Sources
//!
//! * Feistel networks over a product of two ranges, and cycle walking: Black and Rogaway, "Ciphers with Arbitrary
//!   Finite Domains", CT-RSA 2002.
//! * The mixing function: the `SplitMix64` finaliser (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
//!   Generators", OOPSLA 2014, with Stafford's constants, variant 13).

mod collate;
mod crop;
mod epoch;
mod error;
mod hash;
mod orientation;
mod permutation;

pub use collate::{HostBuffer, Pair, place_crop};
pub use crop::{Crop, crop, image_of};
pub use epoch::EpochCursor;
pub use error::SamplerError;
pub use orientation::Orientation;
pub use permutation::Permutation;
