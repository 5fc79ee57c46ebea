//! What holds whatever is read, planned and corrected, in any order.

use plimsoll_predict::{Reserved, ReservedObservation, Source};
use plimsoll_types::{Bytes, StepShape};
use proptest::prelude::*;

use super::{observe_all, reading};

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
