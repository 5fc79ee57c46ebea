//! What readings above their bounds lift, and for how long.

use plimsoll_predict::{Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Features, StepShape};

use crate::predictor::{KEY, need, observation, predictor, upper};

#[test]
fn a_new_program_of_twice_the_size_is_bounded_as_tightly_as_the_old_one() {
    let mut predictor = predictor(PredictorConfig { rounding_margin: 0.0, ..PredictorConfig::default() });
    let old = |shape: StepShape| {
        Bytes(1 << 20).saturating_add(Bytes::from_f64_ceil(Features::default().of(shape)[5] * 400.0))
    };
    let shapes = [(1, 32), (4, 32), (2, 64)].map(|(samples, edge)| StepShape::new(samples, edge));
    for shape in shapes {
        predictor.observe(KEY, observation(shape, old(shape))).unwrap();
    }
    let new = |shape| old(shape).saturating_mul(2);
    assert!(predictor.observe(KEY, observation(shapes[1], new(shapes[1]))).unwrap().violated);
    let unseen = StepShape::new(16, 128);
    assert!(!predictor.observe(KEY, observation(unseen, new(unseen))).unwrap().violated);
    for shape in shapes.into_iter().chain([unseen]) {
        let ratio = upper(&predictor, shape).as_f64() / new(shape).as_f64();
        assert!((0.999_999..1.000_001).contains(&ratio), "{shape}: {ratio}");
    }
}

/// Every hundred steps something takes a quarter more at the largest shape, and then the run is at a smaller one.
#[test]
fn what_takes_memory_for_a_moment_time_and_again_leaves_every_bound_as_it_was() {
    let program = [[1e8, 0.0, 0.0, 1e6, 3e4, 2e3], [6e8, 0.0, 0.0, 0.0, 1e4, 1.9e3]];
    let (small, large) = (StepShape::new(2, 32), [50, 53, 56].map(|samples| StepShape::new(samples, 256)));
    let mut predictor = predictor(PredictorConfig::default());
    let read = |predictor: &mut Predictor, shape, times: f64| {
        let need = Bytes::from_f64_ceil(need(&program, shape).as_f64() * times);
        predictor.observe(KEY, observation(shape, need)).unwrap().violated
    };
    for shape in [small].into_iter().chain(large) {
        read(&mut predictor, shape, 1.0);
    }
    let before = [small, large[0]].map(|it| upper(&predictor, it).as_f64());
    for i in 0..20 {
        assert!(read(&mut predictor, large[i % 3], 1.25));
        let lifted = [small, large[0]].map(|it| upper(&predictor, it).as_f64());
        assert!(
            lifted.iter().zip(before).all(|(lifted, before)| *lifted <= 1.26 * before),
            "{i}: {lifted:?} of {before:?}"
        );
        (0..100).for_each(|_| assert!(!read(&mut predictor, large[(i + 1) % 3], 1.0)));
        let after = [small, large[0]].map(|it| upper(&predictor, it).as_f64());
        assert!(
            after.iter().zip(before).all(|(after, before)| *after <= 1.001 * before),
            "{i}: {after:?} of {before:?}"
        );
    }
}

#[test]
fn what_a_program_needs_from_now_on_is_learnt_though_it_began_as_a_violation() {
    let shapes = [(1, 32), (4, 32), (2, 64), (8, 64)].map(|(samples, edge)| StepShape::new(samples, edge));
    let program = [[1e6, 0.0, 0.0, 0.0, 0.0, 400.0]];
    let mut predictor = predictor(PredictorConfig::default());
    let read = |predictor: &mut Predictor, shape, times: f64| {
        let need = Bytes::from_f64_ceil(need(&program, shape).as_f64() * times);
        predictor.observe(KEY, observation(shape, need)).unwrap().violated
    };
    assert!(shapes.iter().all(|it| !read(&mut predictor, *it, 1.0)));
    let violated = (0..1000).filter(|i| read(&mut predictor, shapes[i % 3], 1.5)).count();
    assert_eq!(violated, 1);
    // The shape that was not read for so long is bounded all the same.
    assert!(!read(&mut predictor, shapes[3], 1.5));
    let ratio = upper(&predictor, shapes[3]).as_f64() / need(&program, shapes[3]).as_f64();
    assert!((1.5..1.53).contains(&ratio), "{ratio}");
}

#[test]
fn what_was_read_of_a_lifted_shape_within_its_bound_is_its_least_though_others_contradict_it() {
    let mut predictor = predictor(PredictorConfig { rounding_margin: 0.0, ..PredictorConfig::default() });
    let lifted = StepShape::new(20, 27);
    let mut read = |(samples, edge), need| {
        let read = predictor.observe(KEY, observation(StepShape::new(samples, edge), Bytes(need))).unwrap();
        (read.violated, upper(&predictor, lifted))
    };
    read((20, 27), 827_341_706);
    assert!(read((1, 1), 26_262_764_379).0);
    read((33, 80), 524_258_365);
    read((2, 155), 26_262_764_379);
    assert!(read((36, 80), 64_146_074_169).0);
    let (is_violation, bound) = read((20, 27), 57_526_880_730);
    assert!(!is_violation && Bytes(57_526_880_730) <= bound, "{bound:?}");
    // A small batch that needs little.
    let (_, bound) = read((6, 30), 500_467_178);
    assert!(Bytes(57_526_880_730) <= bound, "{bound:?}");
}
