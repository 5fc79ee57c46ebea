//! Known values and properties of the interval of a proportion.

use plimsoll_predict::{Coverage, clopper_pearson};
use proptest::prelude::*;

#[track_caller]
fn check(n_violations: u64, n: u64, confidence: f64, lower: f64, upper: f64) {
    let found = clopper_pearson(n_violations, n, confidence).expect("the counts are possible");
    assert!((found.0 - lower).abs() < 5e-7 && (found.1 - upper).abs() < 5e-7, "{found:?} is not {:?}", (lower, upper));
}

#[test]
fn limits_are_those_of_published_tables() {
    check(0, 3000, 0.95, 0.0, 0.001_228_87);
    check(1, 10, 0.95, 0.002_528_58, 0.445_016_12);
    check(5, 10, 0.95, 0.187_086_03, 0.812_913_97);
    check(10, 10, 0.95, 0.691_502_9, 1.0);
    check(3, 20, 0.95, 0.032_070_94, 0.378_926_83);
}

#[test]
fn without_a_trial_nothing_is_known() {
    assert_eq!(clopper_pearson(0, 0, 0.95), Ok((0.0, 1.0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_violation_has_a_closed_form(n in 1..2_000_000u64, confidence in 0.5..0.9999f64) {
        let (lower, upper) = clopper_pearson(0, n, confidence).unwrap();
        let exact = -(((1.0 - confidence) / 2.0).ln() / n as f64).exp_m1();
        prop_assert!(lower == 0.0 && (upper / exact - 1.0).abs() < 1e-9, "{upper} is not {exact}");
    }

    #[test]
    fn the_limits_are_where_the_tails_have_their_share((n, n_violations) in (2..60u64).prop_flat_map(|n| (Just(n), 1..n))) {
        // Summed term by term from Pascal's triangle, another way than the one under test.
        let tail = |from: u64, to: u64, p: f64| -> f64 {
            let choose = |k: u64| (1..=k).map(|i| (n + 1 - i) as f64 / i as f64).product::<f64>();
            (from..=to).map(|k| choose(k) * p.powf(k as f64) * (1.0 - p).powf((n - k) as f64)).sum()
        };
        let (lower, upper) = clopper_pearson(n_violations, n, 0.9).unwrap();
        prop_assert!((tail(0, n_violations, upper) - 0.05).abs() < 1e-9);
        prop_assert!((tail(n_violations, n, lower) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn successes_and_failures_are_mirror_images(n in 1..5000u64, share in 0.0..=1.0f64, confidence in 0.0..0.9999f64) {
        let n_violations = (0..=n).find(|it| *it as f64 >= share * n as f64).unwrap();
        let (lower, upper) = clopper_pearson(n_violations, n, confidence).unwrap();
        let mirrored = clopper_pearson(n - n_violations, n, confidence).unwrap();
        let proportion = n_violations as f64 / n as f64;
        prop_assert!((1.0 - mirrored.1 - lower).abs() < 1e-12 && (1.0 - mirrored.0 - upper).abs() < 1e-12);
        prop_assert!(lower <= proportion + 1e-12 && proportion <= upper + 1e-12);
    }
}

#[test]
fn a_coverage_says_its_sample_size() {
    let says = |n_violations, n, confidence| Coverage::try_new(n_violations, n, confidence).unwrap().to_string();
    assert_eq!(says(0, 3000, 0.95), "0 of 3 000: at most 0.12 % at 95 %");
    assert_eq!(says(2, 1_203_004, 0.999), "2 of 1 203 004: 0.000003 to 0.0010 % at 99.9 %");
    assert_eq!(says(1, 10, 0.95), "1 of 10: 0.25 to 44.50 % at 95 %");
    assert_eq!(says(0, 0, 0.95), "0 of 0: at most 100.00 % at 95 %");
}

#[test]
fn what_states_nothing_is_refused() {
    assert_eq!(
        Coverage::try_new(3, 2, 0.95).unwrap_err().to_string(),
        "state a coverage: 3 violations of 2 trials, but there can be at most 2"
    );
    for confidence in [f64::NAN, -0.1, 1.0] {
        assert!(clopper_pearson(0, 10, confidence).is_err(), "{confidence}");
    }
}
