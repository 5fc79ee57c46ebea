//! Image files: what their heads say, and their pixels from the top to the bottom.

mod jpeg;
mod png;
mod whole;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use image::{ImageFormat, guess_format};
use plimsoll_types::Bytes;

use crate::files::{no_file, open_file};

/// The formats that are read, whatever the names of the files.
pub(crate) const FORMATS: &str = "PNG, JPEG, WebP, GIF, BMP, PNM, QOI or TIFF";

/// Why a file gives no image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageFault {
    /// It cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// It is something else.
    #[error("it is no {FORMATS} image")]
    Foreign,
    /// It is one, and broken.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// It is one of a kind that is not read.
    #[error("it is of a kind that is not read: {0}")]
    Unsupported(String),
}

/// A file whose head was read, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageFile {
    path: PathBuf,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// What decoding holds at most.
    pub(crate) needed: Bytes,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Rows follow each other.
    Png,
    /// Its library decodes it as a whole.
    Jpeg { is_grey: bool },
    /// The image library decodes it as a whole.
    Whole(ImageFormat),
}

/// Takes a row of interleaved RGB; nothing more is decoded when it breaks.
pub(crate) type TakeRow<'a> = &'a mut dyn FnMut(&[u8]) -> ControlFlow<()>;

impl ImageFile {
    /// Reads the head of a file, and tells by its content what it is, whatever its name.
    pub(crate) fn look(path: &Path) -> Result<Self, ImageFault> {
        let mut start = Vec::with_capacity(16);
        open(path)?.take(16).read_to_end(&mut start).map_err(ImageFault::Io)?;
        let path = path.to_owned();
        match guess_format(&start) {
            Ok(ImageFormat::Png) => {
                let png::Head { width, height, needed } = png::look(open(&path)?)?;
                Ok(Self { path, width, height, needed, form: Form::Png })
            }
            Ok(ImageFormat::Jpeg) => {
                let head = jpeg::Head::read(&mut open(&path)?)?;
                let (width, height, needed) = (head.width, head.height, head.needed());
                Ok(Self { path, width, height, needed, form: Form::Jpeg { is_grey: head.is_grey() } })
            }
            // What cameras call raw is TIFF too, with a small picture first.
            Ok(ImageFormat::Tiff) if !is_named(&path, &["tif", "tiff"]) => Err(ImageFault::Foreign),
            Ok(format) if whole::FORMATS.contains(&format) => {
                let file = open(&path)?;
                let n_bytes = file.get_ref().metadata().map_err(ImageFault::Io)?.len();
                let whole::Head { width, height, needed } = whole::look(file, n_bytes, format)?;
                Ok(Self { path, width, height, needed, form: Form::Whole(format) })
            }
            _ => Err(ImageFault::Foreign),
        }
    }

    /// Whether the file is decoded as a whole, not row by row.
    pub(crate) fn is_decoded_whole(&self) -> bool {
        self.form != Form::Png
    }

    /// Decodes the file; every row is taken once, from the top.
    pub(crate) fn rows(&self, take: TakeRow<'_>) -> Result<(), ImageFault> {
        match self.form {
            Form::Png => png::rows(open(&self.path)?, take),
            Form::Jpeg { is_grey } => jpeg::rows(open(&self.path)?, self.width, is_grey, take),
            Form::Whole(format) => whole::rows(open(&self.path)?, self.needed, format, take),
        }
    }
}

/// Whether the name of a file ends so.
fn is_named(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().and_then(|it| it.to_str());
    ending.is_some_and(|ending| endings.iter().any(|it| ending.eq_ignore_ascii_case(it)))
}

/// Bytes that a file is read ahead.
const READ_AHEAD: usize = 64 << 10;

/// Opens what is a file; a pipe is no image.
fn open(path: &Path) -> Result<BufReader<File>, ImageFault> {
    let fault = |error| if no_file(&error).is_some() { ImageFault::Foreign } else { ImageFault::Io(error) };
    Ok(BufReader::with_capacity(READ_AHEAD, open_file(path).map_err(fault)?))
}

/// Refuses an image without pixels.
fn checked(width: u32, height: u32) -> Result<(u32, u32), ImageFault> {
    if width == 0 || height == 0 {
        return Err(ImageFault::Damaged(format!("it has {width} × {height} pixels")));
    }
    Ok((width, height))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use image::{DynamicImage, ImageBuffer, ImageReader, Pixel};

    use super::*;

    /// Returns an image that tells its pixels and channels apart.
    fn picture<P: Pixel<Subpixel = u8>>(width: u32, height: u32) -> ImageBuffer<P, Vec<u8>> {
        ImageBuffer::from_fn(width, height, |x, y| {
            let value = |channel: u32| ((x * 31 + y * 17 + x * y / 7 + channel * 71) % 251).try_into().unwrap();
            *P::from_slice(&[0, 1, 2, 3].map(value)[..P::CHANNEL_COUNT.into()])
        })
    }

    fn pixels(file: &ImageFile) -> Result<Vec<u8>, ImageFault> {
        let mut pixels = Vec::new();
        let add = &mut |row: &[u8]| {
            pixels.extend_from_slice(row);
            ControlFlow::Continue(())
        };
        file.rows(add).map(|()| pixels)
    }

    #[test]
    fn pixels_are_those_of_the_image_library() {
        let folder = tempfile::tempdir().unwrap();
        let rgb = DynamicImage::ImageRgb8(picture(67, 45));
        let images = [
            ("rgb.png", rgb.clone()),
            ("rgba.png", DynamicImage::ImageRgba8(picture(30, 7))),
            ("grey.png", DynamicImage::ImageLuma8(picture(9, 33))),
            ("grey-alpha.png", DynamicImage::ImageLumaA8(picture(5, 5))),
            ("deep.png", DynamicImage::ImageRgb16(rgb.to_rgb16())),
            ("deep-grey.png", DynamicImage::ImageLumaA16(rgb.to_luma_alpha16())),
            ("rgb.jpg", rgb),
            ("grey.jpg", DynamicImage::ImageLuma8(picture(71, 20))),
            ("rgb.webp", DynamicImage::ImageRgb8(picture(21, 34))),
            ("rgba.webp", DynamicImage::ImageRgba8(picture(34, 21))),
            ("rgba.gif", DynamicImage::ImageRgba8(picture(12, 15))),
            ("rgb.bmp", DynamicImage::ImageRgb8(picture(17, 5))),
            ("grey.pgm", DynamicImage::ImageLuma8(picture(17, 6))),
            ("rgb.ppm", DynamicImage::ImageRgb8(picture(17, 7))),
            ("rgba.qoi", DynamicImage::ImageRgba8(picture(17, 8))),
            ("rgb.tif", DynamicImage::ImageRgb8(picture(17, 9))),
            ("deep.TIFF", DynamicImage::ImageRgb16(DynamicImage::ImageRgb8(picture(17, 10)).to_rgb16())),
            ("grey.tiff", DynamicImage::ImageLuma8(picture(17, 11))),
        ];
        for (name, image) in images {
            let path = folder.path().join(name);
            image.save(&path).unwrap();
            let file = ImageFile::look(&path).unwrap();
            assert_eq!((file.width, file.height), (image.width(), image.height()), "{name}");
            let expected = ImageReader::open(&path).unwrap().decode().unwrap().into_rgb8();
            assert!(pixels(&file).unwrap() == expected.into_raw(), "{name}");
        }
    }

    #[test]
    fn a_file_that_was_cut_short_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        for ending in ["png", "jpg", "webp", "gif", "bmp", "ppm", "qoi", "tiff"] {
            let name = format!("image.{ending}");
            let path = folder.path().join(&name);
            picture::<image::Rgb<u8>>(200, 150).save(&path).unwrap();
            let whole = fs::read(&path).unwrap();
            for n in [whole.len() / 2, whole.len() * 9 / 10] {
                fs::write(&path, &whole[..n]).unwrap();
                let decoded = ImageFile::look(&path).and_then(|it| pixels(&it));
                assert!(matches!(decoded, Err(ImageFault::Damaged(_))), "{name} {n}: {decoded:?}");
            }
        }
    }

    #[test]
    fn what_is_no_image_is_foreign() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("liar.png");
        for content in [&b""[..], b"no image", b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"] {
            fs::write(&path, content).unwrap();
            assert!(matches!(ImageFile::look(&path), Err(ImageFault::Foreign)));
        }
        assert!(matches!(ImageFile::look(folder.path()), Err(ImageFault::Foreign)));
        let (scan, raw) = (folder.path().join("scan.tif"), folder.path().join("photo.nef"));
        picture::<image::Rgb<u8>>(20, 15).save(&scan).unwrap();
        fs::rename(&scan, &raw).unwrap();
        assert!(matches!(ImageFile::look(&raw), Err(ImageFault::Foreign)), "a small picture of a large one");
    }
}
