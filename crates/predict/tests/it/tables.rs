//! Tables that double: what a step takes besides its tensors, and no combination of features.

use plimsoll_predict::{Dtype, Key, PartReading, Peak, Phase, Platform, Predictor, PredictorConfig, SMALL_GRAPH};
use plimsoll_types::{Bytes, StepShape};
use proptest::prelude::*;

const PLATFORM: Platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
const KEY: Key = Key { phase: Phase::Train, checkpointing: false, platform: PLATFORM, regime: 0 };
const RESIDENT: Bytes = Bytes::mib(64);
const BESIDE: Bytes = Bytes::kib(64);

/// Nodes that an unrolled net has for each position.
const NODES: u64 = 164;

/// Nodes at which the tables double first, and bytes that they take for each node that they have room for.
const ROOM: (u64, u64) = (452, 183);

fn predictor() -> Predictor {
    Predictor::try_new(PredictorConfig { beside: BESIDE, ..PredictorConfig::default() }).expect("in range")
}

fn nodes(shape: StepShape) -> u64 {
    NODES * u64::from(shape.edge())
}

/// What a step takes: tensors, and tables with room for one or two times its nodes.
fn need(shape: StepShape) -> Bytes {
    let room = (0..32).map(|times| ROOM.0 << times).find(|room| nodes(shape) < *room).unwrap_or(u64::MAX);
    let tensors = 500_000 + 70_000 * u64::from(shape.edge()) + 6_000 * u64::from(shape.samples * shape.edge());
    Bytes(tensors + ROOM.1 * room)
}

/// What is read of a shape where nodes are counted, and where they are not.
fn reading(shape: StepShape, need: Bytes, counts: bool) -> PartReading {
    let nodes = if counts && SMALL_GRAPH < nodes(shape) { nodes(shape) } else { 0 };
    PartReading {
        shape,
        before: RESIDENT,
        peak: Peak::Exact(RESIDENT.saturating_add(need)),
        nodes,
        packed: Bytes::ZERO,
    }
}

/// Returns how many bounds a reading exceeds.
fn observe(predictor: &mut Predictor, part: PartReading) -> usize {
    predictor.observe_step(&[(KEY, part)], Bytes::ZERO).expect("a shape of one axis").len()
}

fn upper(predictor: &Predictor, shape: StepShape) -> Bytes {
    predictor.predict(KEY, shape, Bytes::ZERO).expect("there is a reading").upper
}

/// Returns a predictor that was told of some edges, and how many of its bounds were exceeded on the way.
fn taught(edges: &[u32], counts: bool) -> (Predictor, usize) {
    let mut predictor = predictor();
    let n = edges.iter().flat_map(|edge| [1, 4].map(|samples| StepShape::new(samples, *edge)));
    let n = n.map(|it| observe(&mut predictor, reading(it, need(it), counts)));
    let n = n.sum();
    (predictor, n)
}

/// Returns how many shapes need more than their bound says.
fn exceeded(predictor: &Predictor) -> usize {
    let shapes = (1..=1024).flat_map(|edge| [1, 3, 4, 6].map(|samples| StepShape::new(samples, edge)));
    shapes.filter(|it| upper(predictor, *it) < need(*it)).count()
}

#[test]
fn what_was_read_of_short_edges_bounds_longer_ones_across_every_doubling() {
    for edges in [&[40, 44][..], &[16, 32, 64, 88], &[150, 170, 176]] {
        assert!(
            0 < exceeded(&taught(edges, false).0),
            "{edges:?} bound longer edges without nodes, so nothing is tested"
        );
        let (predictor, _) = taught(edges, true);
        assert_eq!(exceeded(&predictor), 0, "{edges:?}");
    }
}

#[test]
fn a_shape_that_was_read_needs_no_tables_on_top() {
    let (predictor, _) = taught(&[16, 32, 64, 88, 120], true);
    for edge in [16, 32, 64, 88, 120] {
        let shape = StepShape::new(4, edge);
        let most = Bytes::from_f64_ceil(need(shape).as_f64() * 1.01).saturating_add(BESIDE);
        let said = upper(&predictor, shape);
        assert!(need(shape) <= said && said <= most.saturating_add(Bytes(1)), "{shape}: {said}, not {most}");
        // Nor does one that it covers.
        assert!(upper(&predictor, StepShape::new(3, edge - 1)) <= said, "{shape}");
    }
    let unseen = StepShape::new(4, 121);
    assert!(need(unseen) <= upper(&predictor, unseen));
}

#[test]
fn no_reading_of_a_program_whose_tables_double_is_above_its_bound() {
    // Each doubling is passed in small steps and in large ones, up and down.
    let up: Vec<u32> = (16..400).step_by(7).collect();
    let down: Vec<u32> = up.iter().rev().copied().collect();
    let jumps: Vec<u32> = (0..60).map(|it| 16 + it * 131 % 400).collect();
    for edges in [up, down, jumps] {
        let twice: Vec<u32> = edges.iter().chain(&edges).copied().collect();
        let (predictor, n) = taught(&twice, true);
        assert_eq!((n, predictor.n_violations(), exceeded(&predictor)), (0, 0, 0), "{edges:?}");
    }
}

#[test]
fn tables_are_told_from_tensors() {
    // Two sizes of tables, and edges between which nothing doubles.
    let (predictor, _) = taught(&[20, 21, 40, 42, 80, 84], true);
    for edge in [24, 30, 36, 46, 60, 72] {
        for samples in [2, 4] {
            let shape = StepShape::new(samples, edge);
            let it = predictor.predict(KEY, shape, Bytes::ZERO).unwrap();
            let [expected, upper] = [it.expected, it.upper].map(|it| it.as_f64() / need(shape).as_f64());
            assert!((0.99..1.01).contains(&expected), "{shape}: {expected} of what it needs are expected");
            assert!((1.0..1.2).contains(&upper), "{shape}: {upper} of what it needs are said to be enough");
        }
    }
}

#[test]
fn a_longer_edge_never_has_a_smaller_bound() {
    let (predictor, _) = taught(&[16, 88, 90, 120], true);
    for samples in [1, 4, 9] {
        let bounds: Vec<_> = (1..=512).map(|edge| upper(&predictor, StepShape::new(samples, edge))).collect();
        assert!(bounds.is_sorted(), "{bounds:?}");
    }
}

#[test]
fn a_shape_that_takes_more_than_it_showed_is_above_its_bound_once() {
    let (mut predictor, _) = taught(&[16, 32, 64, 88], true);
    let shape = StepShape::new(4, 88);
    let more = need(shape).saturating_add(Bytes(ROOM.1 * nodes(shape)));
    let mut read = |need| observe(&mut predictor, reading(shape, need, true));
    let n: Vec<_> = (0..100).map(|_| read(more)).collect();
    assert_eq!((n[0], n[1..].iter().sum::<usize>()), (1, 0));
    let most = more.as_f64() * 1.01 + BESIDE.as_f64();
    let ratio = upper(&predictor, shape).as_f64() / most;
    assert!((0.999_999..1.000_001).contains(&ratio), "what lasts is learnt, and nothing besides: {ratio}");
}

#[test]
fn a_restored_predictor_knows_how_large_graphs_were() {
    let (saved, _) = taught(&[16, 32, 64], true);
    let restored: Predictor = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();
    assert_eq!(restored, saved);
    let plain = serde_json::to_string(&taught(&[16, 32, 64], false).0).unwrap();
    assert!(!plain.contains("nodes"), "a program of small graphs is written as ever");
}

#[test]
fn the_first_large_graph_after_many_small_ones_is_kept_with_room_for_its_tables() {
    let mut predictor = predictor();
    // Of 80 shapes without a large graph 64 are kept.
    for at in 0..80 {
        let shape = StepShape::new(1 + at % 8, 1 + at / 8);
        observe(&mut predictor, reading(shape, need(shape), false));
    }
    let large = StepShape::new(2, 64);
    observe(&mut predictor, reading(large, need(large), true));
    let n_again: usize = (0..8).map(|_| observe(&mut predictor, reading(large, need(large), true))).sum();
    assert_eq!(n_again, 0, "what was read once is known");
    let longer: Vec<_> = [90, 128, 200].map(|edge| StepShape::new(2, edge)).to_vec();
    assert!(longer.iter().all(|it| need(*it) <= upper(&predictor, *it)), "its tables bound those of longer edges");
    let restored: Predictor = serde_json::from_str(&serde_json::to_string(&predictor).unwrap()).unwrap();
    assert_eq!(restored, predictor);
}

#[test]
fn a_shape_whose_graph_differs_from_step_to_step_counts_with_its_smallest_and_its_largest() {
    let (mut predictor, shape, longer) = (predictor(), StepShape::new(4, 64), StepShape::new(4, 65));
    observe(&mut predictor, reading(shape, need(shape), true));
    let before = upper(&predictor, longer);
    observe(&mut predictor, reading(shape, need(shape), true).with_nodes(4 * nodes(shape)));
    assert!(before < upper(&predictor, longer), "a longer edge may have as large a graph");
    let after = upper(&predictor, longer);
    observe(&mut predictor, reading(shape, need(shape), true));
    assert_eq!(upper(&predictor, longer), after, "and what was counted once stays");
}

/// Readings that need not belong to any program, with any number of nodes.
fn any_readings() -> impl Strategy<Value = Vec<PartReading>> {
    let nodes = prop_oneof![Just(0), SMALL_GRAPH + 1..1u64 << 30];
    let need = (1 << 20..1u64 << 36).prop_map(Bytes);
    let shape = (1..=64u32, 1..=256u32).prop_map(|(samples, edge)| StepShape::new(samples, edge));
    let part = (shape, need, nodes).prop_map(|(shape, need, nodes)| reading(shape, need, false).with_nodes(nodes));
    prop::collection::vec(part, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_reading_is_ever_above_its_upper_bound_however_large_graphs_are(readings in any_readings()) {
        let mut predictor = predictor();
        for at in 0..readings.len() {
            observe(&mut predictor, readings[at]);
            for it in &readings[..=at] {
                prop_assert!(it.peak.bytes() <= RESIDENT.saturating_add(upper(&predictor, it.shape)), "{it:?}");
            }
        }
    }

    #[test]
    fn a_larger_shape_never_has_a_smaller_prediction_however_large_graphs_are(
        readings in any_readings(), asked in (1..=64u32, 1..=256u32), more in (0..64u32, 0..64u32),
    ) {
        let mut predictor = predictor();
        for it in readings {
            observe(&mut predictor, it);
        }
        let shapes = [asked, (asked.0 + more.0, asked.1 + more.1)].map(|(samples, edge)| StepShape::new(samples, edge));
        let [small, large] = shapes.map(|it| predictor.predict(KEY, it, RESIDENT).expect("there is a reading"));
        prop_assert!(small.expected <= small.upper && large.expected <= large.upper);
        prop_assert!(small.upper.as_f64() <= large.upper.as_f64() * (1.0 + 1e-8));
        prop_assert!(small.expected.as_f64() <= large.expected.as_f64() * (1.0 + 1e-8));
    }
}
