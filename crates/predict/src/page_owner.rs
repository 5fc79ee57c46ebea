//! Whose need a reading of reserved pages shows.

use plimsoll_types::{Bytes, Extent, StepShape};

/// Keeps the readings of different shapes apart where an allocator keeps its pages.
///
/// Where peaks are exact there is nothing to do: a reading shows what ran since the last reset.
/// `CubeCL` reports what is reserved instead, and keeps a page until a cleanup, so that a reading shows the largest
/// part since then, whatever ran last.
/// A small part that is read after a larger one would teach that it needs as much, which contradicts every other
/// reading, and a policy that steps down would never see the peak fall.
///
/// # The rule
///
/// The first part of a step takes over the pages of the step before only when those were reserved for parts of its own
/// shape; otherwise they go back to the device first ([`Self::enter`]).
/// Steps of one shape, the usual case, pay for no cleanup; a change of the knobs, the short step at the end of an epoch
/// and whatever else used the device (a validation, [`Self::forget`]) pay for one.
/// Inside a step a part may be smaller than the largest, such as the ragged one at the end: the reading then belongs to
/// the larger one, and [`Self::shows`] says so.
/// For the same reason a part that ran out of memory among pages that were there before it has not shown that it does
/// not fit: after the cleanup it deserves a second try, and [`Self::were_shared`] says so.
///
/// The size of pages never falls, so that a cleanup does not undo what a larger allocation did to it: a reading is that of
/// the shape in this process.
///
/// # Example
///
/// ```
/// use plimsoll_predict::PageOwner;
/// use plimsoll_types::StepShape;
///
/// let (full, ragged) = (StepShape::new(8, 32), StepShape::new(3, 32));
/// let mut pages = PageOwner::new(false);
/// pages.begin();
/// assert!(pages.enter(full), "anything may have reserved pages before");
/// assert!(!pages.enter(ragged) && !pages.shows(ragged), "what is reserved then is what the full part needed");
/// pages.begin();
/// assert!(!pages.enter(full) && pages.shows(full), "and the next step of the same shape takes it over");
/// pages.begin();
/// assert!(pages.enter(ragged) && pages.shows(ragged), "a smaller one does not");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOwner {
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

impl PageOwner {
    /// Starts before the first step, when anything may have reserved pages; with `exact` peaks a reading needs no care.
    pub const fn new(exact: bool) -> Self {
        Self { exact, begins: true, owner: None, shared: false, floor: Bytes::ZERO }
    }

    /// Whether peaks are exact, and readings need no care.
    pub const fn is_exact(&self) -> bool {
        self.exact
    }

    /// Begins a step.
    pub const fn begin(&mut self) {
        self.begins = true;
    }

    /// Notes that something else may use the device, or that the device has its pages back.
    pub const fn forget(&mut self) {
        self.owner = None;
    }

    /// Notes that a part of this shape comes next, and says whether every empty page has to go back to the device before.
    #[must_use = "the reading shows the part only if pages go back first where they have to"]
    pub fn enter(&mut self, shape: StepShape) -> bool {
        let cleans_up = self.begins && !self.exact && self.owner != Some(shape);
        if cleans_up {
            self.forget();
        }
        self.begins = false;
        self.shared = !self.exact && self.owner.is_some();
        self.owner = Some(self.owner.map_or(shape, |it| smallest_cover(it, shape)));
        cleans_up
    }

    /// Whether a reading after a part of this shape shows the need of that part.
    pub fn shows(&self, shape: StepShape) -> bool {
        self.exact || self.owner == Some(shape)
    }

    /// Whether the last part began among pages of earlier ones, so that without them it may fit after all.
    pub const fn were_shared(&self) -> bool {
        self.shared
    }

    /// Whether pages have to go back before a step that would begin with more than it is predicted to reach, since what a
    /// runtime keeps for itself grows from step to step: once for what no cleanup returns.
    ///
    /// The caller cleans up then, and says with [`Self::settle`] what is left.
    pub fn is_outgrown(&self, reserved: Bytes) -> bool {
        !self.exact && self.floor < reserved
    }

    /// Notes that the device has its pages back because too much was reserved, and what no cleanup returns.
    pub const fn settle(&mut self, reserved: Bytes) {
        self.forget();
        self.floor = reserved;
    }
}

/// Returns the smallest shape that covers both.
fn smallest_cover(a: StepShape, b: StepShape) -> StepShape {
    let (longer, shorter) = if b.edges().len() <= a.edges().len() { (a, b) } else { (b, a) };
    let others = shorter.edges().iter().copied().chain(std::iter::repeat(0));
    let edges: Vec<u32> = longer.edges().iter().zip(others).map(|(a, b)| b.max(*a)).collect();
    StepShape::of(a.samples.max(b.samples), Extent::try_new(&edges).unwrap_or(longer.extent()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs steps, each a list of parts, and returns the cleanups of each and whether the last reading shows its part.
    fn run(exact: bool, steps: &[&[u32]]) -> (Vec<usize>, bool) {
        let (mut pages, mut shown) = (PageOwner::new(exact), false);
        let cleanups = steps.iter().map(|step| {
            pages.begin();
            let mut n = 0;
            for samples in *step {
                let shape = StepShape::new(*samples, 32);
                n += usize::from(pages.enter(shape));
                shown = pages.shows(shape);
            }
            n
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
        let (mut pages, shape) = (PageOwner::new(false), StepShape::new(8, 32));
        let mut entered = || (pages.enter(shape), pages.were_shared());
        assert_eq!([entered(), entered()], [(true, false), (false, true)]);
        pages.forget();
        assert!(pages.were_shared(), "the cleanup after a failure does not change how the part began");
        assert!(!pages.enter(shape) && !pages.were_shared(), "inside a step nothing goes back");
    }

    #[test]
    fn what_no_cleanup_returns_goes_back_once() {
        let mut pages = PageOwner::new(false);
        let mut n = 0;
        for reserved in [5, 2, 2, 7] {
            if pages.is_outgrown(Bytes(reserved)) {
                n += 1;
                // 2 bytes stay whatever happens.
                pages.settle(Bytes(2));
            }
        }
        assert_eq!(n, 2);
        assert!(!PageOwner::new(true).is_outgrown(Bytes::MAX));
    }

    #[test]
    fn what_something_else_used_goes_back_before_the_next_step() {
        let (mut pages, shape) = (PageOwner::new(false), StepShape::new(8, 32));
        assert!(pages.enter(shape));
        pages.forget();
        pages.begin();
        assert!(pages.enter(shape));
    }

    #[test]
    fn parts_that_are_longer_along_different_axes_are_covered_by_neither() {
        let shape = |edges: &[u32]| StepShape::of(2, Extent::try_new(edges).unwrap());
        let (wide, high) = (shape(&[64, 16]), shape(&[16, 64]));
        let mut pages = PageOwner::new(false);
        assert!(pages.enter(wide) && !pages.enter(high));
        assert!(!pages.shows(wide) && !pages.shows(high) && pages.shows(shape(&[64, 64])));
    }

    /// An allocator that keeps what the largest part since the last cleanup reserved.
    #[derive(Default)]
    struct Kept(u64);

    fn need(shape: StepShape) -> u64 {
        u64::from(shape.samples) * u64::from(shape.edge())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_runs_a_reading_that_shows_a_part_is_its_own(
            exact in any::<bool>(),
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec((1..5u32, 1..4u32), 1..5)), 1..12),
        ) {
            let (mut pages, mut kept) = (PageOwner::new(exact), Kept(1 << 40));
            for (disturbed, parts) in steps {
                if disturbed {
                    kept.0 = 1 << 40;
                    pages.forget();
                }
                pages.begin();
                for (at, (samples, edge)) in parts.into_iter().enumerate() {
                    let shape = StepShape::new(samples, 16 * edge);
                    if pages.enter(shape) || exact {
                        kept.0 = 0;
                    }
                    kept.0 = kept.0.max(need(shape));
                    prop_assert!(!pages.shows(shape) || kept.0 == need(shape), "{shape}");
                    prop_assert!(at > 0 || pages.shows(shape), "the first part of a step is always read");
                }
            }
        }
    }
}
