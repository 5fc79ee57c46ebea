//! Another resolution of an image, made of its rows as they come.

use std::collections::VecDeque;

use plimsoll_types::Bytes;

/// How pixels weigh by their distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Bicubic; widened when it shrinks, so antialiased.
    CatmullRom,
    /// Bilinear; the same.
    Triangle,
}

/// Width and height in pixels.
pub type Size = (u32, u32);

/// Resizes rows of interleaved RGB with half-pixel centres, to the very pixels of `image::imageops::resize`, in the
/// memory of a few rows.
#[derive(Debug)]
pub struct RowResizer {
    rows: Axis,
    columns: Axis,
    /// Output rows that have begun, before they are resized in the other direction.
    open: VecDeque<Vec<f32>>,
    n_opened: usize,
    n_taken: u32,
    spare: Vec<Vec<f32>>,
    row: Vec<u8>,
}

impl RowResizer {
    /// Prepares for images of one size.
    pub fn new(filter: Filter, from: Size, to: Size) -> Self {
        Self {
            rows: Axis::new(filter, from.1, to.1),
            columns: Axis::new(filter, from.0, to.0),
            open: VecDeque::new(),
            n_opened: 0,
            n_taken: 0,
            spare: Vec::new(),
            row: Vec::with_capacity(3 * to.0 as usize),
        }
    }

    /// Returns what resizing holds at most.
    pub fn needed(filter: Filter, from: Size, to: Size) -> Bytes {
        let side = |from: u32, to: u32| {
            let ratio = f64::from(from) / f64::from(to);
            let n_weights = (2.0 * f64::from(filter.support()) * ratio.max(1.0)).ceil() + 2.0;
            (f64::from(to) * (4.0 * n_weights + 16.0), n_weights / ratio + 3.0)
        };
        let ((columns, _), (rows, n_open)) = (side(from.0, to.0), side(from.1, to.1));
        let open = n_open * 12.0 * f64::from(from.0);
        // Vectors that grow hold up to twice as much.
        Bytes::from_f64_ceil(2.0 * (columns + rows) + open + 3.0 * f64::from(to.0))
    }

    /// Takes the next row, of 3 bytes for each pixel of its width, and gives the rows that it completes.
    pub fn push(&mut self, row: &[u8], give: &mut dyn FnMut(&[u8])) {
        while self.n_opened < self.rows.len() && self.rows.taps(self.n_opened).0 <= self.n_taken {
            let mut sums = self.spare.pop().unwrap_or_default();
            sums.clear();
            sums.resize(row.len(), 0.0);
            self.open.push_back(sums);
            self.n_opened += 1;
        }
        let first = self.n_opened - self.open.len();
        for (at, sums) in (first..).zip(&mut self.open) {
            let (start, weights) = self.rows.taps(at);
            if let Some(weight) = weights.get((self.n_taken - start) as usize) {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f32::from(*value) * weight);
            }
        }
        self.n_taken += 1;
        self.close(first, give);
    }

    /// Gives the rows that nothing more is added to.
    fn close(&mut self, first: usize, give: &mut dyn FnMut(&[u8])) {
        for at in first.. {
            let is_whole = |it: &Vec<f32>| !it.is_empty() && self.rows.end(at) <= self.n_taken;
            let Some(sums) = self.open.pop_front_if(|it| is_whole(it)) else { return };
            self.row.clear();
            (0..self.columns.len()).for_each(|x| self.row.extend(self.columns.pixel(x, &sums)));
            give(&self.row);
            self.spare.push(sums);
        }
    }
}

/// What each place along an axis is made of.
#[derive(Debug)]
struct Axis {
    /// The first place of the input, and where its weight lies.
    starts: Vec<(u32, usize)>,
    weights: Vec<f32>,
}

impl Axis {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "the arithmetic is the image library's: sides are far below 2^24, and bounds are clamped to them"
    )]
    fn new(filter: Filter, from: u32, to: u32) -> Self {
        let ratio = from as f32 / to as f32;
        let stretch = ratio.max(1.0);
        let support = filter.support() * stretch;
        let (mut starts, mut weights) = (Vec::with_capacity(to as usize), Vec::new());
        for out in 0..to {
            let centre = (out as f32 + 0.5) * ratio;
            let start = ((centre - support).floor() as i64).clamp(0, i64::from(from) - 1) as u32;
            let end = ((centre + support).ceil() as i64).clamp(i64::from(start) + 1, i64::from(from)) as u32;
            let first = weights.len();
            starts.push((start, first));
            weights.extend((start..end).map(|at| filter.weight((at as f32 - (centre - 0.5)) / stretch)));
            let sum: f32 = weights[first..].iter().sum();
            weights[first..].iter_mut().for_each(|it| *it /= sum);
        }
        Self { starts, weights }
    }

    fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the first place of the input that counts, and the weights from there on.
    fn taps(&self, out: usize) -> (u32, &[f32]) {
        let (start, first) = self.starts[out];
        let end = self.starts.get(out + 1).map_or(self.weights.len(), |it| it.1);
        (start, &self.weights[first..end])
    }

    /// Returns the place after the last that counts.
    fn end(&self, out: usize) -> u32 {
        let (start, weights) = self.taps(out);
        start + u32::try_from(weights.len()).unwrap_or(u32::MAX)
    }

    fn pixel(&self, out: usize, sums: &[f32]) -> [u8; 3] {
        let (start, weights) = self.taps(out);
        let mut pixel = [0.0_f32; 3];
        for (sums, weight) in sums[3 * start as usize..].as_chunks::<3>().0.iter().zip(weights) {
            pixel.iter_mut().zip(sums).for_each(|(value, sum)| *value += sum * weight);
        }
        pixel.map(rounded)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a byte")]
fn rounded(value: f32) -> u8 {
    value.clamp(0.0, 255.0).round() as u8
}

impl Filter {
    const fn support(self) -> f32 {
        match self {
            Self::CatmullRom => 2.0,
            Self::Triangle => 1.0,
        }
    }

    /// # Sources
    ///
    /// Mitchell and Netravali, "Reconstruction filters in computer graphics", SIGGRAPH 1988, with B = 0 and C = 1/2.
    fn weight(self, x: f32) -> f32 {
        let x = x.abs();
        match self {
            Self::CatmullRom if x < 1.0 => (9.0 * x.powi(3) - 15.0 * x.powi(2) + 6.0) / 6.0,
            Self::CatmullRom if x < 2.0 => (-3.0 * x.powi(3) + 15.0 * x.powi(2) - 24.0 * x + 12.0) / 6.0,
            Self::Triangle if x < 1.0 => 1.0 - x,
            Self::CatmullRom | Self::Triangle => 0.0,
        }
    }
}
