//! Image super-resolution by two on a folder of images.
//!
//! High resolution is what is in the folder; low resolution is made of it by antialiased bicubic downsampling in 8 bit,
//! with half-pixel centres.
//! A sample is a pair of crops; the metric is PSNR over RGB in 8 bit with a border of 2 pixels cut, averaged over the
//! validation images, and the baseline is bicubic upsampling with the same filter.

mod bicubic;
mod config;
pub mod crop;
mod folder;
mod gallery;
mod job;
mod model;
mod photos;
mod source;
mod tiles;
mod upscale;

pub use bicubic::upsample_bicubic;
pub use config::{BadImage, PhotosConfig};
pub use folder::DataError;
pub use job::{Pairs, Sr, SrConfig};
pub use model::{Edsr, EdsrConfig, SCALE};
pub use photos::{Photo, Photos, Smallest, survey};
pub use source::{CropBuffer, CropItem, Crops};
pub use upscale::{Picture, UpscaleError, Upscaler};
