//! Parts of a step that run side by side.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use plimsoll_probe::Share;
use plimsoll_types::{Attempt, Bytes, Prediction};

use crate::gradients::{WeightedAccumulator, weighted_backward};
use crate::graph::Nodes;
use crate::passes::{PredictShape, SharedMeanLoss};
use crate::replicas::Replicas;
use crate::request::{StepPart, StepRequest};
use crate::unread::Unread;

/// So many parts are looked at for each replica, when a group is gathered.
const PARTS_OF_REPLICA: usize = 16;

/// The parts of a step that run side by side, and what they have made until it is their turn.
///
/// Their gradients are added in the order of the parts, so that the sum is, to the last bit, that of parts that run one after
/// the other.
pub(super) struct Beside<'a, M> {
    replicas: &'a Replicas,
    mean_loss: SharedMeanLoss<'a, M>,
    /// For each replica, a model whose leaves are in no other thread's graph: the first as it is, the others with leaves of their
    /// own and the same numbers.
    models: Vec<M>,
    /// What a part holds until it is its turn, its gradients above all, where one has shown it.
    waiting: Option<Bytes>,
    /// Whether parts of unlike extents run apart: what their graphs take cannot be told apart.
    keeps_extents_apart: bool,
    /// Parts that are certain to fit at once, and what each needs.
    group: Vec<(StepPart, Need)>,
    made: VecDeque<Made>,
}

/// What a part needs beside what is in use before it.
#[derive(Clone, Copy)]
struct Need {
    expected: Bytes,
    most: Bytes,
}

/// What a part has made.
pub(super) struct Made {
    pub(super) part: StepPart,
    pub(super) gradients: GradientsParams,
    pub(super) unread: Unread,
    /// What its thread took for it.
    pub(super) need: Bytes,
    /// What it was certain not to pass.
    most: Bytes,
    pub(super) nodes: u64,
    /// What it holds.
    pub(super) waiting: Bytes,
    /// Bytes in use before all of the group.
    pub(super) resident: Bytes,
    /// What all of the group were to reach.
    pub(super) of_group: Prediction,
    /// Whether it is the last of the group.
    pub(super) is_last: bool,
}

/// Gives each parameter a leaf of its own in the graph.
///
/// So does `Module::fork`, by an operation on the leaf before, which stays in the graph for as long as that does: for good
/// where no step changes it (docs/upstream/burn-core-fork-2026-11-27.md).
struct OwnLeaves;

impl ModuleMapper for OwnLeaves {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(Tensor::detach)
    }
}

impl<'a, M: Module> Beside<'a, M> {
    pub(super) fn new(
        (replicas, mean_loss): (&'a Replicas, SharedMeanLoss<'a, M>),
        waiting: Option<Bytes>,
        keeps_extents_apart: bool,
    ) -> Self {
        let (models, group, made) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { replicas, mean_loss, models, waiting, keeps_extents_apart, group, made }
    }

    /// Whether a part has run already.
    pub(super) fn has_made(&self, samples: &Range<usize>) -> bool {
        self.made.front().is_some_and(|it| it.part.samples == *samples)
    }

    /// Takes what a part has made, where it has run already.
    pub(super) fn take(&mut self, samples: &Range<usize>) -> Option<Made> {
        if self.has_made(samples) { self.made.pop_front() } else { None }
    }

    /// Gathers a part and those after it that are certain to fit beside it, where so many bytes are in use.
    pub(super) fn gather(
        &mut self,
        samples: &Range<usize>,
        request: &StepRequest,
        predict: PredictShape<'_>,
        in_use: Bytes,
    ) {
        self.group.clear();
        self.made.clear();
        let from = request.micro_batches.iter().skip_while(|it| it.samples != *samples);
        let from = from.filter(|it| !it.samples.is_empty()).map(|it| request.part(&it.samples));
        for part in from.take(PARTS_OF_REPLICA * self.replicas.count()) {
            let is_alike = self.group.first().is_none_or(|it| it.0.extent == part.extent);
            let known = predict(part.shape(), in_use).filter(|_| is_alike || !self.keeps_extents_apart);
            let Some(Prediction { expected, upper }) = known else { break };
            let [expected, most] = [expected, upper].map(|it| it.saturating_sub(in_use));
            self.group.push((part, Need { expected, most }));
        }
        self.keep_what_fits(request.budget.budget.saturating_sub(in_use));
    }

    /// Leaves out the last parts, which together with those before them need more.
    fn keep_what_fits(&mut self, room: Bytes) {
        let needs: Vec<_> = self.group.iter().map(|it| it.1).collect();
        let (mut fits, mut beyond) = (0, needs.len() + 1);
        while fits + 1 < beyond {
            let middle = fits.midpoint(beyond);
            let order = largest_first(&needs[..middle]);
            if self.needed(&order, |at| needs[at].most) <= room { fits = middle } else { beyond = middle }
        }
        self.group.truncate(fits);
    }

    /// Returns what parts in this order need at once, each what `need` says, whichever of the replicas takes which: as many as there
    /// are replicas run, the first if all are at their most, and the others hold what they have made.
    fn needed(&self, order: &[usize], need: impl Fn(usize) -> Bytes) -> Bytes {
        let (running, others) = order.split_at(order.len().min(self.replicas.count()));
        let waiting = others.iter().map(|at| self.waiting.unwrap_or(need(*at)));
        running.iter().map(|at| need(*at)).chain(waiting).fold(Bytes::ZERO, Bytes::saturating_add)
    }

    /// Says which parts took more than they were certain to, of those that ran.
    pub(super) fn beyond(&self) -> impl Iterator<Item = Attempt> {
        self.made.iter().filter(|it| it.most < it.need).map(|it| {
            let peak = Some(it.resident.saturating_add(it.need));
            Attempt { peak, nodes: it.nodes, ..Attempt::new(it.part.shape(), it.resident) }
        })
    }

    /// Makes the models, where a group is to run and they are not there yet.
    pub(super) fn prepare(&mut self, model: &M) {
        let missing = self.models.len()..self.replicas.count().min(self.group.len());
        let own = |at| if at == 0 { model.clone() } else { model.clone().map(&mut OwnLeaves) };
        self.models.extend(missing.map(own));
    }

    /// Whether a part is the first of several that are certain to fit at once.
    pub(super) fn is_gathered(&self, samples: &Range<usize>) -> bool {
        1 < self.group.len() && self.group[0].0.samples == *samples
    }

    /// Runs the parts that were gathered, as many as fit with so many bytes in use: each replica takes the next as soon as it has
    /// done one, the largest first.
    pub(super) fn run(&mut self, request: &StepRequest, accumulator: &WeightedAccumulator<M>, resident: Bytes) {
        self.keep_what_fits(request.budget.budget.saturating_sub(resident));
        let (mean_loss, nodes) = (self.mean_loss, Nodes::count());
        let (group, needs): (Vec<_>, Vec<_>) = self.group.drain(..).unzip();
        let part = |it: &StepPart| (it.samples.clone(), accumulator.weight(request.n_units(it.samples.clone())));
        let parts: Vec<_> = group.iter().map(part).collect();
        let (order, n_taken) = (largest_first(&needs), AtomicUsize::new(0));
        let work = |model: M| {
            || {
                let run = |at: &usize| {
                    let ((samples, weight), share) = (parts[*at].clone(), Share::begin());
                    let loss = mean_loss(&model, samples);
                    let gradients = weighted_backward(&model, &loss.mean, weight);
                    let unread = Unread::of::<M>(Some(loss), None);
                    (*at, (gradients, unread, share.most(), share.held()))
                };
                let made: Vec<_> = iter::from_fn(|| order.get(n_taken.fetch_add(1, Relaxed))).map(run).collect();
                (model, made)
            }
        };
        let reaches = |need| resident.saturating_add(need);
        let of_group = Prediction {
            expected: reaches(self.needed(&order, |at| needs[at].expected)),
            upper: reaches(self.needed(&order, |at| needs[at].most)),
        };
        let n = group.len().min(self.models.len());
        let done = self.replicas.run(self.models.drain(..n).map(work).collect());
        let mut made = Vec::new();
        for (model, of_replica) in done {
            self.models.push(model);
            made.extend(of_replica);
        }
        made.sort_by_key(|(at, _)| *at);
        let nodes = nodes.made_by(&group.iter().map(|it| it.extent).collect::<Vec<_>>());
        for (((part, (at, (gradients, unread, need, waiting))), nodes), of_part) in
            group.into_iter().zip(made).zip(nodes).zip(&needs)
        {
            debug_assert!(needs[at].most == of_part.most, "each part has made something");
            let (most, is_last) = (of_part.most, false);
            self.made.push_back(Made {
                part,
                gradients,
                unread,
                need,
                most,
                nodes,
                waiting,
                resident,
                of_group,
                is_last,
            });
        }
        self.made.back_mut().into_iter().for_each(|it| it.is_last = true);
    }
}

/// Orders parts by what they need, which is taken for the time that they take: so that the last to run is a small one.
fn largest_first(needs: &[Need]) -> Vec<usize> {
    let mut order: Vec<_> = (0..needs.len()).collect();
    order.sort_by_key(|at| Reverse(needs[*at].most));
    order
}
