use proptest::prelude::*;

use super::*;

/// Runs steps, each a list of parts, and returns the cleanups of each and whether the last reading shows its part.
fn run(exact: bool, steps: &[&[u32]]) -> (Vec<usize>, bool) {
    let (mut pages, mut shown) = (PageOwner::new(exact), false);
    let cleanups = steps.iter().map(|step| {
        pages.begin();
        let mut n = 0;
        for samples in *step {
            let shape = StepShape::new(*samples, 32);
            n += usize::from(pages.enter(shape, None) == Entered::Alone);
            shown = pages.shows(shape);
        }
        n
    });
    (cleanups.collect(), shown)
}

#[test]
fn steps_of_one_shape_share_their_pages() {
    assert_eq!(run(false, &[&[8, 8], &[8, 8], &[8, 8]]), (vec![1, 0, 0], true));
}

#[test]
fn a_ragged_part_costs_no_cleanup_and_its_reading_is_the_larger_ones() {
    assert_eq!(run(false, &[&[8, 3], &[8, 3]]), (vec![1, 0], false));
}

#[test]
fn a_smaller_step_starts_without_the_pages_of_the_larger_one() {
    assert_eq!(run(false, &[&[8, 8], &[4, 4], &[4, 4], &[8]]), (vec![1, 1, 0, 1], true));
}

#[test]
fn pages_that_a_larger_part_took_over_within_a_step_are_not_the_first_ones() {
    assert_eq!(run(false, &[&[4, 8], &[4]]), (vec![1, 1], true));
}

#[test]
fn an_exact_device_is_never_cleaned_up_and_shows_what_ran() {
    assert_eq!(run(true, &[&[8, 3], &[4, 8, 2]]), (vec![0, 0], true));
}

#[test]
fn only_the_first_part_after_a_cleanup_begins_alone() {
    let (mut pages, shape) = (PageOwner::new(false), StepShape::new(8, 32));
    let mut entered = || (pages.enter(shape, None), pages.were_shared());
    assert_eq!([entered(), entered()], [(Entered::Alone, false), (Entered::Within, true)]);
    pages.forget();
    assert!(pages.were_shared(), "the cleanup after a failure does not change how the part began");
    assert!(pages.enter(shape, None) == Entered::Within && !pages.were_shared(), "inside a step nothing goes back");
}

#[test]
fn what_no_cleanup_returns_goes_back_once() {
    let (mut pages, shape) = (PageOwner::new(false), StepShape::new(8, 32));
    let mut n = 0;
    for reserved in [5, 2, 2, 7] {
        pages.begin();
        _ = pages.enter(shape, None);
        if pages.is_outgrown(shape, Bytes(reserved)) {
            n += 1;
            // 2 bytes stay whatever happens.
            pages.settle(Bytes(2));
        }
    }
    assert_eq!(n, 2);
    assert!(!PageOwner::new(true).is_outgrown(shape, Bytes::MAX));
}

#[test]
fn what_something_else_used_goes_back_before_the_next_step() {
    let (mut pages, shape) = (PageOwner::new(false), StepShape::new(8, 32));
    for _ in 0..2 {
        assert_eq!(pages.enter(shape, None), Entered::Alone);
        pages.forget();
        pages.begin();
    }
}

#[test]
fn parts_that_are_longer_along_different_axes_are_covered_by_neither() {
    let shape = |edges: &[u32]| StepShape::of(2, Extent::try_new(edges).unwrap());
    let (wide, high) = (shape(&[64, 16]), shape(&[16, 64]));
    let mut pages = PageOwner::new(false);
    assert_eq!([wide, high].map(|it| pages.enter(it, None)), [Entered::Alone, Entered::Within]);
    assert!(!pages.shows(wide) && !pages.shows(high) && pages.shows(shape(&[64, 64])));
}

/// Begins a step of one part, which is certain to need so much and finds so much reserved.
fn enter_certain(pages: &mut PageOwner, shape: StepShape, upper: u64, reserved: u64) -> Entered {
    pages.begin();
    let alone = Prediction { expected: Bytes(upper - 1), upper: Bytes(upper) };
    let found = Found { reserved: Bytes(reserved), in_use: Bytes(10), alone, budget: Bytes(1000) };
    let entered = pages.enter(shape, Some(found));
    if pages.shows(shape) {
        pages.note_read(shape);
    }
    entered
}

#[test]
fn parts_of_mixed_shapes_begin_among_the_pages_of_others_once_each_was_read() {
    let (short, long) = (StepShape::new(8, 32), StepShape::new(2, 128));
    let among = |expected, upper| Entered::Among(Prediction { expected: Bytes(expected), upper: Bytes(upper) });
    let mut pages = PageOwner::new(false).of_mixed_shapes();
    assert_eq!(enter_certain(&mut pages, short, 310, 10), Entered::Alone);
    assert_eq!(enter_certain(&mut pages, long, 410, 310), Entered::Alone, "it was not read yet");
    assert_eq!(enter_certain(&mut pages, short, 310, 410), among(410, 710), "both were, and both fit");
    assert!(!pages.shows(short), "what is reserved is the need of neither");
    assert_eq!(enter_certain(&mut pages, long, 410, 700), among(700, 700), "its pages are there");
    assert_eq!(
        enter_certain(&mut pages, StepShape::new(3, 32), 110, 700),
        among(700, 700),
        "and those of a smaller one"
    );
    assert_eq!(enter_certain(&mut pages, StepShape::new(8, 64), 610, 700), Entered::Alone, "new shapes are read");
    assert_eq!(enter_certain(&mut pages, long, 410, 610), Entered::Alone, "together they are above the budget");
    assert_eq!(enter_certain(&mut pages, short, 310, 410), among(410, 710));
    pages.begin();
    assert_eq!(pages.enter(long, None), Entered::Alone, "nothing is certain");
    pages.forget();
    assert_eq!(enter_certain(&mut pages, short, 310, 10), Entered::Alone, "something else used the device");
}

#[test]
fn parts_of_a_step_that_began_among_pages_of_others_show_nothing_of_themselves() {
    let (short, long) = (StepShape::new(8, 32), StepShape::new(2, 128));
    let mut pages = PageOwner::new(false).of_mixed_shapes();
    for shape in [short, long, short] {
        enter_certain(&mut pages, shape, 210, 210);
    }
    assert_eq!(pages.enter(short, None), Entered::Within);
    assert!(!pages.shows(short) && pages.were_shared());
    assert!(!pages.is_outgrown(short, Bytes::MAX));
}

/// An allocator that keeps what the largest part since the last cleanup reserved.
#[derive(Default)]
struct Kept(u64);

fn need(shape: StepShape) -> u64 {
    u64::from(shape.samples) * u64::from(shape.edge())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_runs_a_reading_that_shows_a_part_is_its_own(
        exact in any::<bool>(),
        steps in prop::collection::vec((any::<bool>(), prop::collection::vec((1..5u32, 1..4u32), 1..5)), 1..12),
    ) {
        let (mut pages, mut kept) = (PageOwner::new(exact), Kept(1 << 40));
        for (disturbed, parts) in steps {
            if disturbed {
                kept.0 = 1 << 40;
                pages.forget();
            }
            pages.begin();
            for (at, (samples, edge)) in parts.into_iter().enumerate() {
                let shape = StepShape::new(samples, 16 * edge);
                if pages.enter(shape, None) == Entered::Alone || exact {
                    kept.0 = 0;
                }
                kept.0 = kept.0.max(need(shape));
                prop_assert!(!pages.shows(shape) || kept.0 == need(shape), "{shape}");
                prop_assert!(at > 0 || pages.shows(shape), "the first part of a step is always read");
            }
        }
    }
}
