//! The ranks of a training, and what they tell each other of a step.

use std::cmp::Reverse;

use plimsoll_fleet::{Alone, Fleet};

use crate::error::StepError;
use crate::readiness::{Readiness, TOLD};

/// Numbers before those that each rank tells of its own: the step, and its standing.
const HEAD: usize = 1 + TOLD;

/// The ranks that train one model, as one of them sees the others.
///
/// Before ranks add what each has made of a step they meet: each says which step it is at and how it stands, so that all know
/// at once when one of them ran out of memory and cannot go on, and nobody waits for what does not come.
pub struct Team {
    fleet: Box<dyn Fleet>,
    /// The step that all are at.
    step: u64,
    /// Tells its samples from others.
    samples: u64,
    /// How many numbers each tells at least: whoever does not go on may have nothing to tell, and meets the others all the same.
    width: usize,
}

/// Numbers that are told before gradients are added.
const BEFORE_SUM: usize = 2;

impl Default for Team {
    fn default() -> Self {
        Self::new(Box::new(Alone))
    }
}

impl Team {
    pub(crate) fn new(fleet: Box<dyn Fleet>) -> Self {
        Self { fleet, step: 0, samples: 0, width: BEFORE_SUM }
    }

    /// Whether there is no other rank.
    pub fn is_alone(&self) -> bool {
        self.fleet.n_ranks() == 1
    }

    /// Returns which of the ranks this is, from 0.
    pub fn rank(&self) -> u32 {
        self.fleet.rank()
    }

    /// Returns how many there are.
    pub fn n_ranks(&self) -> u32 {
        self.fleet.n_ranks()
    }

    /// Returns the step that all are at.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Says at which step this rank is from now on.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// Says by which number the samples of the step are told from others: the same on all ranks.
    pub fn set_samples(&mut self, fingerprint: u64) {
        self.samples = fingerprint;
    }

    /// Lets each rank tell so many numbers at least whenever they meet, of which some may be 0.
    pub fn set_width(&mut self, width: usize) {
        self.width = width.max(BEFORE_SUM);
    }

    /// Returns what the first rank has to say.
    ///
    /// # Errors
    ///
    /// [`StepError`] where the ranks are not together.
    pub fn first_says(&mut self, own: &[u8]) -> Result<Vec<u8>, StepError> {
        Ok(self.fleet.first_says(own)?)
    }

    /// Meets the others, all of which have made what is theirs of the step; returns how many losses there are, where this rank
    /// has so many.
    pub(crate) fn meet_to_sum(&mut self, n_losses: usize) -> Result<usize, StepError> {
        let all = self.meet(Readiness::Ready, &[self.samples, n_losses as u64])?;
        if let Some((rank, _)) = (0..).zip(&all).find(|(_, it)| it[0] != all[0][0]) {
            return Err(StepError::OtherSamples { rank, step: self.step });
        }
        Ok(all.iter().map(|it| usize::try_from(it[1]).unwrap_or(0)).max().unwrap_or(0))
    }

    /// Tells the others how this rank stands, and some numbers, as many on each; returns those of all, in the order of the
    /// ranks.
    ///
    /// # Errors
    ///
    /// [`StepError::Apart`] where not all are ready: how the one stands that stands worst, this one included.
    /// [`StepError::OtherStep`] where they are not at one step, and [`StepError::Fleet`].
    pub fn meet(&mut self, standing: Readiness, own: &[u64]) -> Result<Vec<Vec<u64>>, StepError> {
        let mut told: Vec<_> = [self.step].into_iter().chain(standing.told()).chain(own.iter().copied()).collect();
        told.resize(told.len().max(HEAD + self.width), 0);
        let all = self.fleet.agree(&told)?;
        let heard: Vec<_> = all.chunks_exact(told.len()).collect();
        let standings = (0..).zip(&heard).map(|(rank, it)| (Readiness::heard(&it[1..]), rank));
        // The first of those that stand alike.
        let worst = standings.max_by_key(|(standing, rank)| (standing.severity(), Reverse(*rank)));
        if let Some((standing, rank)) = worst.filter(|it| it.0 != Readiness::Ready) {
            return Err(StepError::Apart { rank, standing });
        }
        match (0..).zip(&heard).find(|(_, it)| it[0] != self.step) {
            Some((rank, it)) => {
                Err(StepError::OtherStep { rank, step: it[0], own_rank: self.rank(), own_step: self.step })
            }
            None => Ok(heard.into_iter().map(|it| it[HEAD..].to_vec()).collect()),
        }
    }

    /// Puts what the first rank has in the place of what the others have, of the same length.
    pub(crate) fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), StepError> {
        Ok(self.fleet.broadcast(bytes)?)
    }

    /// Adds what all have.
    pub(crate) fn sum(&mut self, values: &mut [f32]) -> Result<(), StepError> {
        Ok(self.fleet.sum(values)?)
    }

    /// Says that this rank has done all that it was to: from here on it is not missed.
    pub fn leave(&mut self) {
        self.fleet.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use plimsoll_fleet::InProcess;
    use plimsoll_types::Extent;

    use super::*;

    /// Lets ranks meet, each with a standing and a step, and returns what each hears.
    fn meet(standings: &[(Readiness, u64)]) -> Vec<Result<Vec<Vec<u64>>, StepError>> {
        let ranks = InProcess::start(u32::try_from(standings.len()).unwrap());
        thread::scope(|scope| {
            let spawn = |(fleet, (standing, step)): (InProcess, (Readiness, u64))| {
                scope.spawn(move || {
                    let mut team = Team::new(Box::new(fleet));
                    team.set_step(step);
                    team.meet(standing, &[10 + u64::from(team.rank())])
                })
            };
            let ranks: Vec<_> = ranks.into_iter().zip(standings.iter().copied()).map(spawn).collect();
            ranks.into_iter().map(|it| it.join().unwrap_or_else(|_| panic!("a rank panics"))).collect()
        })
    }

    #[test]
    fn ranks_that_are_ready_hear_each_other() {
        for heard in meet(&[(Readiness::Ready, 4); 3]) {
            assert_eq!(heard.unwrap_or_else(|error| panic!("{error}")), [[10, 0], [11, 0], [12, 0]]);
        }
    }

    fn pair(edges: [u32; 2]) -> Extent {
        Extent::try_new(&edges).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn all_hear_of_the_one_that_stands_worst() {
        let standings =
            [(Readiness::LeavesOut { extent: 64.into() }, 4), (Readiness::Ready, 4), (Readiness::GoesBack, 4)];
        for heard in meet(&standings) {
            assert!(matches!(heard, Err(StepError::Apart { rank: 2, standing: Readiness::GoesBack })), "{heard:?}");
        }
        let smaller = [Readiness::LeavesOut { extent: pair([4, 8]) }, Readiness::LeavesOut { extent: pair([1, 24]) }];
        for heard in meet(&smaller.map(|it| (it, 4))) {
            let standing = smaller[1];
            assert!(matches!(heard, Err(StepError::Apart { rank: 1, standing: it }) if it == standing), "{heard:?}");
        }
        let shorter =
            [Readiness::LeavesOut { extent: 64.into() }, Readiness::LeavesOut { extent: 32.into() }].map(|it| (it, 4));
        for heard in meet(&shorter) {
            let standing = Readiness::LeavesOut { extent: 32.into() };
            assert!(matches!(heard, Err(StepError::Apart { rank: 1, standing: it }) if it == standing), "{heard:?}");
        }
        for heard in meet(&standings[..2]) {
            let standing = Readiness::LeavesOut { extent: 64.into() };
            assert!(matches!(heard, Err(StepError::Apart { rank: 0, standing: it }) if it == standing), "{heard:?}");
        }
    }

    #[test]
    fn ranks_at_different_steps_are_named() {
        let heard = meet(&[(Readiness::Ready, 4), (Readiness::Ready, 5)]);
        let texts: Vec<_> = heard.into_iter().map(|it| it.unwrap_err().to_string()).collect();
        assert_eq!(texts, ["rank 1 is at step 5, and rank 0 at step 4", "rank 0 is at step 4, and rank 1 at step 5"]);
    }
}
