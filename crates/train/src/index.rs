//! The lengths of samples, along however many axes.

use plimsoll_sampler::{BatchPlanner, PlanConfig, SampleIndex, SamplerError, TaskMix};
use plimsoll_types::Extent;

/// The lengths of all samples, along one axis or several.
#[derive(Clone, Debug, PartialEq)]
pub enum Index {
    /// Along one, such as the tokens of a text.
    One(SampleIndex<1>),
    /// Along two, such as the sides of an image.
    Two(SampleIndex<2>),
    /// Along three.
    Three(SampleIndex<3>),
}

/// What is asked of an index, whatever its axes.
trait Known {
    fn n_samples(&self) -> usize;
    fn extent(&self, id: u64) -> Option<Extent>;
    fn tasks(&self) -> Option<&[u16]>;
    fn weight(&self, id: u64) -> f64;
    fn fingerprint(&self) -> u64;
    fn check(&self, tasks: TaskMix) -> Result<(), SamplerError>;
}

impl<const AXES: usize> Known for SampleIndex<AXES> {
    fn n_samples(&self) -> usize {
        Self::n_samples(self)
    }

    fn extent(&self, id: u64) -> Option<Extent> {
        self.get(id).map(extent)
    }

    fn tasks(&self) -> Option<&[u16]> {
        Self::tasks(self)
    }

    fn weight(&self, id: u64) -> f64 {
        Self::weight(self, id)
    }

    fn fingerprint(&self) -> u64 {
        Self::fingerprint(self)
    }

    fn check(&self, tasks: TaskMix) -> Result<(), SamplerError> {
        let config = PlanConfig { tasks, ..PlanConfig::default() };
        BatchPlanner::try_new(self.clone(), |_: [u32; AXES]| u32::MAX, config)?;
        Ok(())
    }
}

impl Index {
    fn known(&self) -> &dyn Known {
        match self {
            Self::One(index) => index,
            Self::Two(index) => index,
            Self::Three(index) => index,
        }
    }

    /// Returns the lengths of a sample, if there is such a sample.
    pub fn get(&self, id: u64) -> Option<Extent> {
        self.known().extent(id)
    }

    /// Returns the lengths of all samples, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        (0..self.n_samples() as u64).filter_map(|id| self.get(id))
    }

    /// Returns how many samples there are.
    pub(crate) fn n_samples(&self) -> usize {
        self.known().n_samples()
    }

    /// Returns along how many axes samples have lengths.
    pub const fn n_axes(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
            Self::Three(_) => 3,
        }
    }

    /// Returns the task of each sample, where the samples have tasks.
    pub fn tasks(&self) -> Option<&[u16]> {
        self.known().tasks()
    }

    /// Returns how often a sample is drawn beside the others; 1 where each comes once.
    pub(crate) fn weight(&self, id: u64) -> f64 {
        self.known().weight(id)
    }

    /// Returns what tells these lengths and tasks from others, but for one chance in 2^64.
    pub fn fingerprint(&self) -> u64 {
        self.known().fingerprint()
    }

    /// Refuses a mix of tasks that the samples do not have.
    ///
    /// # Errors
    ///
    /// [`SamplerError`], which says what would be right.
    pub fn check_tasks(&self, tasks: TaskMix) -> Result<(), SamplerError> {
        self.known().check(tasks)
    }
}

impl From<SampleIndex<1>> for Index {
    fn from(index: SampleIndex<1>) -> Self {
        Self::One(index)
    }
}

impl From<SampleIndex<2>> for Index {
    fn from(index: SampleIndex<2>) -> Self {
        Self::Two(index)
    }
}

impl From<SampleIndex<3>> for Index {
    fn from(index: SampleIndex<3>) -> Self {
        Self::Three(index)
    }
}

/// Returns lengths along one to three axes as an extent.
pub(crate) fn extent<const AXES: usize>(lengths: [u32; AXES]) -> Extent {
    Extent::try_new(&lengths).unwrap_or_else(|error| unreachable!("the sampler refuses such lengths: {error}"))
}

/// Returns an extent as lengths along so many axes; `None` where it has another number of them.
pub(crate) fn lengths<const AXES: usize>(extent: Extent) -> Option<[u32; AXES]> {
    extent.edges().try_into().ok()
}
