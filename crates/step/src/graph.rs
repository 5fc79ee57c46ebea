//! How large the graph of a part is.

use burn::backend::autodiff::NodeId;
use plimsoll_predict::SMALL_GRAPH;
use plimsoll_types::{Extent, MAX_AXES};

/// The nodes that all threads have made until now.
///
/// What other threads make meanwhile counts too, and a count that is too high makes bounds too low: nothing else may make
/// nodes while a part runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes(u64);

impl Nodes {
    /// Counts them.
    pub(crate) fn count() -> Self {
        Self(NodeId::new().value)
    }

    /// Returns how many were made since, or zero where they are few enough to have room in what every bound holds beside
    /// tensors: see [`SMALL_GRAPH`].
    pub(crate) fn made(self) -> u64 {
        large(self.all())
    }

    /// Returns, for each of several parts of these extents that were made since, side by side by one program, no more than its
    /// own: some nodes are the same for each, and others grow with one of its edges.
    pub(crate) fn made_by(self, extents: &[Extent]) -> Vec<u64> {
        shared(self.all(), extents).into_iter().map(large).collect()
    }

    fn all(self) -> u64 {
        NodeId::new().value.saturating_sub(self.0).saturating_sub(1)
    }
}

/// Divides nodes among parts: to each the least that any axis, or their number, gives it.
fn shared(all: u64, extents: &[Extent]) -> Vec<u64> {
    let sums = extents.iter().fold([0u64; MAX_AXES], |mut sums, it| {
        sums.iter_mut().zip(it.edges()).for_each(|(sum, edge)| *sum += u64::from(*edge));
        sums
    });
    let share = |it: &Extent| {
        let along = it.edges().iter().zip(sums).map(|(edge, sum)| all * u64::from(*edge) / sum.max(1));
        along.fold(all / extents.len().max(1) as u64, u64::min)
    };
    extents.iter().map(share).collect()
}

fn large(n_nodes: u64) -> u64 {
    if n_nodes <= SMALL_GRAPH { 0 } else { n_nodes }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[test]
    fn no_part_gets_more_nodes_than_its_shortest_axis_says() {
        let extents = [[4, 8], [4, 64]].map(|edges| Extent::try_new(&edges).unwrap());
        assert_eq!(shared(7200, &extents), [800, 3600]);
        assert_eq!(shared(7200, &[Extent::new(8), Extent::new(64)]), [800, 3600]);
    }

    #[test]
    fn small_graphs_have_room_beside_every_bound() {
        assert_eq!([0, 92, 462, 512, 513, 30_898].map(large), [0, 0, 0, 0, 513, 30_898]);
    }

    #[test]
    fn a_net_that_is_unrolled_makes_as_many_nodes_as_it_has_positions() {
        let made = |n_positions: usize| {
            let x = Tensor::<1>::ones([2], &Device::flex().autodiff()).require_grad();
            let nodes = Nodes::count();
            let _ = (0..n_positions).fold(x, |x, _| x.sin()).sum().backward();
            nodes.made()
        };
        // Tests beside this one make nodes too, though not all the time.
        for n_positions in [1000, 4000] {
            let least = (0..5).map(|_| made(n_positions)).min().unwrap_or_default();
            let most = n_positions as u64 + n_positions as u64 / 10;
            assert!((n_positions as u64..most).contains(&least), "{least} of {n_positions}");
        }
    }
}
