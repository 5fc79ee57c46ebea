//! A job whose samples are rows of numbers, as many as their length.

use std::hint::black_box;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, GradientCheckpointingStrategy, Tensor, TensorData};
use plimsoll_sampler::{Groups, SampleIndex};
use plimsoll_train::{
    Draw, Goal, Inference, Item, Job, Lengths, Loss, Metric, Source, SourceError, StepError, Unit, Validation,
};
use plimsoll_types::{Bytes, Extent, StepShape};

pub(crate) const N_SAMPLES: u64 = 100;
const WIDTH: usize = 32;
pub(crate) const EDGES: [u32; 4] = [8, 16, 24, 40];
/// In place of a broken sample: every one.
pub(crate) const ALL: u64 = u64::MAX;

/// Rows of numbers, one for each position; their length depends on the id.
pub(crate) struct Rows {
    pub(crate) streamed: bool,
    pub(crate) broken: Option<u64>,
    /// So many with neighbouring ids stay together; 1 where none do.
    pub(crate) together: u32,
    /// A row that ranks which do not read it take to be as long as one may be.
    pub(crate) mistaken: Option<u64>,
    /// What was read, by epoch and id.
    pub(crate) read: Mutex<Vec<(u64, u64)>>,
}

pub(crate) struct Row {
    id: u64,
    length: u32,
    /// Whether another rank reads it.
    is_elsewhere: bool,
}

impl Rows {
    pub(crate) fn new(streamed: bool, broken: Option<u64>, together: u32) -> Self {
        Self { streamed, broken, together, mistaken: None, read: Mutex::default() }
    }
}

impl Item for Row {
    fn extent(&self) -> Extent {
        self.length.into()
    }

    fn bytes(&self) -> Bytes {
        Bytes(16)
    }
}

pub(crate) fn length(id: u64) -> u32 {
    1 + u32::try_from(id * id * 7 % 40).unwrap()
}

/// The rows of a step, padded with zeros, and where each sample begins, with its edge and its length.
#[derive(Default)]
pub(crate) struct Buffer {
    values: Vec<f32>,
    samples: Vec<(usize, usize, u32)>,
}

impl Source for Rows {
    type Item = Row;
    type Buffer = Buffer;

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn lengths(&self) -> Lengths {
        if self.streamed {
            return Lengths::Streamed { longest: Extent::new(40) };
        }
        let lengths: Vec<u32> = (0..N_SAMPLES).map(length).collect();
        if 1 < self.together {
            let group_of: Vec<u32> = (0..).take(lengths.len()).map(|id: u32| id / self.together).collect();
            return Lengths::Grouped(Groups::try_new(&lengths, &group_of).unwrap());
        }
        Lengths::Known(SampleIndex::try_new([lengths]).unwrap().into())
    }

    fn expected_extent(&self, id: u64) -> Option<Extent> {
        // Nobody has looked at the others.
        id.is_multiple_of(4).then(|| length(id).into())
    }

    fn describe(&self, id: u64) -> String {
        format!("rows/{id}.txt")
    }

    fn read(&self, epoch: u64, id: u64) -> Result<Row, SourceError> {
        if Some(id) == self.broken || self.broken == Some(ALL) {
            return Err(SourceError { sample_id: id, reason: "rows/7.txt: is gone".to_owned() });
        }
        // Reading takes longer or shorter, so that workers overtake each other.
        std::thread::sleep(std::time::Duration::from_micros(id * 13 % 50));
        self.read.lock().unwrap().push((epoch, id));
        Ok(Row { id, length: length(id), is_elsewhere: false })
    }

    fn stand_in(&self, id: u64) -> Option<Row> {
        let length = if self.mistaken == Some(id) { 40 } else { length(id) };
        Some(Row { id, length, is_elsewhere: true })
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(largest.positions() * 4 * WIDTH as u64)
    }

    fn buffer(&self, largest: StepShape) -> Buffer {
        let room = largest.samples as usize * largest.edge() as usize * WIDTH;
        Buffer { values: Vec::with_capacity(room), samples: Vec::new() }
    }

    fn collate(&self, draw: &Draw, items: &[Row], buffer: &mut Buffer) -> Result<(), SourceError> {
        let room = buffer.values.capacity();
        buffer.values.clear();
        buffer.samples.clear();
        let mut items = items.iter();
        for part in &draw.parts {
            for (id, row) in part.ids.iter().zip(&mut items) {
                assert!(
                    *id == row.id && row.length <= part.extent.edge(),
                    "sample {} of length {} in {part:?}",
                    row.id,
                    row.length
                );
                let start = buffer.values.len();
                buffer.samples.push((start, part.extent.edge() as usize, row.length));
                let value = |at: u32| {
                    if row.is_elsewhere { f32::NAN } else { (row.id * 31 + u64::from(at)) as f32 % 17.0 / 17.0 }
                };
                let filled = row.length * u32::try_from(WIDTH).unwrap();
                buffer.values.extend((0..filled).map(value));
                buffer.values.resize(start + part.extent.edge() as usize * WIDTH, 0.0);
            }
        }
        assert_eq!(buffer.values.capacity(), room, "the buffer grew");
        Ok(())
    }
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    first: Linear,
    second: Linear,
}

pub(crate) struct Tiny {
    pub(crate) rows: Arc<Rows>,
    pub(crate) unit: Unit,
    /// Batches of this edge take much more than others.
    pub(crate) heavy: Option<u32>,
    /// But not where activations are recomputed.
    pub(crate) may_spare: bool,
}

/// What a heavy batch takes.
pub(crate) const HEAVY: Bytes = Bytes::mib(96);

pub(crate) fn tiny(streamed: bool, unit: Unit) -> Tiny {
    Tiny { rows: Arc::new(Rows::new(streamed, None, 1)), unit, heavy: None, may_spare: false }
}

/// Rows of shape `[batch_size, edge, WIDTH]`, and weights that make a sum over positions the mean that is asked for.
type Batch = (Tensor<3>, Tensor<3>);

impl Job for Tiny {
    type Source = Rows;
    type Model = Net;
    type Batch = Batch;

    fn name(&self) -> &'static str {
        "tiny"
    }

    fn program(&self) -> String {
        "tiny".to_owned()
    }

    fn fingerprint(&self) -> String {
        "tiny".to_owned()
    }

    fn source(&self) -> Arc<Rows> {
        Arc::clone(&self.rows)
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn init(&self, device: &Device) -> Net {
        Net { first: LinearConfig::new(WIDTH, 512).init(device), second: LinearConfig::new(512, 1).init(device) }
    }

    fn batch(&self, buffer: &Buffer, samples: Range<usize>, device: &Device) -> Batch {
        let of = &buffer.samples[samples];
        let (n, edge) = (of.len(), of[0].1);
        let is_sparing = device.gradient_checkpointing_strategy() == Some(GradientCheckpointingStrategy::Balanced);
        if self.heavy.map(|it| it as usize) == Some(edge) && !(self.may_spare && is_sparing) {
            drop(black_box(vec![1_u8; usize::try_from(HEAVY.0).unwrap()]));
        }
        assert!(of.iter().all(|it| it.1 == edge), "samples of one micro-batch have one edge");
        let values = buffer.values[of[0].0..of[0].0 + n * edge * WIDTH].to_vec();
        let positions: u32 = of.iter().map(|it| it.2).sum();
        let weight = |length: u32| match self.unit {
            Unit::Samples => 1.0 / (n as f32 * length as f32),
            Unit::Positions => 1.0 / positions as f32,
        };
        let row = |length: u32| (0..edge).map(move |at| if at < length as usize { weight(length) } else { 0.0 });
        let weights: Vec<f32> = of.iter().flat_map(|it| row(it.2)).collect();
        let tensor = |values, shape: [usize; 3]| Tensor::from_data(TensorData::new(values, shape), device);
        (tensor(values, [n, edge, WIDTH]), tensor(weights, [n, edge, 1]))
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Batch {
        let (n, edge) = (shape.samples as usize, shape.edge() as usize);
        (Tensor::zeros([n, edge, WIDTH], device), Tensor::zeros([n, edge, 1], device))
    }

    fn mean_loss(&self, net: &Net, (rows, weights): Batch, _task_weights: &[f32]) -> Loss {
        let target = rows.clone().mean_dim(2);
        let output = net.second.forward(relu(net.first.forward(rows)));
        ((output - target).powi_scalar(2) * weights).sum().into()
    }

    fn blank_forward(&self, net: &Net, shape: StepShape, device: &Device) -> Tensor<1> {
        self.mean_loss(net, self.blank_batch(shape, device), &[]).mean
    }

    fn validate(
        &self,
        _net: &Net,
        _device: &Device,
        _inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        Ok(Metric { name: "nothing".to_owned(), value: 0.0, baseline: 0.0, goal: Goal::Highest }.into())
    }
}
