//! A tiny job, and how it is run.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_policy::{Bounds, CertifiedConfig, FixedConfig, PolicyConfig};
use plimsoll_predict::PredictorConfig;
use plimsoll_train::{
    BalanceConfig, ControllerConfig, Draw, FitConfig, Goal, Inference, Job, JobOptimizer, KnownTooLarge, LearningRate,
    LoaderConfig, Loss, Metric, OptimizerRecovery, Scaling, Source, SourceError, StepError, Validation,
};
use plimsoll_types::{Bytes, Fraction, Knobs, Recompute, StepShape};

use crate::common::needed;

pub(crate) const N_SAMPLES: u64 = 40;
const WIDTH: usize = 64;

/// Samples are rows of numbers that depend on their id.
pub(crate) struct Rows {
    pub(crate) broken: Option<u64>,
    pub(crate) panics: bool,
}

impl Source for Rows {
    type Item = ();
    type Buffer = (Vec<f32>, usize);

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(largest.positions() * 4 * WIDTH as u64)
    }

    fn buffer(&self, largest: StepShape) -> Self::Buffer {
        (vec![0.0; largest.samples as usize * largest.edge() as usize * WIDTH], 0)
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<(), SourceError> {
        if Some(id) == self.broken {
            return Err(SourceError { sample_id: id, reason: "rows/7.txt: is gone".to_owned() });
        }
        Ok(())
    }

    fn collate(&self, draw: &Draw, _items: &[()], (values, edge): &mut Self::Buffer) -> Result<(), SourceError> {
        assert!(!self.panics, "a worker of this test panics");
        *edge = draw.parts[0].extent.edge() as usize;
        for (row, id) in values.chunks_exact_mut(*edge * WIDTH).zip(draw.ids()) {
            for (at, value) in row.iter_mut().enumerate() {
                *value = ((id * 31 + at as u64 * 7 + draw.epoch) % 17) as f32 / 17.0;
            }
        }
        Ok(())
    }
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    pub(crate) first: Linear,
    second: Linear,
}

/// Does something of its own at what a job is asked for.
pub(crate) trait Beside: Sync {
    /// So many samples of a step are about to run.
    fn on_part(&self, _n_samples: usize) {}

    /// So many items are about to run forward.
    fn on_forward(&self, _n_items: u32) {}

    /// A validation is over.
    fn on_validated(&self) {}
}

/// Does nothing.
pub(crate) struct Nothing;

impl Beside for Nothing {}

impl<B: Beside + ?Sized> Beside for Box<B> {
    fn on_part(&self, n_samples: usize) {
        (**self).on_part(n_samples);
    }

    fn on_forward(&self, n_items: u32) {
        (**self).on_forward(n_items);
    }

    fn on_validated(&self) {
        (**self).on_validated();
    }
}

pub(crate) struct Tiny<B = Nothing> {
    /// What happens beside the job.
    pub(crate) beside: B,
    pub(crate) rows: Arc<Rows>,
    /// Products after the first layer, each with cheap operations that gradient checkpointing would run again.
    pub(crate) n_products: usize,
    /// Items that are held out.
    pub(crate) n_held_out: usize,
    /// What measuring one of them takes.
    pub(crate) item_time: Duration,
    /// What takes the steps.
    pub(crate) optimizer: fn() -> JobOptimizer,
}

impl Tiny {
    pub(crate) fn new() -> Self {
        Self::beside(Nothing)
    }
}

impl<B: Beside> Tiny<B> {
    pub(crate) fn beside(beside: B) -> Self {
        Self {
            beside,
            rows: Arc::new(Rows { broken: None, panics: false }),
            n_products: 0,
            n_held_out: 5,
            item_time: Duration::ZERO,
            optimizer: || AdamConfig::new().build().into(),
        }
    }
}

impl<B: Beside> Job for Tiny<B> {
    type Source = Rows;
    type Model = Net;
    type Batch = Tensor<2>;

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

    fn optimizer(&self) -> JobOptimizer {
        (self.optimizer)()
    }

    fn init(&self, device: &Device) -> Net {
        Net { first: LinearConfig::new(WIDTH, 256).init(device), second: LinearConfig::new(256, 1).init(device) }
    }

    fn batch(&self, (values, edge): &(Vec<f32>, usize), samples: Range<usize>, device: &Device) -> Tensor<2> {
        self.beside.on_part(samples.len());
        let row = edge * WIDTH;
        let data = values[samples.start * row..samples.end * row].to_vec();
        Tensor::from_data(TensorData::new(data, [samples.len() * edge, WIDTH]), device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Tensor<2> {
        Tensor::zeros([(shape.samples * shape.edge()) as usize, WIDTH], device)
    }

    fn mean_loss(&self, net: &Net, rows: Tensor<2>, _task_weights: &[f32]) -> Loss {
        let target = rows.clone().mean_dim(1);
        let hidden = burn::tensor::activation::relu(net.first.forward(rows));
        let product = |it: Tensor<2>, _| {
            let unit = Tensor::eye(256, &it.device());
            it.matmul(unit).abs().abs().abs().abs()
        };
        let output = net.second.forward((0..self.n_products).fold(hidden, product));
        (output - target).powi_scalar(2).mean().into()
    }

    fn blank_forward(&self, net: &Net, shape: StepShape, device: &Device) -> Tensor<1> {
        self.beside.on_forward(shape.samples);
        self.mean_loss(net, self.blank_batch(shape, device), &[]).mean
    }

    fn validate(
        &self,
        _net: &Net,
        _device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        let mut seen = vec![0; inference.choose(self.n_held_out).len()];
        let done = inference.run(seen.len(), 16, &mut |range| {
            let n_items = u32::try_from(range.len()).unwrap();
            self.beside.on_forward(n_items);
            thread::sleep(self.item_time * n_items);
            seen[range].fill(1);
            Ok(())
        });
        self.beside.on_validated();
        done?;
        let value = f64::from(seen.iter().sum::<i32>());
        Ok(Metric { name: "items".to_owned(), value, baseline: 0.0, goal: Goal::Highest }.into())
    }
}

fn bounds() -> Bounds {
    Bounds { patch_min: 16, patch_max: 64, patch_multiple: 16, batch_min: 2, batch_max: 16 }
}

pub(crate) fn config(n_steps: u64, policy: PolicyConfig) -> FitConfig {
    FitConfig {
        device: "flex".to_owned(),
        seed: 3,
        deterministic: false,
        draws_line: false,
        may_checkpoint: false,
        too_large: KnownTooLarge::default(),
        optimizer_recovery: OptimizerRecovery::Restore,
        n_steps,
        learning_rate: LearningRate { peak: 1e-3, warm_up_steps: 2, final_share: 0.1, scaling: Scaling::None },
        // All of the capacity: what other tests left in the heap must not shrink the room of this one.
        target: Fraction::ONE,
        controller: ControllerConfig {
            predictor: PredictorConfig::default(),
            policy,
            recompute: Recompute::NEVER,
            platform: plimsoll_predict::Platform::default(),
            planned: Vec::new(),
            replicas: 1,
            exact_peaks: true,
            small_batch: 0,
        },
        tasks: BalanceConfig::default(),
        loader: LoaderConfig { workers: 2, ..LoaderConfig::cut(3, 16, 64, Bytes::mib(4)) },
        validate_every: 5,
        validation_share: Fraction::ONE,
        checkpoint_every: 4,
        patience: None,
        keep_checkpoints: 2,
    }
}

pub(crate) fn certified() -> PolicyConfig {
    PolicyConfig::Certified(CertifiedConfig { bounds: bounds(), ..CertifiedConfig::default() })
}

pub(crate) fn fixed() -> PolicyConfig {
    PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 64, micro_batch_size: 16 }))
}

/// Room for micro-batches of so many samples of the largest patch on this machine, and for none of twice as many.
///
/// Kernels pack matrices into buffers that are as large as the processor's caches.
pub(crate) fn room_for(n: u32) -> Bytes {
    let needed = |micro_batch_size| {
        let policy = PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: 64, micro_batch_size }));
        needed(&Tiny::new(), &config(4, policy))
    };
    // What a thread keeps for its kernels is there from the first run on.
    needed(2 * n);
    Bytes(u64::midpoint(needed(n).0, needed(2 * n).0))
}
