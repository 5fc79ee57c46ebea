//! Whose need a reading of reserved pages shows.

use plimsoll_types::{Bytes, Extent, Prediction, StepShape};

/// The share of a budget up to which pages of several shapes are kept: what a batch is entered below, so that no policy takes
/// them for the need of one.
const KEPT: f64 = 0.985;

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
/// Where steps are of many shapes by nature ([`Self::of_mixed_shapes`]), giving pages back at each change of shape costs more
/// than a reading is worth.
/// There a shape is read by itself once; after that its parts begin among the pages of others where it is certain that all
/// of them together stay within the budget: it needs none that is not there where a shape that covers it has run among them,
/// and otherwise at most what it would need alone.
///
/// The size of pages never falls, so that a cleanup does not undo what a larger allocation did to it: a reading is that of
/// the shape in this process.
///
/// # Example
///
/// ```
/// use plimsoll_predict::{Entered, PageOwner};
/// use plimsoll_types::StepShape;
///
/// let (full, ragged) = (StepShape::new(8, 32), StepShape::new(3, 32));
/// let mut pages = PageOwner::new(false);
/// pages.begin();
/// assert_eq!(pages.enter(full, None), Entered::Alone, "anything may have reserved pages before");
/// assert_eq!(pages.enter(ragged, None), Entered::Within);
/// assert!(!pages.shows(ragged), "what is reserved then is what the full part needed");
/// pages.begin();
/// assert_eq!(pages.enter(full, None), Entered::Within);
/// assert!(pages.shows(full), "and the next step of the same shape takes it over");
/// pages.begin();
/// assert_eq!(pages.enter(ragged, None), Entered::Alone);
/// assert!(pages.shows(ragged), "a smaller one does not");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOwner {
    rule: Rule,
    /// Whether the next part is the first of a step.
    begins: bool,
    /// The smallest shape that covers every part since the last cleanup; `None` when anything may have reserved pages.
    owner: Option<StepShape>,
    /// Whether some of these began among the pages of others.
    is_mixed: bool,
    /// The largest of these.
    ran: Vec<StepShape>,
    /// The largest shapes that were read by themselves.
    read: Vec<StepShape>,
    /// Whether the last part began among the pages of earlier ones.
    shared: bool,
    /// What stayed reserved the last time that pages went back because too much was.
    floor: Bytes,
}

/// Among whose pages the first part of a step may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Anybody's: a reading shows what ran.
    Exact,
    /// Those of its own shape.
    OneShape,
    /// Those of other shapes too.
    MixedShapes,
}

/// What is known of a part before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Bytes that are reserved before it.
    pub reserved: Bytes,
    /// Bytes of these in use.
    pub in_use: Bytes,
    /// What it reaches among no pages of others.
    pub alone: Prediction,
    /// What is not to be exceeded.
    pub budget: Bytes,
}

/// How a part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// Every empty page goes back to the device first.
    Alone,
    /// With the pages that are there, which are its own or those of its step.
    Within,
    /// With pages of other shapes; what it reaches with them.
    Among(Prediction),
}

impl PageOwner {
    /// Starts before the first step, when anything may have reserved pages; with `exact` peaks a reading needs no care.
    pub const fn new(exact: bool) -> Self {
        Self {
            rule: if exact { Rule::Exact } else { Rule::OneShape },
            begins: true,
            owner: None,
            is_mixed: false,
            ran: Vec::new(),
            read: Vec::new(),
            shared: false,
            floor: Bytes::ZERO,
        }
    }

    /// Lets parts begin among the pages of other shapes, where all together stay within the budget.
    #[must_use]
    pub const fn of_mixed_shapes(mut self) -> Self {
        if !self.is_exact() {
            self.rule = Rule::MixedShapes;
        }
        self
    }

    /// Whether peaks are exact, and readings need no care.
    pub const fn is_exact(&self) -> bool {
        matches!(self.rule, Rule::Exact)
    }

    /// Begins a step.
    pub const fn begin(&mut self) {
        self.begins = true;
    }

    /// Notes that something else may use the device, or that the device has its pages back.
    pub fn forget(&mut self) {
        (self.owner, self.is_mixed) = (None, false);
        self.ran.clear();
    }

    /// Whether it matters to [`Self::enter`] what is known of a part of this shape.
    pub fn asks(&self, shape: StepShape) -> bool {
        let is_among_others = self.is_mixed || self.begins && self.owner.is_some_and(|it| it != shape);
        self.rule == Rule::MixedShapes && is_among_others && is_covered(&self.read, shape)
    }

    /// Notes that a part of this shape comes next, of which this is known where it is certain to fit, and says how it begins.
    #[must_use = "the reading shows the part only if pages go back first where they have to"]
    pub fn enter(&mut self, shape: StepShape, found: Option<Found>) -> Entered {
        let among = found.filter(|_| self.asks(shape)).and_then(|it| self.among(shape, it));
        let entered = match among {
            Some(reached) => Entered::Among(reached),
            None if self.begins && !self.shows(shape) => Entered::Alone,
            None => Entered::Within,
        };
        match entered {
            Entered::Alone => self.forget(),
            Entered::Within => {}
            Entered::Among(_) => self.is_mixed = true,
        }
        self.begins = false;
        self.shared = !self.is_exact() && self.owner.is_some();
        self.owner = Some(self.owner.map_or(shape, |it| smallest_cover(it, shape)));
        if self.rule == Rule::MixedShapes {
            note(&mut self.ran, shape);
        }
        entered
    }

    /// Returns what a part reaches among the pages that are there, where that is within the budget.
    fn among(&self, shape: StepShape, Found { reserved, in_use, alone, budget }: Found) -> Option<Prediction> {
        let grows = if is_covered(&self.ran, shape) { Bytes::ZERO } else { alone.upper.saturating_sub(in_use) };
        let upper = reserved.saturating_add(grows);
        (upper.as_f64() <= budget.as_f64() * KEPT)
            .then(|| Prediction { expected: alone.expected.max(reserved), upper: alone.upper.max(upper) })
    }

    /// Whether a reading after a part of this shape shows the need of that part.
    pub fn shows(&self, shape: StepShape) -> bool {
        self.is_exact() || (!self.is_mixed && self.owner == Some(shape))
    }

    /// Notes that a part of this shape was read, and that the reading showed its need.
    pub fn note_read(&mut self, shape: StepShape) {
        if self.rule == Rule::MixedShapes {
            note(&mut self.read, shape);
        }
    }

    /// Whether the last part began among pages of earlier ones, so that without them it may fit after all.
    pub const fn were_shared(&self) -> bool {
        self.shared
    }

    /// Whether pages have to go back before a part of this shape that would begin with more than it is predicted to reach,
    /// since what a runtime keeps for itself grows from step to step: once for what no cleanup returns.
    ///
    /// The caller cleans up then, and says with [`Self::settle`] what is left.
    pub fn is_outgrown(&self, shape: StepShape, reserved: Bytes) -> bool {
        !self.is_exact() && self.shows(shape) && self.floor < reserved
    }

    /// Notes that the device has its pages back because too much was reserved, and what no cleanup returns.
    pub fn settle(&mut self, reserved: Bytes) {
        self.forget();
        self.floor = reserved;
    }
}

/// Adds a shape to the largest of those that were noted.
fn note(largest: &mut Vec<StepShape>, shape: StepShape) {
    if !is_covered(largest, shape) {
        largest.retain(|it| !shape.covers(*it));
        largest.push(shape);
    }
}

fn is_covered(largest: &[StepShape], shape: StepShape) -> bool {
    largest.iter().any(|it| it.covers(shape))
}

/// Returns the smallest shape that covers both.
fn smallest_cover(a: StepShape, b: StepShape) -> StepShape {
    let (longer, shorter) = if b.edges().len() <= a.edges().len() { (a, b) } else { (b, a) };
    let others = shorter.edges().iter().copied().chain(std::iter::repeat(0));
    let edges: Vec<u32> = longer.edges().iter().zip(others).map(|(a, b)| b.max(*a)).collect();
    StepShape::of(a.samples.max(b.samples), Extent::try_new(&edges).unwrap_or(longer.extent()))
}

#[cfg(test)]
mod tests;
