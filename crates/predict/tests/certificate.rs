//! Properties of the bound, against programs whose true peaks are known.

use plimsoll_predict::{Certificate, ShapeNeed};
use plimsoll_types::{Bytes, N_FEATURES, StepShape};
use proptest::prelude::*;

/// Bytes live at each instant of a step, per feature.
type Program = Vec<[f64; N_FEATURES]>;

/// One byte for rounding up, and the relative error that the bound adds.
fn nearly(a: Bytes, b: Bytes) -> bool {
    (a.as_f64() - b.as_f64()).abs() <= 1.0 + 1e-8 * b.as_f64()
}

fn need(program: &Program, shape: StepShape) -> Bytes {
    let at = |theta: &[f64; N_FEATURES]| theta.iter().zip(shape.features()).map(|(a, b)| a * b).sum::<f64>();
    Bytes::from_f64_ceil(program.iter().map(at).fold(1.0, f64::max))
}

fn certified(program: &Program, shapes: &[StepShape]) -> Certificate {
    shapes
        .iter()
        .map(|it| ShapeNeed { shape: *it, need: need(program, *it) })
        .collect::<Vec<_>>()
        .try_into()
        .expect("shapes hold something")
}

fn bound(certificate: &Certificate, shape: StepShape) -> Bytes {
    certificate.bound(shape).expect("there is an observation")
}

fn any_shape() -> impl Strategy<Value = StepShape> {
    (1..=256u32, 1..=1024u32).prop_map(|(samples, edge)| StepShape::new(samples, edge))
}

fn any_shapes(most: usize) -> impl Strategy<Value = Vec<StepShape>> {
    prop::collection::vec(any_shape(), 1..=most)
}

/// Up to seven instants, with sizes over nine decades and many features that play no part.
fn any_program() -> impl Strategy<Value = Program> {
    let coefficient = prop_oneof![Just(0.0), (0.0..9.0f64).prop_map(|power| 10f64.powf(power))];
    prop::collection::vec(prop::array::uniform4(coefficient), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_bound_is_never_below_the_true_peak(program in any_program(), seen in any_shapes(30), asked in any_shapes(20)) {
        let certificate = certified(&program, &seen);
        for shape in asked {
            let (bound, actual) = (bound(&certificate, shape), need(&program, shape));
            prop_assert!(bound >= actual, "{shape}: {} < {}", bound.0, actual.0);
        }
    }

    #[test]
    fn an_observed_shape_is_bounded_by_its_own_need(program in any_program(), seen in any_shapes(30)) {
        let certificate = certified(&program, &seen);
        for it in certificate.needs() {
            prop_assert!(nearly(bound(&certificate, it.shape), it.need), "{}", it.shape);
        }
    }

    #[test]
    fn one_observation_has_a_closed_form(seen in any_shape(), bytes in 1..1u64 << 40, asked in any_shape()) {
        let certificate = Certificate::try_from(vec![ShapeNeed { shape: seen, need: Bytes(bytes) }]).unwrap();
        let ratio = asked.features().iter().zip(seen.features()).map(|(a, b)| a / b).fold(0.0, f64::max);
        let expected = Bytes::from_f64_ceil(bytes as f64 * ratio);
        prop_assert!(nearly(bound(&certificate, asked), expected));
    }

    #[test]
    fn a_larger_shape_never_has_a_smaller_bound(
        program in any_program(), seen in any_shapes(20), asked in any_shape(), more in (0..64u32, 0..64u32),
    ) {
        let certificate = certified(&program, &seen);
        let (small, large) = (bound(&certificate, asked), StepShape::new(asked.samples + more.0, asked.edge + more.1));
        let large = bound(&certificate, large);
        prop_assert!(small <= large || nearly(small, large));
    }

    #[test]
    fn another_observation_never_raises_the_bound(
        program in any_program(), seen in any_shapes(20), new in any_shape(), asked in any_shapes(10),
    ) {
        let before = certified(&program, &seen);
        let mut after = before.clone();
        after.observe(ShapeNeed { shape: new, need: need(&program, new) }).unwrap();
        for shape in asked {
            let (before, after) = (bound(&before, shape), bound(&after, shape));
            prop_assert!(after <= before || nearly(after, before), "{shape}: {} > {}", after.0, before.0);
        }
    }

    #[test]
    fn the_order_of_observations_does_not_matter(
        (seen, shuffled) in any_shapes(20).prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        needs in prop::collection::vec(1..1u64 << 40, 20), asked in any_shape(),
    ) {
        let need = |it: &StepShape| Bytes(needs[seen.iter().position(|other| other == it).unwrap()]);
        let certify = |shapes: &[StepShape]| {
            Certificate::try_from(shapes.iter().map(|it| ShapeNeed { shape: *it, need: need(it) }).collect::<Vec<_>>()).unwrap()
        };
        prop_assert!(nearly(bound(&certify(&seen), asked), bound(&certify(&shuffled), asked)));
    }

    #[test]
    fn needs_in_another_unit_give_the_bound_in_that_unit(
        program in any_program(), seen in any_shapes(20), asked in any_shape(),
    ) {
        let certificate = certified(&program, &seen);
        let eightfold = |it: &ShapeNeed| ShapeNeed { need: it.need.saturating_mul(8), ..*it };
        let in_bits = Certificate::try_from(certificate.needs().iter().map(eightfold).collect::<Vec<_>>()).unwrap();
        let (bits, bytes) = (bound(&in_bits, asked).as_f64(), bound(&certificate, asked).as_f64());
        prop_assert!((bits - 8.0 * bytes).abs() <= 8.0 + 1e-8 * bits, "{bits} bits are not {bytes} bytes");
        let mut widened = certificate;
        widened.widen(8.0);
        prop_assert_eq!(widened, in_bits);
    }

    #[test]
    fn growing_a_batch_k_fold_grows_the_bound_at_most_k_fold(
        program in any_program(), seen in any_shapes(20), asked in any_shape(), k in 1..32u32,
    ) {
        let certificate = certified(&program, &seen);
        let once = bound(&certificate, asked);
        let batch = bound(&certificate, StepShape::new(k * asked.samples, asked.edge));
        let edge = bound(&certificate, StepShape::new(asked.samples, k * asked.edge));
        let (linear, square) = (once.saturating_mul(k.into()), once.saturating_mul(u64::from(k) * u64::from(k)));
        prop_assert!(batch <= linear || nearly(batch, linear));
        prop_assert!(edge <= square || nearly(edge, square));
    }

    #[test]
    fn nothing_panics_at_the_ends_of_the_range(
        seen in prop::collection::vec((prop::sample::select(vec![1, 2, u32::MAX]), prop::sample::select(vec![1, 3, u32::MAX]),
            prop::sample::select(vec![1, 1 << 40, u64::MAX])), 1..9),
        asked in (any::<u32>(), any::<u32>()), factor in prop::sample::select(vec![1.0, 1e3, f64::MAX]),
    ) {
        let needs = seen.iter().map(|(samples, edge, need)| ShapeNeed { shape: StepShape::new(*samples, *edge), need: Bytes(*need) });
        let mut certificate = Certificate::try_from(needs.collect::<Vec<_>>()).unwrap();
        certificate.widen(factor);
        prop_assert!(certificate.bound(StepShape::new(asked.0, asked.1)) > Some(Bytes::ZERO));
    }
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
    let certificate = Certificate::try_from(needs.to_vec()).unwrap();
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
    let program = vec![[1e6, 0.0, 0.0, 40.0], [0.0, 3e4, 100.0, 0.0]];
    let shapes: Vec<_> = (1..=9).flat_map(|n| (1..=8).map(move |e| StepShape::new(n * n, 16 * e))).collect();
    let certificate = certified(&program, &shapes);
    assert_eq!((shapes.len(), certificate.needs().len()), (72, 64));
    for shape in shapes {
        let (bound, actual) = (bound(&certificate, shape), need(&program, shape));
        assert!(bound >= actual && bound.as_f64() <= 1.02 * actual.as_f64(), "{shape}: {bound} for {actual}");
    }
}
