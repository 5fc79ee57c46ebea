//! Whose need a reading of the reserved pages shows.

use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::{Bytes, StepShape};

/// Keeps the readings of different shapes apart on a device whose allocator keeps its pages.
///
/// Where peaks are exact there is nothing to do: a reading shows what ran since the last reset.
/// `CubeCL` reports what is reserved instead, and keeps a page until a cleanup, so that a reading shows the largest
/// part since then, whatever ran last.
/// A small part that is read after a larger one would teach that it needs as much, which contradicts every other
/// reading, and a policy that steps down would never see the peak fall.
///
/// The rule: the first part of a step takes over the pages of the step before only when those were reserved for parts
/// of its own shape; otherwise they go back to the device first.
/// Steps of one shape, the usual case, pay for no cleanup; a change of the knobs, the short step at the end of an epoch
/// and whatever else used the device (a validation) pay for one.
/// Inside a step a part may be smaller than the largest, such as the ragged one at the end: the reading then belongs to
/// the larger one, and [`Self::shows`] says so.
/// For the same reason a part that ran out of memory among pages that were there before it has not shown that it does
/// not fit: after the cleanup it deserves a second try, and [`Self::were_shared`] says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    exact: bool,
    /// Whether the next part is the first of a step.
    begins: bool,
    /// The smallest shape that covers every part since the last cleanup; `None` when anything may have reserved pages.
    owner: Option<StepShape>,
    /// Whether the last part began among the pages of earlier ones.
    shared: bool,
    /// What stayed reserved the last time that pages went back because too much was.
    floor: Bytes,
}

impl Pages {
    /// Starts before the first step, when anything may have reserved pages.
    pub(crate) fn new(probe: &dyn Probe) -> Self {
        Self { exact: probe.has_exact_peak(), begins: true, owner: None, shared: false, floor: Bytes::ZERO }
    }

    /// Whether peaks are exact, and readings need no care.
    pub(crate) fn are_exact(&self) -> bool {
        self.exact
    }

    /// Begins a step.
    pub(crate) fn begin(&mut self) {
        self.begins = true;
    }

    /// Notes that something else may use the device.
    pub(crate) fn forget(&mut self) {
        self.owner = None;
    }

    /// Returns pages before a step that would begin with more than it is predicted to reach: what a runtime keeps for
    /// itself grows from step to step. Does so once for what no cleanup returns.
    ///
    /// # Errors
    ///
    /// Those of [`Probe::cleanup`] and [`Probe::read`].
    pub(crate) fn outgrown(&mut self, probe: &mut dyn Probe, reserved: Bytes) -> Result<(), ProbeError> {
        if self.exact || reserved <= self.floor {
            return Ok(());
        }
        self.give_back(probe)?;
        self.floor = probe.read()?.reserved;
        Ok(())
    }

    /// Prepares the device for a part of this shape.
    ///
    /// # Errors
    ///
    /// Those of [`Probe::cleanup`].
    pub(crate) fn enter(&mut self, probe: &mut dyn Probe, shape: StepShape) -> Result<(), ProbeError> {
        if self.begins && !self.exact && self.owner != Some(shape) {
            self.give_back(probe)?;
        }
        self.begins = false;
        self.shared = !self.exact && self.owner.is_some();
        self.owner = Some(self.owner.map_or(shape, |it| smallest_cover(it, shape)));
        Ok(())
    }

    /// Whether a reading after a part of this shape shows the need of that part.
    pub(crate) fn shows(&self, shape: StepShape) -> bool {
        self.exact || self.owner == Some(shape)
    }

    /// Whether the last part began among pages of earlier ones, so that without them it may fit after all.
    pub(crate) fn were_shared(&self) -> bool {
        self.shared
    }

    /// Returns every page to the device that holds nothing alive.
    ///
    /// # Errors
    ///
    /// Those of [`Probe::cleanup`].
    pub(crate) fn give_back(&mut self, probe: &mut dyn Probe) -> Result<(), ProbeError> {
        self.owner = None;
        probe.cleanup()
    }
}

fn smallest_cover(a: StepShape, b: StepShape) -> StepShape {
    StepShape::new(a.samples.max(b.samples), a.edge().max(b.edge()))
}

#[cfg(test)]
mod tests {
    use plimsoll_types::MemoryReading;

    use super::*;

    /// Counts cleanups.
    struct Card {
        exact: bool,
        cleanups: usize,
    }

    impl Probe for Card {
        fn name(&self) -> String {
            "card".into()
        }

        fn read(&self) -> Result<MemoryReading, ProbeError> {
            Ok(MemoryReading { in_use: Bytes(1), reserved: Bytes(2), peak: Bytes(2) })
        }

        fn reset_peak(&mut self) -> Result<(), ProbeError> {
            Ok(())
        }

        fn has_exact_peak(&self) -> bool {
            self.exact
        }

        fn capacity(&self) -> Result<Bytes, ProbeError> {
            Ok(Bytes::gib(1))
        }

        fn page(&self) -> Result<Bytes, ProbeError> {
            Ok(Bytes::mib(2))
        }

        fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
            Ok(Bytes::gib(1))
        }

        fn cleanup(&mut self) -> Result<(), ProbeError> {
            self.cleanups += 1;
            Ok(())
        }
    }

    /// Runs steps, each a list of parts, and returns the cleanups of each and whether the last reading shows its part.
    fn run(exact: bool, steps: &[&[u32]]) -> (Vec<usize>, bool) {
        let mut card = Card { exact, cleanups: 0 };
        let mut pages = Pages::new(&card);
        let mut shown = false;
        let cleanups = steps.iter().map(|step| {
            let before = card.cleanups;
            pages.begin();
            for samples in *step {
                let shape = StepShape::new(*samples, 32);
                pages.enter(&mut card, shape).unwrap();
                shown = pages.shows(shape);
            }
            card.cleanups - before
        });
        (cleanups.collect(), shown)
    }

    #[test]
    fn steps_of_one_shape_share_their_pages() {
        assert_eq!(run(false, &[&[8, 8], &[8, 8], &[8, 8]]), (vec![1, 0, 0], true));
    }

    #[test]
    fn a_ragged_part_costs_no_cleanup_and_its_reading_is_the_larger_ones() {
        assert_eq!(run(false, &[&[8, 3], &[8, 3]]), (vec![1, 0], false));
    }

    #[test]
    fn a_smaller_step_starts_without_the_pages_of_the_larger_one() {
        assert_eq!(run(false, &[&[8, 8], &[4, 4], &[4, 4], &[8]]), (vec![1, 1, 0, 1], true));
    }

    #[test]
    fn pages_that_a_larger_part_took_over_within_a_step_are_not_the_first_ones() {
        assert_eq!(run(false, &[&[4, 8], &[4]]), (vec![1, 1], true));
    }

    #[test]
    fn an_exact_device_is_never_cleaned_up_and_shows_what_ran() {
        assert_eq!(run(true, &[&[8, 3], &[4, 8, 2]]), (vec![0, 0], true));
    }

    #[test]
    fn only_the_first_part_after_a_cleanup_begins_alone() {
        let mut card = Card { exact: false, cleanups: 0 };
        let (mut pages, shape) = (Pages::new(&card), StepShape::new(8, 32));
        let mut shared = || {
            pages.enter(&mut card, shape).unwrap();
            pages.were_shared()
        };
        assert_eq!([shared(), shared()], [false, true]);
        pages.give_back(&mut card).unwrap();
        assert!(pages.were_shared(), "the cleanup after a failure does not change how the part began");
        pages.enter(&mut card, shape).unwrap();
        assert!(!pages.were_shared());
    }

    #[test]
    fn what_no_cleanup_returns_is_cleaned_up_once() {
        let mut card = Card { exact: false, cleanups: 0 };
        let mut pages = Pages::new(&card);
        // The card holds 2 bytes whatever happens.
        for reserved in [5, 2, 2, 7] {
            pages.outgrown(&mut card, Bytes(reserved)).unwrap();
        }
        assert_eq!(card.cleanups, 2);
    }

    #[test]
    fn what_something_else_used_goes_back_before_the_next_step() {
        let mut card = Card { exact: false, cleanups: 0 };
        let (mut pages, shape) = (Pages::new(&card), StepShape::new(8, 32));
        pages.enter(&mut card, shape).unwrap();
        pages.forget();
        pages.begin();
        pages.enter(&mut card, shape).unwrap();
        assert_eq!(card.cleanups, 2);
    }
}
