//! A whole run as it ships, and Burn's own loop at the fixed batch that suits it best.

use std::hint::black_box;
use std::iter::successors;
use std::path::Path;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use std::time::Instant;

use burn::optim::{AdamConfig, GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::tensor::Device;
use plimsoll_probe::{DeviceKind, open};
use plimsoll_proof::end_to_end::{Division, Method, OwnLoop, Report, Rule, WholeRun};
use plimsoll_sampler::{SampleIndex, StepSize};
use plimsoll_train::{Draw, Job, Unit, open_device};
use plimsoll_types::{Bytes, Event, StepDone, StepShape};

use crate::ahead::{self, Filled};
use crate::{Failed, jobs, product};

const DEVICE: DeviceKind = DeviceKind::Flex;

/// Each batch size runs at least so long, in whole steps, before it is compared.
const SWEEP_SECONDS: f64 = 5.0;

/// The best of them runs at least so long.
const LEAST_SECONDS: f64 = 30.0;

/// Steps before the clock starts.
const N_FIRST: usize = 2;

/// Learning does not matter here, and no loss is to overflow.
const RATE: f64 = 1e-4;

/// Trains with nothing set but the data, then lets Burn's own loop run on the same samples in steps of as many.
pub(crate) fn compare<J: Job>(job: &J, data: &Path, unit: &str) -> Result<Report, Failed> {
    let lengths = jobs::lengths(&*job.source())?;
    let mut run = WholeRun { unit: unit.to_owned(), ..default_run(job.name(), data, &lengths)? };
    let n_samples = run.samples_per_step;
    let sizes = successors(Some(1), |size| (size * 2 <= n_samples).then_some(size * 2));
    for size in sizes {
        run.sweep.push(own_loop(job, &lengths, (n_samples, size), SWEEP_SECONDS)?);
    }
    let best = run.sweep.iter().max_by(|a, b| a.units_per_second.total_cmp(&b.units_per_second));
    let size = best.map_or(1, |it| it.batch_size);
    run.own_loop = own_loop(job, &lengths, (n_samples, size), LEAST_SECONDS)?;
    eprintln!("{run}");
    Ok(Report { runs: vec![run], ..Report::default() })
}

/// Runs `plimsoll train`, and reads its log.
fn default_run(job: &str, data: &Path, lengths: &[u32]) -> Result<WholeRun, Failed> {
    let (log, seconds) = product::train(&[format!("--job={job}")], Some(data), None, &mut |_| Ok(()))?;
    let steps: Vec<_> =
        log.events.iter().filter_map(|it| if let Event::StepDone(it) = it { Some(it) } else { None }).collect();
    let length = |id: &u64| usize::try_from(*id).ok().and_then(|id| lengths.get(id)).copied().map_or(0, u64::from);
    let units = |step: &StepDone| step.micro_batches.iter().flat_map(|it| &it.ids).map(length).sum::<u64>();
    let n_samples: usize = steps.iter().flat_map(|it| &it.micro_batches).map(|it| it.ids.len()).sum();
    let all: u64 = steps.iter().map(|it| units(it)).sum();
    Ok(WholeRun {
        job: job.to_owned(),
        steps: steps.len(),
        samples_per_step: n_samples.checked_div(steps.len()).unwrap_or(0).max(1),
        seconds,
        units_per_second: all as f64 / seconds,
        units_per_second_of_steps: all as f64 / steps.iter().map(|it| it.seconds).sum::<f64>(),
        peak: steps.iter().map(|it| it.peak).max().unwrap_or(Bytes::ZERO),
        above_bound: steps.iter().filter(|it| it.upper.is_some_and(|upper| upper < it.peak)).count(),
        ..WholeRun::default()
    })
}

/// Runs Burn's own loop on samples in random order, so many a batch and padded to its longest, for so long.
fn own_loop<J: Job>(
    job: &J,
    lengths: &[u32],
    (n_samples, batch_size): (usize, usize),
    least: f64,
) -> Result<OwnLoop, Failed> {
    let (device, mut probe) = (open_device(DEVICE)?, open(DEVICE, None)?);
    let (longest, most) = (lengths.iter().copied().max().unwrap_or(1), u32::try_from(batch_size)?);
    let division = Division {
        index: SampleIndex::try_new([lengths.to_vec()])?,
        ids: (0..lengths.len() as u64).collect(),
        rule: Rule::new(vec![most; longest as usize]),
        edges: vec![longest],
        is_packed: false,
        size: StepSize::Samples(u32::try_from(n_samples)?),
        batches_per_step: 1,
        seed: 0,
    };
    let source = job.source();
    let turns = division.schedule()?.filter(|it| it.method == Method::Fixed);
    let draws = turns.flat_map(ahead::draws);
    let buffers = ahead::buffers(&*source, StepShape::new(u32::try_from(n_samples)? + most, longest));
    let ((give, free), (filled, ready)) = (channel(), sync_channel(buffers.len()));
    buffers.into_iter().try_for_each(|buffer| give.send(buffer)).map_err(|_| "start a worker")?;
    let mut loop_of = Loop { job, model: Some(job.init(&device)), optimizer: AdamConfig::new().init(), device };
    thread::scope(|scope| {
        scope.spawn(move || ahead::work((&*source, Unit::Positions), draws, &free, &filled));
        // Owned here, so that the worker ends when nobody wants its steps.
        let (give, ready) = (give, ready);
        let (mut units, mut start) = (0, Instant::now());
        for n_done in 0.. {
            if n_done == N_FIRST {
                (units, start) = (0, Instant::now());
                probe.reset_peak()?;
            }
            if N_FIRST < n_done && least <= start.elapsed().as_secs_f64() {
                break;
            }
            let Filled { draw, units: counted, buffer } = ready.recv()??;
            loop_of.step(&draw, &buffer);
            units += counted.iter().sum::<u64>();
            give.send(buffer).map_err(|_| "keep the worker")?;
        }
        let units_per_second = units as f64 / start.elapsed().as_secs_f64();
        Ok(OwnLoop { batch_size, units_per_second, peak: probe.read()?.peak })
    })
}

/// What Burn's users write: a batch, a loss, gradients that are added, a step of the optimizer.
struct Loop<'a, J: Job> {
    job: &'a J,
    /// None while the optimizer has it.
    model: Option<J::Model>,
    optimizer: ModuleOptimizer,
    device: Device,
}

impl<J: Job> Loop<'_, J> {
    fn step(&mut self, draw: &Draw, buffer: &<J::Source as plimsoll_train::Source>::Buffer) {
        let Some(model) = self.model.take() else { return };
        let (mut sum, mut begin, n_parts) = (GradientsAccumulator::new(), 0, draw.parts.len() as f64);
        let weights = vec![1.0; self.job.tasks().len()];
        for part in &draw.parts {
            let batch = self.job.batch(buffer, begin..begin + part.ids.len(), &self.device);
            begin += part.ids.len();
            let loss = self.job.mean_loss(&model, batch, &weights).mean / n_parts;
            sum.accumulate(&model, GradientsParams::from_grads(loss.backward(), &model));
            // A loop that shows its loss reads it.
            black_box(loss.into_scalar::<f64>());
        }
        let gradients = sum.grads();
        self.model = Some(self.optimizer.step(RATE, model, gradients));
    }
}
