//! Whose activations are recomputed.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// Which samples have their activations recomputed in the backward pass instead of kept, for less memory and more time: those
/// of an edge and all longer ones.
///
/// What a sample needs grows with its edge, so that one edge parts those that fit as they are from those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recompute {
    from: Option<u32>,
}

impl Recompute {
    /// No activations are recomputed.
    pub const NEVER: Self = Self { from: None };
    /// Those of all samples are.
    pub const ALWAYS: Self = Self::from(0);

    /// Recomputes those of samples of this edge and longer ones.
    pub const fn from(edge: u32) -> Self {
        Self { from: Some(edge) }
    }

    /// Recomputes those of samples that are longer than this edge; of all samples without one.
    pub const fn above(edge: Option<u32>) -> Self {
        Self::from(match edge {
            Some(edge) => edge.saturating_add(1),
            None => 0,
        })
    }

    /// Whether those of samples of this edge are recomputed.
    pub const fn is_on(self, edge: u32) -> bool {
        matches!(self.from, Some(from) if from <= edge)
    }

    /// Whether those of any samples are, if they are long enough.
    pub const fn is_on_anywhere(self) -> bool {
        self.from.is_some()
    }

    /// Returns what recomputes wherever one of the two does.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { from: [self.from, other.from].into_iter().flatten().min() }
    }
}

impl Display for Recompute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            None => f.write_str("off"),
            Some(0) => f.write_str("on"),
            Some(edge) => write!(f, "on from an edge of {edge}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edge_parts_those_that_are_recomputed_from_those_that_are_not() {
        let on = |it: Recompute| [0, 511, 512, u32::MAX].map(|edge| it.is_on(edge));
        assert_eq!(on(Recompute::NEVER), [false; 4]);
        assert_eq!(on(Recompute::ALWAYS), [true; 4]);
        assert_eq!(on(Recompute::from(512)), [false, false, true, true]);
        assert_eq!(Recompute::above(Some(511)), Recompute::from(512));
        assert_eq!(Recompute::above(None), Recompute::ALWAYS);
    }

    #[test]
    fn of_two_the_shorter_edge_decides() {
        let from = Recompute::from;
        assert_eq!(Recompute::NEVER.or(Recompute::NEVER), Recompute::NEVER);
        assert_eq!(Recompute::NEVER.or(from(64)), from(64));
        assert_eq!(from(32).or(from(64)), from(32));
    }

    #[test]
    fn it_is_named_as_people_set_it() {
        let names = [Recompute::NEVER, Recompute::ALWAYS, Recompute::from(512)].map(|it| it.to_string());
        assert_eq!(names, ["off", "on", "on from an edge of 512"]);
    }
}
