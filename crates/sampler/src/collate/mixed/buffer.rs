//! Mixed samples in host memory.

use plimsoll_types::Bytes;

use super::{
    batch::MixedBatch,
    block::{block, extend, mask, pad},
    room::Room,
    sample::{MixedImage, MixedSample},
    shape::MixedShape,
};
use crate::{CollateError, Lattice};

/// The label that losses leave out; `ignore_index` in `PyTorch`.
pub const IGNORED_LABEL: i32 = -100;

/// What the samples of a buffer have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedConfig {
    /// Channels of every image; 3 by default.
    pub channels: u32,
    /// Numbers of metadata for each sample; none by default.
    pub n_metadata: u32,
    /// The token id that sequences are padded with; 0 by default, which the attention mask tells from a real one.
    pub padding_token: u32,
}

impl Default for MixedConfig {
    fn default() -> Self {
        Self { channels: 3, n_metadata: 0, padding_token: 0 }
    }
}

/// Host memory for one batch of mixed samples, used again and again.
///
/// It takes all its memory when it is built and never reallocates.
/// Each sample is copied once, and only padding is filled.
/// [`MixedBatch`] says how the blocks are laid out.
///
/// ```
/// use plimsoll_sampler::{Lattice, MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape};
///
/// let cell = MixedShape { images: 2, height: 1, width: 2, tokens: 4, labels: 1 };
/// let config = MixedConfig { channels: 1, ..MixedConfig::default() };
/// let mut buffer = MixedBuffer::with_capacity(config, &[(8, cell)]);
///
/// let image = |pixels| MixedImage { height: 1, width: 2, pixels };
/// let (one, two) = ([image(&[1, 2])], [image(&[3, 4]), image(&[5, 6])]);
/// let samples = [
///     MixedSample { id: 7, task: 0, images: &one, tokens: &[11, 12, 13], labels: &[5], metadata: &[] },
///     MixedSample { id: 9, task: 1, images: &two, tokens: &[14], labels: &[], metadata: &[] },
/// ];
/// // Tokens go to the edge 4, and the rest to the longest of the batch.
/// let lattice = Lattice::try_new([vec![], vec![], vec![], vec![4], vec![]])?;
/// let batch = buffer.collate(&samples, &lattice)?;
/// assert_eq!(batch.pixels, [1, 2, 0, 0, 3, 4, 5, 6]);
/// assert_eq!(batch.image_mask, [true, false, true, true]);
/// assert_eq!(batch.tokens, [11, 12, 13, 0, 14, 0, 0, 0]);
/// assert_eq!(batch.labels, [5, -100]);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Debug)]
pub struct MixedBuffer {
    config: MixedConfig,
    most: Room,
    /// The greatest length that a cell has on each axis.
    longest: MixedShape,
    cell: MixedShape,
    ids: Vec<u64>,
    tasks: Vec<u32>,
    lengths: Vec<MixedShape>,
    pixels: Vec<u8>,
    image_mask: Vec<bool>,
    image_sizes: Vec<[u32; 2]>,
    tokens: Vec<u32>,
    attention_mask: Vec<bool>,
    labels: Vec<i32>,
    metadata: Vec<f64>,
}

impl MixedBuffer {
    /// Takes the memory for each of these cells, with so many samples in it.
    ///
    /// One cell is enough when it is the largest on every axis; many samples of few images and few samples of many
    /// images take less memory as two.
    ///
    /// # Panics
    ///
    /// When so much memory cannot be addressed.
    pub fn with_capacity(config: MixedConfig, cells: &[(u32, MixedShape)]) -> Self {
        let most = Room::for_all(cells, config.channels);
        Self {
            config,
            most,
            longest: cells.iter().map(|(_, cell)| *cell).fold(MixedShape::default(), MixedShape::longest),
            cell: MixedShape::default(),
            ids: block(most.samples),
            tasks: block(most.samples),
            lengths: block(most.samples),
            pixels: block(most.pixels),
            image_mask: block(most.images),
            image_sizes: block(most.images),
            tokens: block(most.tokens),
            attention_mask: block(most.tokens),
            labels: block(most.labels),
            metadata: block(most.samples.saturating_mul(config.n_metadata.into())),
        }
    }

    /// Returns how many bytes a buffer of this capacity takes.
    pub fn byte_capacity(config: MixedConfig, cells: &[(u32, MixedShape)]) -> Bytes {
        Room::for_all(cells, config.channels).bytes(config.n_metadata)
    }

    /// Lays these samples out, each axis padded to the lattice's edge, or to the longest sample where it has none.
    ///
    /// # Errors
    ///
    /// Those of [`MixedBuffer::push`], and [`CollateError::DoesNotFit`] when a sample is beyond the last edge of the
    /// lattice, or longer than any cell that the buffer was built for. The batch is empty then.
    pub fn collate(
        &mut self,
        samples: &[MixedSample<'_>],
        lattice: &Lattice<5>,
    ) -> Result<MixedBatch<'_>, CollateError> {
        self.begin(MixedShape::default());
        for sample in samples {
            sample.shape().on(lattice, sample.id)?;
            sample.shape().within(self.longest, sample.id)?;
        }
        let longest = samples.iter().map(MixedSample::shape).fold(MixedShape::default(), MixedShape::longest);
        self.begin(longest.cell(lattice).unwrap_or(longest));
        if let Err(error) = samples.iter().try_for_each(|sample| self.push(sample)) {
            self.begin(MixedShape::default());
            return Err(error);
        }
        Ok(self.batch())
    }

    /// Starts an empty batch whose samples are padded to this cell, such as the plan's.
    pub fn begin(&mut self, cell: MixedShape) {
        self.cell = cell;
        self.ids.clear();
        self.tasks.clear();
        self.lengths.clear();
        self.pixels.clear();
        self.image_mask.clear();
        self.image_sizes.clear();
        self.tokens.clear();
        self.attention_mask.clear();
        self.labels.clear();
        self.metadata.clear();
    }

    /// Adds a sample to the batch.
    ///
    /// # Errors
    ///
    /// * [`CollateError::DoesNotFit`] when the sample is longer than the cell on an axis, or the buffer is full.
    /// * [`CollateError::ImageBytes`] when an image has more bytes, or fewer, than its size says.
    /// * [`CollateError::MetadataCount`] when there are more numbers, or fewer, than the buffer was built for.
    ///
    /// The batch is what it was then.
    pub fn push(&mut self, sample: &MixedSample<'_>) -> Result<(), CollateError> {
        let shape = sample.shape();
        sample.check(self.config.channels, self.config.n_metadata)?;
        shape.within(self.cell, sample.id)?;
        Room::of(self.ids.len() as u64 + 1, self.cell, self.config.channels).within(self.most, sample.id)?;
        self.ids.push(sample.id);
        self.tasks.push(sample.task);
        self.lengths.push(shape);
        self.metadata.extend_from_slice(sample.metadata);
        self.push_images(sample.images);
        let MixedShape { tokens, labels, .. } = self.cell;
        extend(&mut self.tokens, sample.tokens, tokens, self.config.padding_token);
        mask(&mut self.attention_mask, sample.tokens.len(), tokens);
        extend(&mut self.labels, sample.labels, labels, IGNORED_LABEL);
        Ok(())
    }

    /// Returns the batch as far as it is filled.
    pub fn batch(&self) -> MixedBatch<'_> {
        MixedBatch {
            cell: self.cell,
            ids: &self.ids,
            tasks: &self.tasks,
            lengths: &self.lengths,
            pixels: &self.pixels,
            image_mask: &self.image_mask,
            image_sizes: &self.image_sizes,
            tokens: &self.tokens,
            attention_mask: &self.attention_mask,
            labels: &self.labels,
            metadata: &self.metadata,
        }
    }

    fn push_images(&mut self, images: &[MixedImage<'_>]) {
        mask(&mut self.image_mask, images.len(), self.cell.images);
        self.image_sizes.extend(images.iter().map(|image| [image.height, image.width]));
        pad(&mut self.image_sizes, self.image_mask.len(), [0; 2]);
        for image in images {
            self.push_image(image);
        }
        let each = self.config.channels as usize * self.cell.height as usize * self.cell.width as usize;
        pad(&mut self.pixels, self.image_mask.len() * each, 0);
    }

    fn push_image(&mut self, image: &MixedImage<'_>) {
        let (height, width) = (self.cell.height as usize, self.cell.width as usize);
        let [own_height, own_width] = [image.height, image.width].map(|n| n as usize);
        if (own_height, own_width) == (height, width) {
            return self.pixels.extend_from_slice(image.pixels);
        }
        let end = self.pixels.len() + self.config.channels as usize * height * width;
        // An image without pixels has no planes.
        for plane in image.pixels.chunks_exact((own_height * own_width).max(1)) {
            let plane_end = self.pixels.len() + height * width;
            plane.chunks_exact(own_width).for_each(|row| extend(&mut self.pixels, row, self.cell.width, 0));
            pad(&mut self.pixels, plane_end, 0);
        }
        pad(&mut self.pixels, end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: MixedShape = MixedShape { images: 2, height: 2, width: 3, tokens: 4, labels: 1 };
    const CONFIG: MixedConfig = MixedConfig { channels: 1, n_metadata: 1, padding_token: 50 };

    /// Where a block lies, and how many bytes it takes.
    fn place<T>(block: &Vec<T>) -> (usize, usize) {
        (block.as_ptr().addr(), block.capacity() * size_of::<T>())
    }

    fn blocks(buffer: &MixedBuffer) -> [(usize, usize); 10] {
        let MixedBuffer { ids, tasks, lengths, pixels, image_mask, image_sizes, tokens, attention_mask, .. } = buffer;
        let ints = [place(tasks), place(tokens), place(&buffer.labels)];
        let rest = [place(ids), place(lengths), place(image_sizes), place(&buffer.metadata)];
        let bytes = [place(pixels), place(image_mask), place(attention_mask)];
        [ints.as_slice(), &rest, &bytes].concat().try_into().unwrap()
    }

    fn fill(buffer: &mut MixedBuffer, cell: MixedShape, n: u64) {
        let pixels = vec![1; (cell.height * cell.width) as usize];
        let image = MixedImage { height: cell.height, width: cell.width, pixels: &pixels };
        let (images, tokens) = (vec![image; cell.images as usize], vec![1; cell.tokens as usize]);
        let labels = vec![1; cell.labels as usize];
        buffer.begin(cell);
        for id in 0..n {
            let (images, tokens, labels) = (&images, &tokens, &labels);
            buffer.push(&MixedSample { id, task: 2, images, tokens, labels, metadata: &[0.5] }).unwrap();
        }
    }

    #[test]
    fn nothing_is_reallocated_after_construction() {
        let long = MixedShape { images: 0, tokens: 30, labels: 30, ..CELL };
        let mut buffer = MixedBuffer::with_capacity(CONFIG, &[(5, CELL), (1, long)]);
        let before = blocks(&buffer);
        for (cell, n) in [(CELL, 2), (long, 1), (MixedShape::default(), 0), (CELL, 5), (long, 1), (CELL, 5)] {
            fill(&mut buffer, cell, n);
            assert_eq!((buffer.batch().len() as u64, blocks(&buffer)), (n, before));
        }
    }

    #[test]
    fn the_byte_capacity_is_what_is_taken() {
        let long = MixedShape { images: 0, tokens: 30, labels: 30, ..CELL };
        let cells = [(5, CELL), (1, long)];
        let taken: usize = blocks(&MixedBuffer::with_capacity(CONFIG, &cells)).iter().map(|block| block.1).sum();
        assert_eq!(MixedBuffer::byte_capacity(CONFIG, &cells), Bytes(taken as u64));
        let endless = MixedShape { images: u32::MAX, height: u32::MAX, width: u32::MAX, ..CELL };
        assert_eq!(MixedBuffer::byte_capacity(CONFIG, &[(u32::MAX, endless)]), Bytes::MAX);
    }
}
