//! How much fits now.

use std::sync::Arc;

/// Says how many samples of a cost fit at once, as it is known at the moment.
///
/// Any such function is one, and a number is one that is the same for every cost:
///
/// ```
/// use plimsoll_train::Limits;
///
/// let by_tokens = |cost: u32| 4096 / cost as usize;
/// assert_eq!((by_tokens.most(512), 16.most(512)), (8, 16));
/// ```
pub trait Limits: Send + Sync {
    /// Returns the most samples that fit when each is padded to `cost`, the product of its padded lengths where it has several
    /// axes; 0 when not even one does.
    fn most(&self, cost: u32) -> usize;
}

impl<F: Fn(u32) -> usize + Send + Sync> Limits for F {
    fn most(&self, cost: u32) -> usize {
        self(cost)
    }
}

impl Limits for usize {
    fn most(&self, _cost: u32) -> usize {
        *self
    }
}

impl<L: Limits + ?Sized> Limits for Arc<L> {
    fn most(&self, cost: u32) -> usize {
        (**self).most(cost)
    }
}
