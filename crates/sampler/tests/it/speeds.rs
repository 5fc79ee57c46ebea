//! How fast devices are.

use std::time::Duration;

use plimsoll_sampler::{BatchToDeal, Speeds, Worked, deal_batches};

/// Runs as many steps of 240 samples of 100 positions, each device as fast as it is, and returns what each took of the last.
fn shares(speeds: &mut Speeds, micros: &[u64], n_steps: usize) -> Vec<u32> {
    let mut counts = Vec::new();
    for _ in 0..n_steps {
        let batch = BatchToDeal { n_samples: 240, length: 100, multiple_of: 1, limits: vec![240; micros.len()] };
        counts = deal_batches(&speeds.weights(), speeds.overhead(), &[batch]).unwrap().swap_remove(0);
        // A device needs so many microseconds for each sample, and 500 for what it does once.
        let worked = |(n, micros): (&u32, &u64)| Worked {
            positions: u64::from(*n) * 100,
            took: Duration::from_micros(u64::from(*n) * micros + if *n == 0 { 0 } else { 500 }),
        };
        speeds.hear(&counts.iter().zip(micros).map(worked).collect::<Vec<_>>());
    }
    counts
}

#[test]
fn shares_follow_what_devices_take_until_all_take_as_long() {
    let mut speeds = Speeds::unknown(3);
    assert_eq!(shares(&mut speeds, &[100, 200, 300], 1), [80, 80, 80], "nothing is known");
    let counts = shares(&mut speeds, &[100, 200, 300], 12);
    for (count, micros) in counts.iter().zip([100, 200, 300]) {
        assert!((u64::from(*count) * micros).abs_diff(240 * 600 / 11) <= 400, "{counts:?}");
    }
    let counts = shares(&mut speeds, &[300, 200, 100], 12);
    assert!(counts.is_sorted(), "they change with the devices: {counts:?}");
}

#[test]
fn a_first_step_that_takes_longer_is_soon_forgotten() {
    let mut speeds = Speeds::unknown(2);
    let worked = |seconds| Worked { positions: 12_000, took: Duration::from_secs(seconds) };
    // A device compiles its kernels in the first step that it runs.
    speeds.hear(&[worked(90), worked(30)]);
    let counts = shares(&mut speeds, &[100, 100], 2);
    assert!(counts[0].abs_diff(counts[1]) <= 24, "{counts:?}");
}

#[test]
fn where_nobody_has_run_anything_nothing_is_learnt() {
    let mut speeds = Speeds::unknown(2);
    shares(&mut speeds, &[100, 300], 4);
    let before = speeds.clone();
    speeds.hear(&[Worked::default(); 2]);
    assert_eq!(speeds, before);
}

#[test]
fn a_device_that_was_slow_for_a_while_takes_part_again() {
    let mut speeds = Speeds::unknown(2);
    shares(&mut speeds, &[100, 1_000_000], 3);
    assert_eq!(shares(&mut speeds, &[100, 100], 1)[1], 0, "its share is empty, and nothing shows how fast it is");
    let counts = shares(&mut speeds, &[100, 100], 30);
    assert!(counts[0].abs_diff(counts[1]) <= 12, "{counts:?}");
}
