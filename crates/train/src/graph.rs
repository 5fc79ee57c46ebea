//! How large the graph of a part is.

use burn_autodiff::NodeId;
use plimsoll_types::Bytes;

/// What the tables of a graph may take more for each of its nodes, in bytes.
///
/// Burn's `AutodiffServer` and its memory management keep a step in hash tables by node, and visit it with more of them
/// (burn-autodiff 0.22.1). They all double at about the same number of nodes: an unrolled LSTM on Flex took 2.66 MB more
/// at once between 28 930 and 30 898 nodes, 86 to 92 bytes for each, and 136 with gradient checkpointing, which keeps what
/// to compute again by node too. 160 leaves room for keys and steps that are larger.
const TABLES_PER_NODE: u64 = 160;

/// A graph of so many nodes has room in what every bound holds beside tensors, see [`beside_tensors`](crate::beside_tensors).
const SMALL_GRAPH: u64 = 512;

/// The nodes that all threads have made until now.
///
/// What other threads make meanwhile counts too, which can only be too much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes(u64);

impl Nodes {
    /// Counts them.
    pub(crate) fn count() -> Self {
        Self(NodeId::new().value)
    }

    /// Returns what the tables of a graph of the nodes that were made since may take more, beyond what every bound holds for
    /// those of a small graph.
    pub(crate) fn tables(self) -> Bytes {
        tables(NodeId::new().value.saturating_sub(self.0).saturating_sub(1))
    }
}

fn tables(n_nodes: u64) -> Bytes {
    Bytes(TABLES_PER_NODE).saturating_mul(n_nodes.saturating_sub(SMALL_GRAPH))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[test]
    fn small_graphs_have_room_beside_every_bound_and_larger_ones_take_more_with_each_node() {
        assert_eq!([0, 92, 462, 512].map(tables), [Bytes::ZERO; 4]);
        assert_eq!([513, 1024, 30_898].map(tables), [Bytes(160), Bytes::kib(80), Bytes(30_386 * 160)]);
        assert_eq!(tables(u64::MAX), Bytes::MAX);
    }

    #[test]
    fn a_net_that_is_unrolled_makes_as_many_nodes_as_it_has_positions() {
        let made = |n_positions: usize| {
            let x = Tensor::<1>::ones([2], &Device::flex().autodiff()).require_grad();
            let nodes = Nodes::count();
            let _ = (0..n_positions).fold(x, |x, _| x.sin()).sum().backward();
            nodes.tables()
        };
        let (short, long) = (made(1000), made(4000));
        // Tests beside this one make nodes too.
        assert!(Bytes(3000 * TABLES_PER_NODE) <= long && Bytes(488 * TABLES_PER_NODE) <= short, "{short} and {long}");
    }
}
