//! Properties of the step from bytes in use to bytes reserved.

mod any_calls;

use plimsoll_predict::{PredictError, Ratchet, Reserved, ReservedObservation, Source, page_for};
use plimsoll_types::{Bytes, StepShape};

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
