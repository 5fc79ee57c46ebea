//! Small images to train on.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use png::{BitDepth, ColorType, Encoder};

use crate::Failed;
use crate::rng::Rng;

/// How many; one of them is held out.
const IMAGES: u64 = 4;
/// Width and height in pixels.
const SIDE: u8 = 48;

/// Draws the same images at every call.
pub(crate) fn write(folder: &Path) -> Result<(), Failed> {
    fs::create_dir_all(folder)?;
    for index in 0..IMAGES {
        let file = File::create(folder.join(format!("image-{index}.png")))?;
        let mut encoder = Encoder::new(BufWriter::new(file), u32::from(SIDE), u32::from(SIDE));
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Eight);
        encoder.write_header()?.write_image_data(&pixels(index))?;
    }
    Ok(())
}

/// Returns rows of waves.
fn pixels(index: u64) -> Vec<u8> {
    let mut rng = Rng::of_round(IMAGES, index);
    let waves: [[f64; 3]; 3] = [(); 3].map(|()| [rng.share() - 0.5, rng.share() - 0.5, 6.0 * rng.share()]);
    let value = |x: u8, y: u8, [across, down, phase]: [f64; 3]| {
        128.0 + 120.0 * (across * f64::from(x) + down * f64::from(y) + phase).sin()
    };
    let row = |y: u8| (0..SIDE).flat_map(move |x| waves.map(|wave| value(x, y, wave)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a value is between 8 and 248")]
    let rows = (0..SIDE).flat_map(row).map(|it| it as u8).collect();
    rows
}
