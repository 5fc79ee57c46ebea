//! Images at another size.

use image::RgbImage;
use image::imageops::{FilterType, resize};
use plimsoll_signal::{Filter, RowResizer};

fn image(width: u32, height: u32) -> RgbImage {
    let value =
        |x: u32, y: u32, channel: u32| u8::try_from((x * x * 31 + y * 117 + x * y + channel * 71) % 256).unwrap();
    RgbImage::from_fn(width, height, |x, y| image::Rgb([0, 1, 2].map(|channel| value(x, y, channel))))
}

#[test]
fn it_gives_the_pixels_of_the_image_library() {
    for (filter, theirs) in [(Filter::CatmullRom, FilterType::CatmullRom), (Filter::Triangle, FilterType::Triangle)] {
        for (from, to) in [
            ((64, 40), (32, 20)),
            ((6, 4), (3, 2)),
            ((2, 2), (1, 1)),
            ((31, 17), (62, 34)),
            ((500, 333), (32, 32)),
            ((20, 30), (32, 32)),
            ((32, 32), (32, 32)),
            ((7, 300), (90, 5)),
        ] {
            let image = image(from.0, from.1);
            let mut resizer = RowResizer::new(filter, from, to);
            let mut pixels = Vec::new();
            for row in image.as_raw().chunks_exact(3 * from.0 as usize) {
                resizer.push(row, &mut |row| pixels.extend_from_slice(row));
            }
            assert!(pixels == resize(&image, to.0, to.1, theirs).into_raw(), "{filter:?} {from:?} {to:?}");
        }
    }
}
