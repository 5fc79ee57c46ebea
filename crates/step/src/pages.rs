//! What goes back to the device between parts, so that a reading shows the part that ran.

use plimsoll_predict::{Entered, Found, PageOwner};
use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::{Bytes, MemoryReading, Prediction, StepShape};

/// Follows the rule of a [`PageOwner`] on a device.
#[derive(Clone, Debug)]
pub(crate) struct Pages(PageOwner);

/// What a part that is certain to fit reaches among no pages of others, and the budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certain {
    pub(crate) alone: Prediction,
    pub(crate) budget: Bytes,
}

impl Pages {
    /// Starts before the first step, when anything may have reserved pages.
    pub(crate) fn new(probe: &dyn Probe) -> Self {
        Self(PageOwner::new(probe.has_exact_peak()))
    }

    /// Lets parts begin among the pages of other shapes, where all together stay within the budget.
    pub(crate) fn of_mixed_shapes(self) -> Self {
        Self(self.0.of_mixed_shapes())
    }

    /// Whether peaks are exact, and readings need no care.
    pub(crate) fn are_exact(&self) -> bool {
        self.0.is_exact()
    }

    /// Begins a step.
    pub(crate) fn begin(&mut self) {
        self.0.begin();
    }

    /// Notes that something else may use the device.
    pub(crate) fn forget(&mut self) {
        self.0.forget();
    }

    /// Returns pages before a part of this shape that would begin with more than it is predicted to reach.
    ///
    /// # Errors
    ///
    /// Those of [`Probe::cleanup`] and [`Probe::read`].
    pub(crate) fn outgrown(
        &mut self,
        probe: &mut dyn Probe,
        shape: StepShape,
        reserved: Bytes,
    ) -> Result<(), ProbeError> {
        if self.0.is_outgrown(shape, reserved) {
            probe.cleanup()?;
            self.0.settle(probe.read()?.reserved);
        }
        Ok(())
    }

    /// Prepares the device for a part of this shape, and returns what it reaches where it begins among the pages of others.
    ///
    /// # Errors
    ///
    /// Those of [`Probe::cleanup`] and [`Probe::read`].
    pub(crate) fn enter(
        &mut self,
        probe: &mut dyn Probe,
        shape: StepShape,
        certain: Option<Certain>,
    ) -> Result<Option<Prediction>, ProbeError> {
        let found = match certain.filter(|_| self.0.asks(shape)) {
            Some(Certain { alone, budget }) => {
                let MemoryReading { reserved, in_use, .. } = probe.read()?;
                Some(Found { reserved, in_use, alone, budget })
            }
            None => None,
        };
        match self.0.enter(shape, found) {
            Entered::Alone => probe.cleanup().map(|()| None),
            Entered::Within => Ok(None),
            Entered::Among(reached) => Ok(Some(reached)),
        }
    }

    /// Whether a reading after a part of this shape shows the need of that part.
    pub(crate) fn shows(&self, shape: StepShape) -> bool {
        self.0.shows(shape)
    }

    /// Returns the peak of a part of this shape that ran, where the reading shows it.
    pub(crate) fn read_of(&mut self, shape: StepShape, peak: Bytes) -> Option<Bytes> {
        if !self.0.shows(shape) {
            return None;
        }
        self.0.note_read(shape);
        Some(peak)
    }

    /// Whether the last part began among pages of earlier ones, so that without them it may fit after all.
    pub(crate) fn were_shared(&self) -> bool {
        self.0.were_shared()
    }

    /// Returns every page to the device that holds nothing alive.
    ///
    /// # Errors
    ///
    /// Those of [`Probe::cleanup`].
    pub(crate) fn give_back(&mut self, probe: &mut dyn Probe) -> Result<(), ProbeError> {
        self.0.forget();
        probe.cleanup()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts cleanups; 2 bytes stay reserved after each.
    struct Card {
        exact: bool,
        cleanups: usize,
    }

    impl Probe for Card {
        fn name(&self) -> String {
            "card".into()
        }

        fn read(&self) -> Result<MemoryReading, ProbeError> {
            Ok(MemoryReading {
                in_use: Bytes(1),
                reserved: Bytes(2),
                peak: Bytes(2),
                page: Bytes::mib(2),
                packed: Bytes::ZERO,
            })
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

        fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
            Ok(Bytes::gib(1))
        }

        fn cleanup(&mut self) -> Result<(), ProbeError> {
            self.cleanups += 1;
            Ok(())
        }
    }

    #[test]
    fn the_device_is_cleaned_up_where_the_rule_says_so_and_nowhere_else() {
        for (exact, expected) in [(false, [1, 1, 2, 3, 3, 4]), (true, [0, 0, 0, 1, 1, 1])] {
            let mut card = Card { exact, cleanups: 0 };
            let (mut pages, full, ragged) = (Pages::new(&card), StepShape::new(8, 32), StepShape::new(3, 32));
            let mut cleanups = Vec::new();
            for shape in [full, full, ragged] {
                pages.begin();
                pages.enter(&mut card, shape, None).unwrap();
                assert!(pages.shows(shape));
                cleanups.push(card.cleanups);
            }
            // After a failure they go back whatever the rule says.
            pages.give_back(&mut card).unwrap();
            cleanups.push(card.cleanups);
            pages.enter(&mut card, full, None).unwrap();
            cleanups.push(card.cleanups);
            pages.outgrown(&mut card, full, Bytes(5)).unwrap();
            pages.outgrown(&mut card, full, Bytes(2)).unwrap();
            cleanups.push(card.cleanups);
            assert_eq!(cleanups, expected, "exact: {exact}");
        }
    }
}
