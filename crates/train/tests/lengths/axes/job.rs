//! A job whose samples are two sequences, each with a length of its own.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use plimsoll_sampler::SampleIndex;
use plimsoll_train::{Draw, Item, Job, Lengths, Loss, Source, SourceError};
use plimsoll_types::{Bytes, Extent, Features, StepShape};

use crate::job::HEAVY;

pub(crate) const N_SAMPLES: u64 = 120;
const WIDTH: usize = 24;

/// Two lengths that do not depend on each other.
pub(crate) fn extent(id: u64) -> Extent {
    let [a, b] = [1 + id * id * 5 % 6, 1 + id * 17 % 40].map(|it| u32::try_from(it).unwrap());
    Extent::try_new(&[a, b]).unwrap()
}

/// Samples of which no content is read.
pub(crate) struct Lines {
    streamed: bool,
}

pub(crate) struct Line(u64);

impl Item for Line {
    fn extent(&self) -> Extent {
        extent(self.0)
    }

    fn bytes(&self) -> Bytes {
        Bytes(16)
    }
}

impl Source for Lines {
    type Item = Line;
    /// The extent of each sample of a step.
    type Buffer = Vec<Extent>;

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn lengths(&self) -> Lengths {
        if self.streamed {
            return Lengths::Streamed { longest: Extent::try_new(&[6, 40]).unwrap() };
        }
        let axis = |axis: usize| (0..N_SAMPLES).map(|id| extent(id).edges()[axis]).collect::<Vec<_>>();
        Lengths::Known(SampleIndex::try_new([axis(0), axis(1)]).unwrap().into())
    }

    fn expected_extent(&self, id: u64) -> Option<Extent> {
        // Nobody has looked at the others.
        id.is_multiple_of(4).then(|| extent(id))
    }

    fn describe(&self, id: u64) -> String {
        format!("line {id}")
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<Line, SourceError> {
        // Reading takes longer or shorter, so that workers overtake each other.
        std::thread::sleep(std::time::Duration::from_micros(id * 13 % 50));
        Ok(Line(id))
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(largest.positions() * size_of::<Extent>() as u64)
    }

    fn buffer(&self, largest: StepShape) -> Vec<Extent> {
        Vec::with_capacity(usize::try_from(largest.positions()).unwrap())
    }

    fn collate(&self, draw: &Draw, items: &[Line], buffer: &mut Vec<Extent>) -> Result<(), SourceError> {
        buffer.clear();
        buffer.extend(draw.parts.iter().flat_map(|part| part.ids.iter().map(|_| part.extent)));
        let holds = buffer.iter().zip(items).all(|(padded, item)| padded.covers(item.extent()));
        assert!(holds && buffer.len() == items.len(), "{draw:?}");
        Ok(())
    }
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    first: Linear,
    second: Linear,
}

pub(crate) struct Pairs {
    pub(crate) lines: Arc<Lines>,
    /// Batches of this extent, and of larger ones, take much more than others.
    pub(crate) heavy: Option<Extent>,
}

pub(crate) fn pairs(streamed: bool) -> Pairs {
    Pairs { lines: Arc::new(Lines { streamed }), heavy: None }
}

impl Job for Pairs {
    type Source = Lines;
    type Model = Net;
    /// `[batch_size, a, WIDTH]` and `[batch_size, b, WIDTH]`.
    type Batch = (Tensor<3>, Tensor<3>);

    fn program(&self) -> String {
        "pairs".to_owned()
    }

    fn features(&self) -> Features {
        Features::complete(2)
    }

    fn source(&self) -> Arc<Lines> {
        Arc::clone(&self.lines)
    }

    fn init(&self, device: &Device) -> Net {
        Net { first: LinearConfig::new(WIDTH, 128).init(device), second: LinearConfig::new(WIDTH, 128).init(device) }
    }

    fn batch(&self, buffer: &Vec<Extent>, samples: Range<usize>, device: &Device) -> (Tensor<3>, Tensor<3>) {
        let of = &buffer[samples];
        assert!(of.iter().all(|it| *it == of[0]), "samples of one micro-batch have one extent");
        if self.heavy.is_some_and(|it| of[0].covers(it)) {
            drop(black_box(vec![1_u8; usize::try_from(HEAVY.0).unwrap()]));
        }
        self.blank_batch(StepShape::of(u32::try_from(of.len()).unwrap(), of[0]), device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> (Tensor<3>, Tensor<3>) {
        let [a, b] = [0, 1].map(|axis| shape.edges()[axis] as usize);
        let ones = |length| Tensor::ones([shape.samples as usize, length, WIDTH], device);
        (ones(a), ones(b))
    }

    /// Attends from each sequence to the second, so that there are terms in `n·a·b` and `n·b²`.
    fn mean_loss(&self, net: &Net, (a, b): (Tensor<3>, Tensor<3>), _task_weights: &[f32]) -> Loss {
        let (a, b) = (relu(net.first.forward(a)), relu(net.second.forward(b)));
        let (across, within) = (a.matmul(b.clone().transpose()), b.clone().matmul(b.transpose()));
        (across.tanh().mean() + within.tanh().mean() - 0.5).powi_scalar(2).into()
    }
}
