//! Properties of the bound, against programs whose true peaks are known.

use plimsoll_predict::{Certificate, PredictError, ShapeNeed};
use plimsoll_types::{Bytes, Extent, Features, StepShape};
use proptest::prelude::*;

/// Bytes live at each instant of a step, per feature.
type Program = Vec<Vec<f64>>;

/// A program over one axis or several, shapes that were seen of it and shapes that are asked for.
#[derive(Clone, Debug)]
struct Case {
    features: Features,
    program: Program,
    seen: Vec<StepShape>,
    asked: Vec<StepShape>,
}

impl Case {
    fn need(&self, shape: StepShape) -> Bytes {
        need(&self.features, &self.program, shape)
    }

    fn certified(&self) -> Certificate {
        certified(&self.features, &self.program, &self.seen)
    }
}

/// One byte for rounding up, and the relative error that the bound adds.
fn nearly(a: Bytes, b: Bytes) -> bool {
    (a.as_f64() - b.as_f64()).abs() <= 1.0 + 1e-8 * b.as_f64()
}

fn need(features: &Features, program: &Program, shape: StepShape) -> Bytes {
    let values = features.of(shape);
    let at = |theta: &Vec<f64>| theta.iter().zip(values).map(|(a, b)| a * b).sum::<f64>();
    Bytes::from_f64_ceil(program.iter().map(at).fold(1.0, f64::max))
}

fn certified(features: &Features, program: &Program, shapes: &[StepShape]) -> Certificate {
    let needs = shapes.iter().map(|it| ShapeNeed { shape: *it, need: need(features, program, *it) });
    Certificate::try_new(*features, needs).expect("shapes hold something")
}

fn bound(certificate: &Certificate, shape: StepShape) -> Bytes {
    certificate.bound(shape).expect("there is an observation")
}

fn over(samples: u32, edges: &[u32]) -> StepShape {
    StepShape::of(samples, Extent::try_new(edges).expect("axes with edges"))
}

/// Volumes are short, so that no size is beyond what 64 bits hold: a reading that saturates is too low.
fn any_shape(n_axes: usize) -> impl Strategy<Value = StepShape> {
    let longest: u32 = [1024, 256, 128][n_axes - 1];
    (1..=256u32, prop::collection::vec(1..=longest, n_axes)).prop_map(|(samples, edges)| over(samples, &edges))
}

fn any_shapes(n_axes: usize, most: usize) -> impl Strategy<Value = Vec<StepShape>> {
    prop::collection::vec(any_shape(n_axes), 1..=most)
}

/// Up to seven instants, with sizes over nine decades and many features that play no part.
fn any_program(n_features: usize) -> impl Strategy<Value = Program> {
    let coefficient = prop_oneof![Just(0.0), (0.0..9.0f64).prop_map(|power| 10f64.powf(power))];
    prop::collection::vec(prop::collection::vec(coefficient, n_features), 1..8)
}

/// The complete features over one to three axes.
fn any_case(most_seen: usize, most_asked: usize) -> impl Strategy<Value = Case> {
    (1..=3usize).prop_flat_map(move |n_axes| {
        let features = Features::complete(n_axes);
        (any_program(features.len()), any_shapes(n_axes, most_seen), any_shapes(n_axes, most_asked))
            .prop_map(move |(program, seen, asked)| Case { features, program, seen, asked })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_bound_is_never_below_the_true_peak(case in any_case(30, 20)) {
        let certificate = case.certified();
        for shape in &case.asked {
            let (bound, actual) = (bound(&certificate, *shape), case.need(*shape));
            prop_assert!(bound >= actual, "{shape}: {} < {}", bound.0, actual.0);
        }
    }

    #[test]
    fn an_observed_shape_is_bounded_by_its_own_need(case in any_case(30, 1)) {
        let certificate = case.certified();
        for it in certificate.needs() {
            prop_assert!(nearly(bound(&certificate, it.shape), it.need), "{}", it.shape);
        }
    }

    #[test]
    fn one_observation_has_a_closed_form(case in any_case(1, 1), bytes in 1..1u64 << 40) {
        let (Case { features, seen, asked, .. }, need) = (case, Bytes(bytes));
        let certificate = Certificate::try_new(features, [ShapeNeed { shape: seen[0], need }]).unwrap();
        let (ours, theirs) = (features.of(asked[0]), features.of(seen[0]));
        let ratio = (0..features.len()).map(|at| ours[at] / theirs[at]).fold(0.0, f64::max);
        let expected = Bytes::from_f64_ceil(bytes as f64 * ratio);
        prop_assert!(nearly(bound(&certificate, asked[0]), expected));
    }

    #[test]
    fn a_larger_shape_never_has_a_smaller_bound(
        case in any_case(20, 1), more in (0..64u32, prop::collection::vec(0..64u32, 3)),
    ) {
        let (certificate, asked) = (case.certified(), case.asked[0]);
        let edges: Vec<_> = asked.edges().iter().zip(more.1).map(|(edge, more)| edge + more).collect();
        let (small, large) = (bound(&certificate, asked), bound(&certificate, over(asked.samples + more.0, &edges)));
        prop_assert!(small <= large || nearly(small, large));
    }

    #[test]
    fn another_observation_never_raises_the_bound(case in any_case(20, 10)) {
        let before = case.certified();
        let mut after = before.clone();
        after.observe(ShapeNeed { shape: case.asked[0], need: case.need(case.asked[0]) }).unwrap();
        for shape in &case.asked {
            let (before, after) = (bound(&before, *shape), bound(&after, *shape));
            prop_assert!(after <= before || nearly(after, before), "{shape}: {} > {}", after.0, before.0);
        }
    }

    #[test]
    fn the_order_of_observations_does_not_matter(
        (case, shuffled) in any_case(20, 1).prop_flat_map(|it| (Just(it.clone()), Just(it.seen).prop_shuffle())),
        needs in prop::collection::vec(1..1u64 << 40, 20),
    ) {
        let need = |it: &StepShape| Bytes(needs[case.seen.iter().position(|other| other == it).unwrap()]);
        let certify = |shapes: &[StepShape]| {
            let needs = shapes.iter().map(|it| ShapeNeed { shape: *it, need: need(it) });
            Certificate::try_new(case.features, needs).unwrap()
        };
        prop_assert!(nearly(bound(&certify(&case.seen), case.asked[0]), bound(&certify(&shuffled), case.asked[0])));
    }

    #[test]
    fn needs_in_another_unit_give_the_bound_in_that_unit(case in any_case(20, 1)) {
        let (certificate, asked) = (case.certified(), case.asked[0]);
        let eightfold = |it: &ShapeNeed| ShapeNeed { need: it.need.saturating_mul(8), ..*it };
        let in_bits = Certificate::try_new(case.features, certificate.needs().iter().map(eightfold)).unwrap();
        let (bits, bytes) = (bound(&in_bits, asked).as_f64(), bound(&certificate, asked).as_f64());
        // A size ends where 64 bits do.
        let expected = (8.0 * bytes).min(Bytes::MAX.as_f64());
        prop_assert!((bits - expected).abs() <= 8.0 + 1e-8 * bits, "{bits} bits are not {bytes} bytes");
    }

    #[test]
    fn with_the_complete_features_a_batch_k_fold_has_at_most_k_times_the_bound(case in any_case(20, 1), k in 1..32u32) {
        let (certificate, asked) = (case.certified(), case.asked[0]);
        let once = bound(&certificate, asked);
        let batch = bound(&certificate, asked.with_samples(k * asked.samples));
        let edges: Vec<_> = asked.edges().iter().map(|edge| k * edge).collect();
        let edge = bound(&certificate, over(asked.samples, &edges));
        let degree = if edges.len() == 3 { 3 } else { 2 };
        let (linear, most) = (once.saturating_mul(k.into()), once.saturating_mul(u64::from(k).pow(degree)));
        prop_assert!(batch <= linear || nearly(batch, linear));
        prop_assert!(edge <= most || nearly(edge, most));
    }

    #[test]
    fn fewer_features_that_are_complete_for_the_program_give_no_looser_bound(case in any_case(20, 10)) {
        let all: Vec<Vec<u8>> = case.features.into();
        let of_planes: Vec<&[u8]> = all.iter().enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, it)| &it[..]).collect();
        let fewer = Features::try_new(&of_planes).unwrap();
        let program: Program = case.program.iter().map(|theta| theta[..fewer.len()].to_vec()).collect();
        let needs = || case.seen.iter().map(|it| ShapeNeed { shape: *it, need: need(&fewer, &program, *it) });
        let [few, all] = [fewer, case.features].map(|it| Certificate::try_new(it, needs()).unwrap());
        for shape in case.asked {
            let (few, all) = (bound(&few, shape), bound(&all, shape));
            prop_assert!((few <= all || nearly(few, all)) && few >= need(&fewer, &program, shape), "{shape}");
        }
    }

    #[test]
    fn nothing_panics_at_the_ends_of_the_range(
        n_axes in 1..=3usize, seen in prop::collection::vec((prop::sample::select(vec![1, 2, u32::MAX]),
            prop::collection::vec(prop::sample::select(vec![1, 3, u32::MAX]), 3), prop::sample::select(vec![1, 1 << 40, u64::MAX])), 1..9),
        asked in (any::<u32>(), prop::collection::vec(1..=u32::MAX, 3)),
    ) {
        let needs = seen.iter().map(|(samples, edges, need)| ShapeNeed { shape: over(*samples, &edges[..n_axes]), need: Bytes(*need) });
        let certificate = Certificate::try_new(Features::complete(n_axes), needs).unwrap();
        prop_assert!(certificate.bound(over(asked.0, &asked.1[..n_axes])) > Some(Bytes::ZERO));
    }
}

#[test]
fn named_features_let_the_bound_grow_with_their_exponents() {
    let features = Features::try_new(&[&[0, 0, 0], &[2, 1, 0], &[1, 3, 1]]).unwrap();
    let seen = ShapeNeed { shape: over(3, &[5, 7]), need: Bytes::mib(1) };
    let certificate = Certificate::try_new(features, [seen]).unwrap();
    let grown = |times: u32| Bytes::mib(1).saturating_mul(times.into());
    assert!(nearly(bound(&certificate, over(6, &[5, 7])), grown(2_u32.pow(2))));
    assert!(nearly(bound(&certificate, over(3, &[10, 14])), grown(2_u32.pow(4))));
}

#[test]
fn a_higher_reading_of_a_known_shape_raises_the_bound_and_a_lower_one_does_nothing() {
    let shape = StepShape::new(2, 32);
    let mut certificate = Certificate::default();
    for (read, kept) in [(100, 100), (90, 100), (120, 120)] {
        certificate.observe(ShapeNeed { shape, need: Bytes::mib(read) }).unwrap();
        assert!(nearly(bound(&certificate, shape), Bytes::mib(kept)));
        assert_eq!(certificate.needs().len(), 1);
    }
}

#[test]
fn the_lower_bound_is_the_largest_need_that_is_covered() {
    let needs = [(1, 16, 10), (4, 16, 30), (1, 128, 50)];
    let needs =
        needs.map(|(samples, edge, need)| ShapeNeed { shape: StepShape::new(samples, edge), need: Bytes::mib(need) });
    let certificate = Certificate::try_new(Features::default(), needs).unwrap();
    assert_eq!(certificate.lower(StepShape::new(8, 32)), Bytes::mib(30));
    assert_eq!(certificate.lower(StepShape::new(4, 128)), Bytes::mib(50));
    assert_eq!(certificate.lower(StepShape::new(1, 8)), Bytes::ZERO);
}

#[test]
fn what_holds_nothing_is_refused_and_not_kept() {
    let mut certificate = Certificate::default();
    for (samples, edge, need) in [(0, 8, 1), (8, 0, 1), (8, 8, 0)] {
        assert!(certificate.observe(ShapeNeed { shape: StepShape::new(samples, edge), need: Bytes(need) }).is_err());
    }
    assert_eq!(certificate.bound(StepShape::new(1, 1)), None);
}

#[test]
fn with_too_many_shapes_the_least_informative_goes_and_the_bound_still_holds() {
    let program = vec![vec![1e6, 0.0, 0.0, 0.0, 0.0, 40.0], vec![0.0, 0.0, 0.0, 3e4, 100.0, 0.0]];
    let shapes: Vec<_> = (1..=9).flat_map(|n| (1..=8).map(move |e| StepShape::new(n * n, 16 * e))).collect();
    let certificate = certified(&Features::default(), &program, &shapes);
    assert_eq!((shapes.len(), certificate.needs().len()), (72, 64));
    for shape in shapes {
        let (bound, actual) = (bound(&certificate, shape), need(&Features::default(), &program, shape));
        assert!(bound >= actual && bound.as_f64() <= 1.02 * actual.as_f64(), "{shape}: {bound} for {actual}");
    }
}

/// The attention bias of a decoder: a map of `heads · e²` for any batch, beside what each position of a sample takes.
#[test]
fn a_tensor_that_grows_with_the_edge_alone_is_bounded() {
    let need = |shape: StepShape| {
        let (n, e) = (u64::from(shape.samples), u64::from(shape.edge()));
        Bytes((1 << 20) + 4 * 8 * e * e + 1024 * n * e)
    };
    let (seen, asked) = (StepShape::new(32, 64), StepShape::new(1, 1024));
    let certificate = Certificate::try_new(Features::default(), [ShapeNeed { shape: seen, need: need(seen) }]).unwrap();
    assert!(bound(&certificate, asked) >= need(asked), "{} < {}", bound(&certificate, asked), need(asked));
}

#[test]
fn a_shape_over_other_axes_than_the_features_has_no_bound_and_teaches_nothing() {
    let (one, two) = (StepShape::new(2, 8), over(2, &[8, 4]));
    let mut certificate = Certificate::new(Features::complete(2));
    let refused = PredictError::OtherAxes { shape: one, n_axes: 2 };
    assert_eq!(certificate.observe(ShapeNeed { shape: one, need: Bytes::mib(1) }), Err(refused));
    certificate.observe(ShapeNeed { shape: two, need: Bytes::mib(1) }).unwrap();
    assert_eq!((certificate.bound(one), certificate.needs().len()), (None, 1));
}
