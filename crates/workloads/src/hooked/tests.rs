use burn::nn::{Linear, LinearConfig};
use burn::optim::SgdConfig;

use plimsoll_train::{Goal, JobOptimizer, Metric, Part};

use super::*;

#[test]
fn a_part_has_the_edge_of_its_place_in_the_step() {
    let part = |ids: &[u64], edge: u32| Part::new(ids.to_vec(), edge);
    let draw = Draw { epoch: 0, parts: vec![part(&[5, 1, 7], 32), part(&[2], 64)] };
    let buffer = HookedBuffer { buffer: (), draw };
    let shapes = [0..3, 1..2, 3..4].map(|samples| buffer.part(samples).shape);
    assert_eq!(shapes, [StepShape::new(3, 32), StepShape::new(1, 32), StepShape::new(1, 64)]);
    assert_eq!(buffer.part(1..2).n_samples, Some(4));
}

/// A job that has an answer of its own wherever there is a default.
struct Own {
    tasks: Vec<String>,
}

struct OwnRows([NamedSource; 1]);

#[deny(clippy::missing_trait_methods, reason = "a default would test nothing")]
impl Source for OwnRows {
    type Item = ();
    type Buffer = Vec<u64>;

    fn n_samples(&self) -> u64 {
        3
    }

    fn lengths(&self) -> Lengths {
        Lengths::Streamed { longest: Extent::new(9) }
    }

    fn sources(&self) -> &[NamedSource] {
        &self.0
    }

    fn expected_extent(&self, id: u64) -> Option<Extent> {
        u32::try_from(id).ok().map(Extent::new)
    }

    fn describe(&self, id: u64) -> String {
        format!("row {id}")
    }

    fn smaller(&self) -> &'static str {
        "a shorter row"
    }

    fn read(&self, _epoch: u64, _id: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn stand_in(&self, id: u64) -> Option<()> {
        (id == 2).then_some(())
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(largest.positions() * 3)
    }

    fn buffer(&self, _largest: StepShape) -> Vec<u64> {
        Vec::new()
    }

    fn collate(&self, draw: &Draw, _items: &[()], buffer: &mut Vec<u64>) -> Result<(), SourceError> {
        buffer.extend(draw.ids());
        Ok(())
    }
}

#[deny(clippy::missing_trait_methods, reason = "a default would test nothing")]
impl Job for Own {
    type Source = OwnRows;
    type Model = Linear;
    type Batch = u32;

    fn name(&self) -> &'static str {
        "own"
    }

    fn program(&self) -> String {
        "a program".to_owned()
    }

    fn fingerprint(&self) -> String {
        "a fingerprint".to_owned()
    }

    fn features(&self) -> Features {
        Features::complete(2)
    }

    fn source(&self) -> Arc<OwnRows> {
        Arc::new(OwnRows([NamedSource { name: "books".to_owned(), n_samples: 3 }]))
    }

    fn init(&self, device: &Device) -> Linear {
        LinearConfig::new(2, 2).init(device)
    }

    fn optimizer(&self) -> JobOptimizer {
        SgdConfig::new().build().into()
    }

    fn max_norm(&self) -> Option<f64> {
        Some(2.5)
    }

    fn unit_of_length(&self) -> &'static str {
        "frames"
    }

    fn unit(&self) -> Unit {
        Unit::Positions
    }

    fn tasks(&self) -> &[String] {
        &self.tasks
    }

    fn task_probes(&self, model: &Linear) -> Vec<ParamId> {
        vec![model.weight.id]
    }

    fn batch(&self, buffer: &Vec<u64>, samples: Range<usize>, _device: &Device) -> u32 {
        buffer[samples].iter().map(|id| u32::try_from(*id).unwrap()).sum()
    }

    fn blank_batch(&self, shape: StepShape, _device: &Device) -> u32 {
        shape.samples
    }

    fn mean_loss(&self, _model: &Linear, batch: u32, task_weights: &[f32]) -> Loss {
        Tensor::from_data([batch as f32 + task_weights[0]], &Device::flex()).into()
    }

    fn blank_forward(&self, _model: &Linear, shape: StepShape, device: &Device) -> Tensor<1> {
        Tensor::from_data([shape.edge() as f32], device)
    }

    fn describe_validation(&self, extent: Extent) -> String {
        format!("a page of edge {extent}")
    }

    fn validate(&self, _: &Linear, _: &Device, _: &mut Inference<'_>) -> Result<Option<Validation>, StepError> {
        Ok(Metric { name: "own".to_owned(), value: 1.0, baseline: 0.0, goal: Goal::Lowest }.into())
    }

    fn has_test(&self) -> bool {
        true
    }

    fn test(&self, _: &Linear, _: &Device, _: &mut Inference<'_>) -> Result<Option<Validation>, StepError> {
        Ok(Metric { name: "own test".to_owned(), value: 1.0, baseline: 0.0, goal: Goal::Lowest }.into())
    }
}

struct Silent;

impl Hooks for Silent {}

/// Everything that a job says of itself and of its source.
fn answers<J: Job<Model = Linear>>(job: &J, model: &Linear) -> Vec<String> {
    let (device, source, shape) = (Device::flex(), job.source(), StepShape::new(2, 5));
    let mut buffer = source.buffer(shape);
    let draw = Draw::of_extent(0, vec![2, 1], 5);
    let items: Vec<_> = draw.ids().map(|id| source.read(0, id).unwrap()).collect();
    source.collate(&draw, &items, &mut buffer).unwrap();
    let number = |it: Tensor<1>| it.into_scalar::<f32>().to_string();
    let loss = |batch| number(job.mean_loss(model, batch, &[0.5]).mean);
    vec![
        format!("{} {} {}", job.name(), job.program(), job.fingerprint()),
        format!("{:?} {:?} {:?}", job.features(), job.unit(), job.tasks()),
        format!("{} {:?}", job.optimizer().name(), job.max_norm()),
        format!("{:?} {} {}", job.task_probes(model), job.describe_validation(7.into()), job.has_test()),
        format!("{} {}", loss(job.batch(&buffer, 0..2, &device)), loss(job.blank_batch(shape, &device))),
        number(job.blank_forward(model, shape, &device)),
        format!("{} {:?} {:?} {}", source.n_samples(), source.lengths(), source.sources(), source.describe(2)),
        format!("{} {}", source.smaller(), source.buffer_bytes(shape)),
        format!("{} {}", source.stand_in(1).is_some(), source.stand_in(2).is_some()),
    ]
}

#[test]
fn a_hooked_job_answers_as_the_job_itself() {
    let own = || Own { tasks: vec!["one".to_owned(), "two".to_owned()] };
    let model = own().init(&Device::flex());
    let hooks: Arc<dyn Hooks> = Arc::new(Silent);
    let hooked = Hooked { job: own(), hooks };
    assert_eq!(answers(&hooked, &model), answers(&own(), &model));
}
