//! Straight-line programs: tensors whose sizes grow with the shape, in an order that does not.

use plimsoll_predict::ReservedObservation;
use plimsoll_types::{Bytes, StepShape};

use super::arena::Arena;
use super::rng::Rng;

/// Bytes of one tensor: constant, per sample, per position, and per pair of positions of one sample.
type Theta = [f64; 4];

enum Action {
    Allocate(usize, Theta),
    Free(usize),
}

pub(crate) struct Program {
    actions: Vec<Action>,
    n_tensors: usize,
    pub(crate) resident: u64,
}

/// The longest sequence that the programs are made for, and the longest edge of tests.
pub(crate) const MAX_EDGE: u32 = 1024;

impl Program {
    /// A training step of random layers: kept activations, workspaces, a head, and a backward pass in reverse.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let resident = rng.log_uniform(1e6, 3e8);
        let mut it = Self { actions: Vec::new(), n_tensors: 0, resident: Bytes::from_f64_ceil(resident).0 };
        let kind: Vec<Theta> = (0..rng.whole(2, 5)).map(|_| activation(rng)).collect();
        let workspaces: Vec<Theta> = (0..rng.whole(0, 2)).map(|_| activation(rng)).collect();
        let n_layers = rng.whole(2, 10);
        let layers: Vec<Vec<usize>> = (0..n_layers).map(|_| it.layer(&kind, &workspaces)).collect();
        let mut gradient = it.allocate([0.0, 0.0, rng.log_uniform(1e2, 1e5), 0.0]);
        let weights = [resident / 4.0 / f64::from(n_layers), 0.0, 0.0, 0.0];
        let mut gradients = Vec::new();
        for layer in layers.into_iter().rev() {
            let next = it.allocate(kind[0]);
            it.transient(&workspaces);
            gradients.push(it.allocate(weights));
            it.free_all([gradient]);
            it.free_all(layer.into_iter().rev());
            gradient = next;
        }
        it.free_all([gradient]);
        it.transient(&[weights; 2]);
        it.free_all(gradients);
        it
    }

    /// Runs a step in an empty allocator and reads what it tells.
    pub(crate) fn run(&self, shape: StepShape) -> ReservedObservation {
        let mut arena = Arena::default();
        for action in &self.actions {
            match action {
                Action::Allocate(id, theta) => arena.allocate(*id, size(theta, shape)),
                Action::Free(id) => arena.free(*id),
            }
        }
        // Weights lie in buckets of exactly their size, beside the pools.
        let with_resident = |bytes: u64| Bytes(self.resident + bytes);
        ReservedObservation {
            shape,
            reserved: with_resident(arena.peak_reserved),
            resident: Bytes(self.resident),
            in_use: Some(with_resident(arena.peak_in_use)),
            page: arena.page(),
            largest: Bytes(arena.largest),
        }
    }

    fn layer(&mut self, kind: &[Theta], workspaces: &[Theta]) -> Vec<usize> {
        let kept = kind.iter().map(|theta| self.allocate(*theta)).collect();
        self.transient(workspaces);
        kept
    }

    fn transient(&mut self, thetas: &[Theta]) {
        let tensors: Vec<usize> = thetas.iter().map(|theta| self.allocate(*theta)).collect();
        self.free_all(tensors);
    }

    fn allocate(&mut self, theta: Theta) -> usize {
        self.n_tensors += 1;
        self.actions.push(Action::Allocate(self.n_tensors, theta));
        self.n_tensors
    }

    fn free_all(&mut self, tensors: impl IntoIterator<Item = usize>) {
        self.actions.extend(tensors.into_iter().map(Action::Free));
    }
}

/// One of the shapes that tensors have: a vector for each sample, one for each position, or one for each pair of them.
fn activation(rng: &mut Rng) -> Theta {
    match rng.whole(0, 3) {
        0 => [0.0, rng.log_uniform(1e3, 1e6), 0.0, 0.0],
        1 | 2 => [0.0, 0.0, rng.log_uniform(5e2, 2e4), 0.0],
        _ => [0.0, 0.0, 0.0, rng.log_uniform(1.0, 60.0)],
    }
}

fn size(theta: &Theta, shape: StepShape) -> u64 {
    let (n, e) = (f64::from(shape.samples), f64::from(shape.edge()));
    Bytes::from_f64_ceil(theta.iter().zip([1.0, n, n * e, n * e * e]).map(|(a, b)| a * b).sum()).0
}
