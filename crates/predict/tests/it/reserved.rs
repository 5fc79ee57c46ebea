//! Properties of the step from bytes in use to bytes reserved.

use plimsoll_predict::{PredictError, Ratchet, Reserved, ReservedObservation, Source, page_for};
use plimsoll_types::{Bytes, StepShape};
use proptest::prelude::*;

const RESIDENT: Bytes = Bytes::mib(64);

/// A step of half a MiB for each sample and position, a tenth of it in one allocation, packed with a loss of a quarter.
fn step(samples: u32, edge: u32) -> ReservedObservation {
    let need = Bytes::kib(512 * u64::from(samples) * u64::from(edge));
    let in_use = RESIDENT.saturating_add(need);
    let reserved = Bytes(in_use.0 / 4 * 5);
    let shape = StepShape::new(samples, edge);
    ReservedObservation {
        shape,
        reserved,
        resident: RESIDENT,
        in_use: Some(in_use),
        page: Bytes::ZERO,
        largest: Bytes(need.0 / 10),
    }
}

fn reading(shape: StepShape, reserved: Bytes) -> ReservedObservation {
    ReservedObservation {
        shape,
        reserved,
        resident: Bytes::ZERO,
        in_use: None,
        page: Bytes::ZERO,
        largest: Bytes::mib(1),
    }
}

fn observe_all(reserved: &mut Reserved, steps: impl Iterator<Item = ReservedObservation>) {
    for it in steps {
        reserved.observe(it).expect("the reading is possible");
    }
}

#[track_caller]
fn check(reserved: &Reserved, shape: StepShape, expected: Bytes, upper: Bytes, source: Source) {
    let found = reserved.predict(shape, Bytes::ZERO).expect("something is known");
    assert_eq!((found.expected, found.upper, found.source), (expected, upper, source), "{shape}");
}

#[test]
fn a_memo_goes_before_a_plan_and_a_plan_before_the_certificate() {
    let mut reserved = Reserved::default();
    let (shape, seen) = (StepShape::new(8, 32), StepShape::new(1, 32));
    assert_eq!(reserved.predict(shape, Bytes::ZERO), None);
    reserved.observe(step(1, 32)).unwrap();
    assert_eq!(reserved.predict(shape, Bytes::ZERO).unwrap().source, Source::Certificate);
    for (planned, mib) in [(StepShape::new(16, 64), 900), (StepShape::new(16, 32), 500), (StepShape::new(8, 64), 600)] {
        reserved.plan(planned, Bytes::mib(mib)).unwrap();
    }
    check(&reserved, shape, Bytes::mib(500), Bytes::mib(500), Source::DryRun);
    reserved.correct(Bytes::mib(16));
    reserved.plan(shape, Bytes::mib(700)).unwrap();
    check(&reserved, shape, Bytes::mib(700), Bytes::mib(716), Source::DryRun);
    check(&reserved, seen, Bytes::mib(100), Bytes::mib(102), Source::Memo);
    let above_all = StepShape::new(17, 64);
    assert_eq!(reserved.predict(above_all, Bytes::ZERO).unwrap().source, Source::Certificate);
}

#[test]
fn the_certificate_route_adds_packing_rounding_and_half_a_page() {
    let mut reserved = Reserved::default();
    reserved.observe(step(1, 32)).unwrap();
    // From 16 MiB above what is resident, eightfold; packed with a loss of a quarter; the largest allocation is a tenth.
    let (in_use, largest) = (64.0 + 8.0 * 16.0, Bytes::from_f64_ceil(f64::from(128_u32 << 20) / 10.0));
    let upper =
        Bytes::from_f64_ceil(in_use * 1.25 * 1.01 * f64::from(1 << 20)).saturating_add(Bytes(page_for(largest).0 / 2));
    let found = reserved.predict(StepShape::new(8, 32), Bytes::ZERO).unwrap();
    assert!((found.upper.as_f64() / upper.as_f64() - 1.0).abs() < 1e-6, "{} is not {upper}", found.upper);
}

#[test]
fn without_a_peak_in_use_there_is_no_certificate_route() {
    let mut reserved = Reserved::default();
    reserved.observe(ReservedObservation { in_use: None, ..step(1, 32) }).unwrap();
    assert_eq!(reserved.predict(StepShape::new(2, 32), Bytes::ZERO), None);
    assert_eq!(reserved.predict(StepShape::new(1, 32), Bytes::ZERO).unwrap().source, Source::Memo);
}

#[test]
fn a_program_that_grows_by_8_percent_costs_one_violation_and_widens_all_that_was_seen_or_planned() {
    let mut reserved = Reserved::default();
    let shapes: Vec<_> = (1..=8).map(|samples| step(samples, 32)).collect();
    observe_all(&mut reserved, shapes.iter().copied());
    let planned = StepShape::new(9, 64);
    reserved.plan(planned, Bytes::mib(1000)).unwrap();
    let grown = |it: &ReservedObservation| reading(it.shape, Bytes::from_f64_ceil(it.reserved.as_f64() * 1.08));
    let residuals: Vec<_> = shapes.iter().map(|it| reserved.observe(grown(it)).unwrap()).collect();
    let factor = residuals[0].widened.unwrap();
    assert!((factor - 1.08 / 1.02).abs() < 1e-6, "{factor}");
    assert!(residuals[1..].iter().all(|it| it.widened.is_none()));
    assert!(
        reserved.predict(planned, Bytes::ZERO).unwrap().upper
            >= Bytes::from_f64_ceil(1000.0 * factor * f64::from(1 << 20))
    );
}

#[test]
fn a_violation_is_not_repeated_by_446_readings_that_differ_as_much() {
    let (mut reserved, shape) = (Reserved::default(), StepShape::new(4, 32));
    let others: Vec<_> = (5..45).map(|samples| StepShape::new(samples, 32)).collect();
    observe_all(&mut reserved, others.iter().chain([&shape]).map(|it| reading(*it, Bytes::mib(1000))));
    assert!(reserved.observe(reading(shape, Bytes::mib(1030))).unwrap().widened.is_some());
    observe_all(&mut reserved, (0..446 - 40).map(|_| reading(shape, Bytes::mib(1030))));
    for other in others {
        assert_eq!(reserved.observe(reading(other, Bytes::mib(1030))).unwrap().widened, None, "{other}");
    }
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let mut reserved = Reserved::default();
    for (observation, message) in [
        (step(0, 32), "learn from a step of shape 0 × 32: it holds nothing"),
        (
            ReservedObservation { reserved: Bytes::ZERO, ..step(1, 32) },
            "learn from a step of shape 1 × 32: its `reserved` is 0 B, but must be at least 1 B",
        ),
        (
            ReservedObservation { largest: Bytes::ZERO, ..step(1, 32) },
            "learn from a step of shape 1 × 32: its `largest` is 0 B, but must be at least 1 B",
        ),
        (
            ReservedObservation { in_use: Some(RESIDENT), ..step(1, 32) },
            "learn from a step of shape 1 × 32: its peak of 64.00 MiB is not above the resident 64.00 MiB",
        ),
    ] {
        assert_eq!(reserved.observe(observation).unwrap_err().to_string(), message);
    }
    assert_eq!(reserved.plan(StepShape::new(1, 0), Bytes(1)), Err(PredictError::EmptyShape(StepShape::new(1, 0))));
    assert!(reserved.plan(StepShape::new(1, 1), Bytes::ZERO).is_err());
    assert_eq!(reserved, Reserved::default());
}

#[test]
fn sources_are_written_as_they_stand_in_a_plan_file() {
    let written = serde_json::to_string(&[Source::Memo, Source::DryRun, Source::Certificate]).unwrap();
    assert_eq!(written, r#"["memo","dry_run","certificate"]"#);
}

fn any_shape() -> impl Strategy<Value = StepShape> {
    (1..=16u32, 1..=16u32).prop_map(|(samples, edge)| StepShape::new(samples, 16 * edge))
}

/// Readings that need not belong to any program.
fn any_reading() -> impl Strategy<Value = ReservedObservation> {
    let sizes = (1 << 20..1u64 << 36, 0.0..=1.0f64, prop::option::of(0.01..=1.0f64), 0.001..=1.0f64);
    let page = prop_oneof![Just(0.0), 0.0..=1.0f64];
    (any_shape(), sizes, page).prop_map(|(shape, (reserved, resident, in_use, largest), page)| {
        let share = |of: u64, share: f64| Bytes::from_f64_ceil(of as f64 * share);
        let in_use = in_use.map(|it| share(reserved, it));
        let resident = share(in_use.map_or(0, |it| it.0 - 1), resident);
        let [page, largest] = [page, largest].map(|it| share(reserved, it));
        ReservedObservation { shape, reserved: Bytes(reserved), resident, in_use, page, largest }
    })
}

/// What a caller does, in any order.
#[derive(Clone, Debug)]
enum Call {
    Observe(ReservedObservation),
    Plan(StepShape, Bytes),
    Correct(Bytes),
}

fn any_calls() -> impl Strategy<Value = Vec<Call>> {
    let size = || (1..1u64 << 36).prop_map(Bytes);
    let call = prop_oneof![
        4 => any_reading().prop_map(Call::Observe),
        2 => (any_shape(), size()).prop_map(|(shape, planned)| Call::Plan(shape, planned)),
        1 => size().prop_map(Call::Correct),
    ];
    prop::collection::vec(call, 1..40)
}

fn apply(reserved: &mut Reserved, calls: &[Call]) {
    for call in calls {
        apply_one(reserved, call);
    }
}

fn apply_one(reserved: &mut Reserved, call: &Call) {
    match call {
        Call::Observe(it) => observe_all(reserved, std::iter::once(*it)),
        Call::Plan(shape, planned) => reserved.plan(*shape, *planned).expect("the plan is possible"),
        Call::Correct(correction) => reserved.correct(*correction),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_shape_that_has_run_reserved_more_than_its_upper_bound(
        plans in prop::collection::vec((any_shape(), (1..1u64 << 36).prop_map(Bytes)), 0..8),
        readings in prop::collection::vec(any_reading(), 1..40),
    ) {
        let mut reserved = Reserved::default();
        for (shape, planned) in plans {
            reserved.plan(shape, planned).unwrap();
        }
        for at in 0..readings.len() {
            reserved.observe(readings[at]).unwrap();
            for it in &readings[..=at] {
                let found = reserved.predict(it.shape, it.resident).unwrap();
                prop_assert!(found.source != Source::Certificate && found.upper >= it.reserved, "{it:?}: {found:?}");
            }
        }
    }

    #[test]
    fn a_memo_is_the_most_of_the_last_16_readings_of_its_shape_or_up_to_twice_as_many(
        readings in prop::collection::vec(1 << 20..1u64 << 36, 16..200),
    ) {
        let (mut reserved, shape) = (Reserved::default(), StepShape::new(4, 32));
        for it in &readings {
            reserved.observe(reading(shape, Bytes(*it))).unwrap();
        }
        let most = |n: usize| readings.iter().rev().take(n).copied().max().map(Bytes);
        let expected = reserved.predict(shape, Bytes::ZERO).map(|it| it.expected);
        prop_assert!(most(16) <= expected);
        // What was widened for a reading is above it by rounding.
        prop_assert!(expected.map(|it| it.0) <= most(32).map(|it| it.0 + it.0 / 1000));
    }

    #[test]
    fn a_violation_widens_every_memo_and_every_plan_by_what_was_lacking(
        calls in any_calls(), shape in any_shape(), times in 1.001..9.0f64, asked in prop::collection::vec(any_shape(), 9),
    ) {
        let mut reserved = Reserved::default();
        apply(&mut reserved, &calls);
        let Some(before) = reserved.predict(shape, Bytes::ZERO) else { return Ok(()) };
        let uppers: Vec<_> = asked.iter().map(|it| reserved.predict(*it, Bytes::ZERO)).collect();
        let read = Bytes::from_f64_ceil(before.upper.as_f64() * times);
        // Less than was drawn where the reading would be more than a size can hold.
        let times = read.share_of(before.upper);
        // So large an allocation that the half page of the certificate route grows as well.
        let residual = reserved.observe(ReservedObservation { largest: Bytes(1 << 60), ..reading(shape, read) }).unwrap();
        prop_assert_eq!((residual.predicted, residual.widened.is_some()), (Some(before), true));
        for (asked, before) in asked.into_iter().zip(uppers) {
            let now = reserved.predict(asked, Bytes::ZERO).map(|it| it.upper.as_f64());
            let grown = before.map(|it| (it.upper.as_f64() * times).min(Bytes::MAX.as_f64()) * (1.0 - 1e-6));
            prop_assert!(now >= grown, "{asked}: {now:?} is not {grown:?}");
        }
        prop_assert!(reserved.predict(shape, Bytes::ZERO).unwrap().upper >= read);
    }

    #[test]
    fn the_expected_size_is_never_above_the_upper_bound(calls in any_calls(), asked in any_shape()) {
        let mut reserved = Reserved::default();
        apply(&mut reserved, &calls);
        prop_assert!(reserved.predict(asked, Bytes::ZERO).is_none_or(|it| it.expected <= it.upper));
    }

    #[test]
    fn a_restored_state_equals_the_saved_one_and_goes_on_as_it_would_have(calls in any_calls(), more in any_calls()) {
        let mut saved = Reserved::default();
        apply(&mut saved, &calls);
        let mut restored: Reserved = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();
        prop_assert_eq!(&restored, &saved);
        apply(&mut saved, &more);
        apply(&mut restored, &more);
        prop_assert_eq!(restored, saved);
    }

    #[test]
    fn nothing_panics_at_the_ends_of_the_range(
        observed in prop::collection::vec((prop::sample::select(vec![1, u32::MAX]), prop::sample::select(vec![1, u64::MAX - 1, u64::MAX]),
            prop::sample::select(vec![0, 1, u64::MAX - 2]), prop::sample::select(vec![1, u64::MAX])), 1..12),
        asked in (any::<u32>(), any::<u32>()),
    ) {
        let mut reserved = Reserved::default();
        for (samples, size, resident, largest) in observed {
            let (reserved_bytes, resident) = (Bytes(size), Bytes(resident));
            let shape = StepShape::new(samples, samples);
            let it = ReservedObservation { shape, reserved: reserved_bytes, resident, in_use: Some(Bytes(size)), page: Bytes(largest), largest: Bytes(largest) };
            prop_assert_eq!(reserved.observe(it).is_err(), resident >= Bytes(size));
            reserved.correct(Bytes::MAX);
        }
        prop_assert!(reserved.predict(StepShape::new(asked.0, asked.1), Bytes::ZERO).is_none_or(|it| it.expected <= it.upper));
    }
}

#[test]
fn noise_within_a_memo_lifts_its_margin() {
    let (mut reserved, shape) = (Reserved::default(), StepShape::new(4, 32));
    reserved.observe(reading(shape, Bytes::mib(1000))).unwrap();
    reserved.observe(reading(shape, Bytes::mib(1019))).unwrap();
    let mut ratchet = Ratchet::default();
    ratchet.observe(0.019);
    let upper = Bytes::from_f64_ceil(Bytes::mib(1019).as_f64() * (1.0 + ratchet.margin()));
    check(&reserved, shape, Bytes::mib(1019), upper, Source::Memo);
}

/// What a software Vulkan device told of one shape, as its pools had another history, in tenths of a MiB; pages of 5 MiB.
#[test]
fn pages_that_lie_otherwise_are_no_violation() {
    let (mut reserved, shape) = (Reserved::default(), StepShape::new(4, 32));
    let read = |tenths: u64| ReservedObservation {
        page: Bytes::mib(5),
        ..reading(shape, Bytes(tenths * Bytes::mib(1).0 / 10))
    };
    for tenths in [531, 525, 578, 531, 578] {
        assert_eq!(reserved.observe(read(tenths)).unwrap().widened, None, "{tenths}");
    }
    let upper = |reserved: &Reserved, shape| reserved.predict(shape, Bytes::ZERO).unwrap().upper;
    let memo = |mib: u64, page: u64| Bytes(Bytes::from_f64_ceil(Bytes(mib).as_f64() * 1.02).0 + page);
    assert_eq!(upper(&reserved, shape), memo(read(578).reserved.0, Bytes::mib(5).0), "which lifts no margin either");
    // A larger shape has opened larger pages since, in which the others will lie too.
    let larger = StepShape::new(8, 32);
    reserved.observe(ReservedObservation { page: Bytes::mib(13), ..reading(larger, Bytes::mib(91)) }).unwrap();
    assert_eq!(upper(&reserved, shape), memo(read(578).reserved.0, Bytes::mib(13).0));
    assert!(reserved.observe(read(718)).unwrap().widened.is_none());
    assert!(reserved.observe(read(900)).unwrap().widened.is_some(), "more than a page is one");
}

#[test]
fn a_violation_lifts_the_margin_of_memos_by_a_quarter() {
    for violation in (1030..1130).map(Bytes::mib) {
        let (mut reserved, shape) = (Reserved::default(), StepShape::new(4, 32));
        reserved.observe(reading(shape, Bytes::mib(1000))).unwrap();
        reserved.observe(reading(shape, violation)).unwrap();
        let found = reserved.predict(shape, Bytes::ZERO).unwrap();
        assert_eq!(found.expected, violation);
        assert!((found.upper.share_of(found.expected) - 1.025).abs() < 1e-6, "{violation}: {}", found.upper);
        reserved.observe(reading(shape, Bytes(violation.0 * 2))).unwrap();
        let found = reserved.predict(shape, Bytes::ZERO).unwrap();
        assert!((found.upper.share_of(found.expected) - 1.031_25).abs() < 1e-6, "{violation}: {}", found.upper);
    }
}

#[test]
fn a_violation_lifts_the_certificate_route_and_the_lift_lapses_with_the_readings_that_needed_it() {
    let mut reserved = Reserved::default();
    reserved.observe(step(1, 32)).unwrap();
    let asked = StepShape::new(8, 32);
    let upper = |reserved: &Reserved| reserved.predict(asked, Bytes::ZERO).unwrap().upper.as_f64();
    let before = upper(&reserved);
    let grown = ReservedObservation { in_use: None, reserved: Bytes::mib(200), ..step(1, 32) };
    let factor = reserved.observe(grown).unwrap().widened;
    let ratio = upper(&reserved) / before;
    assert!(factor.is_some_and(|it| (ratio - it).abs() < 1e-6), "{ratio} is not {factor:?}");
    observe_all(&mut reserved, (0..96).map(|_| ReservedObservation { in_use: None, ..step(1, 32) }));
    assert!((upper(&reserved) / before - 1.0).abs() < 1e-6);
}

#[test]
fn a_plan_that_was_exceeded_once_is_what_it_was_when_readings_are_within_it_again() {
    let (mut reserved, shape, other) = (Reserved::default(), StepShape::new(4, 32), StepShape::new(8, 32));
    reserved.correct(Bytes::mib(16));
    for (shape, mib) in [(shape, 500), (other, 900)] {
        reserved.plan(shape, Bytes::mib(mib)).unwrap();
    }
    let planned = reserved.clone();
    observe_all(&mut reserved, std::iter::once(reading(shape, Bytes::mib(516))));
    let answers = |it: &Reserved| [shape, other].map(|shape| it.predict(shape, Bytes::ZERO));
    assert_eq!(answers(&reserved), answers(&planned), "within its plan, which is exact");
    let factor = reserved.observe(reading(shape, Bytes::mib(600))).unwrap().widened.unwrap();
    assert_eq!(reserved.predict(shape, Bytes::ZERO).unwrap().source, Source::Memo);
    let upper = |it: &Reserved| it.predict(other, Bytes::ZERO).unwrap().upper;
    assert!((upper(&reserved).share_of(upper(&planned)) / factor - 1.0).abs() < 1e-6);
    observe_all(&mut reserved, (0..96).map(|_| reading(shape, Bytes::mib(500))));
    assert_eq!(answers(&reserved), answers(&planned));
}

#[test]
fn a_step_that_begins_with_more_in_use_than_any_before_reserves_as_much_more() {
    let (mut reserved, shape) = (Reserved::default(), StepShape::new(4, 32));
    let at = |resident, mib| ReservedObservation { resident: Bytes::mib(resident), ..reading(shape, Bytes::mib(mib)) };
    // The first step of an optimizer makes its state, which the second one begins with.
    reserved.observe(at(100, 1000)).unwrap();
    let expected = |reserved: &Reserved, resident| reserved.predict(shape, Bytes::mib(resident)).unwrap().expected;
    assert_eq!([50, 100, 300].map(|it| expected(&reserved, it)), [1000, 1000, 1200].map(Bytes::mib));
    assert_eq!(reserved.observe(at(300, 1200)).unwrap().widened, None);
    assert_eq!(expected(&reserved, 300), Bytes::mib(1200), "and no more, now that one has begun so");
}

#[test]
fn the_memo_of_the_shape_that_was_read_longest_ago_goes_first_and_its_readings_stay_in_the_certificate() {
    let mut reserved = Reserved::default();
    let shape = |n: u32| StepShape::new(1 + n % 32, 32 * (1 + n / 32));
    let steps: Vec<_> = (0..300).map(|n| step(shape(n).samples, shape(n).edge())).collect();
    observe_all(&mut reserved, steps[..256].iter().copied());
    // The first one runs again, so that the second is now the one that ran longest ago.
    observe_all(&mut reserved, std::iter::once(steps[0]));
    let written = |it: &Reserved| serde_json::to_string(it).unwrap().len();
    let full = written(&reserved);
    observe_all(&mut reserved, steps[256..].iter().copied());
    let source = |n: usize| reserved.predict(steps[n].shape, Bytes::ZERO).unwrap().source;
    assert_eq!([0, 1, 44, 45, 299].map(source), {
        use Source::{Certificate, Memo};
        [Memo, Certificate, Certificate, Memo, Memo]
    });
    for it in &steps {
        assert!(reserved.predict(it.shape, it.resident).unwrap().upper >= it.reserved, "{}", it.shape);
    }
    assert!(written(&reserved) < full + full / 10, "{} is not about {full}", written(&reserved));
}

#[test]
fn less_that_is_resident_before_a_step_does_not_lower_the_certificate_route() {
    let asked = StepShape::new(8, 32);
    let uppers = [RESIDENT, Bytes::ZERO].map(|resident| {
        let mut reserved = Reserved::default();
        observe_all(&mut reserved, [step(2, 32), step(1, 32)].into_iter());
        // A lighter step of a shape that is known teaches neither a need nor a worse packing.
        let in_use = resident.saturating_add(Bytes::mib(1));
        reserved
            .observe(ReservedObservation { reserved: in_use, resident, in_use: Some(in_use), ..step(1, 32) })
            .unwrap();
        reserved.predict(asked, Bytes::ZERO).unwrap().upper
    });
    assert_eq!(uppers[0], uppers[1]);
}
