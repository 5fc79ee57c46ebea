//! Small images to train on.

use std::fs;
use std::path::Path;

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
        fs::write(folder.join(format!("image-{index}.png")), png(&pixels(index)))?;
    }
    Ok(())
}

/// Returns rows of waves, each behind the zero that says that it is not filtered.
fn pixels(index: u64) -> Vec<u8> {
    let mut rng = Rng::of_round(IMAGES, index);
    let waves: [[f64; 3]; 3] = [(); 3].map(|()| [rng.share() - 0.5, rng.share() - 0.5, 6.0 * rng.share()]);
    let value = |x: u8, y: u8, [across, down, phase]: [f64; 3]| {
        128.0 + 120.0 * (across * f64::from(x) + down * f64::from(y) + phase).sin()
    };
    let row = |y: u8| {
        let pixels = (0..SIDE).flat_map(move |x| waves.map(|wave| value(x, y, wave)));
        [0.0].into_iter().chain(pixels)
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a value is between 8 and 248")]
    let rows = (0..SIDE).flat_map(row).map(|it| it as u8).collect();
    rows
}

/// Wraps rows of pixels as PNG, without compression.
fn png(rows: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let mut data = vec![0x78, 0x01, 0x01];
    data.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()).chain(rows.iter().copied()));
    data.extend(adler(rows).to_be_bytes());
    let header = [0, 0, 0, SIDE, 0, 0, 0, SIDE, 8, 2, 0, 0, 0];
    let chunks: [(&[u8; 4], &[u8]); 3] = [(b"IHDR", &header), (b"IDAT", &data), (b"IEND", &[])];
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, content) in chunks {
        let named = [&name[..], content].concat();
        file.extend(u32::try_from(content.len()).unwrap_or(0).to_be_bytes());
        file.extend(&named);
        file.extend(crc(&named).to_be_bytes());
    }
    file
}

fn adler(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

fn crc(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| shift(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_those_of_the_formats() {
        assert_eq!((crc(b"123456789"), adler(b"Wikipedia")), (0xcbf4_3926, 0x11e6_0398));
    }
}
