//! Sums on NVIDIA devices, where there are any.

#![cfg(feature = "nccl")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::thread;

use plimsoll_fleet::{Alone, Fleet, FleetError, InProcess, Nccl};

#[test]
fn one_rank_adds_on_its_device_or_says_what_is_missing() {
    match Nccl::join(Alone, 0) {
        Ok(mut ranks) => {
            let mut values = vec![1.5; (1 << 22) + 3];
            ranks.sum(&mut values).unwrap();
            assert!(values.iter().all(|it| it.to_bits() == 1.5_f32.to_bits()));
            assert_eq!(ranks.agree(&[3]).unwrap(), [3]);
        }
        Err(error) => {
            eprintln!("skipped: {error}");
            assert!(matches!(&error, FleetError::Nccl(why) if !why.is_empty()), "{error}");
        }
    }
}

#[test]
fn where_one_rank_has_no_device_all_are_told_and_nobody_waits() {
    // No machine has as many.
    let errors: Vec<_> = thread::scope(|scope| {
        let join = |it: InProcess| scope.spawn(move || Nccl::join(it, 4_000).err());
        let ranks: Vec<_> = InProcess::start(2).into_iter().map(join).collect();
        ranks.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(errors.iter().all(|it| matches!(it, Some(FleetError::Nccl(_)))), "{errors:?}");
}
