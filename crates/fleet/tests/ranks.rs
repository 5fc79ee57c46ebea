//! What any number of ranks does together.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::thread;

use plimsoll_fleet::{Alone, Call, Fleet, FleetError, InProcess};
use proptest::prelude::*;

/// Runs every rank on a thread of its own, and returns what each came to.
fn run<R: Send>(n_ranks: u32, work: impl Fn(InProcess) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let ranks: Vec<_> = InProcess::start(n_ranks).into_iter().map(|it| scope.spawn(move || work(it))).collect();
        ranks.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_rank_has_what_one_would_have_made_of_all(
        values in prop::collection::vec(prop::collection::vec(-1e3_f32..1e3, 5), 1..6),
        n_rounds in 1_usize..4,
    ) {
        let n_ranks = u32::try_from(values.len()).unwrap();
        let sum = |at: usize| values.iter().map(|it| it[at]).reduce(|sum, it| sum + it).unwrap().to_bits();
        let expected: Vec<_> = (0..5).map(sum).collect();
        let came_to = run(n_ranks, |mut fleet| {
            assert_eq!(fleet.n_ranks(), n_ranks);
            let own = fleet.rank();
            (0..n_rounds).map(|round| {
                let numbers = fleet.agree(&[u64::from(own), round as u64]).unwrap();
                let mut sums = values[own as usize].clone();
                fleet.sum(&mut sums).unwrap();
                let mut bytes = [u8::try_from(own + 7).unwrap(); 3];
                fleet.broadcast(&mut bytes).unwrap();
                (numbers, sums.into_iter().map(f32::to_bits).collect::<Vec<_>>(), bytes)
            }).collect::<Vec<_>>()
        });
        for rounds in came_to {
            for (round, (numbers, sums, bytes)) in rounds.into_iter().enumerate() {
                prop_assert!(numbers.into_iter().eq((0..n_ranks).flat_map(|it| [u64::from(it), round as u64])));
                prop_assert_eq!(&sums, &expected);
                prop_assert_eq!(bytes, [7; 3]);
            }
        }
    }
}

/// Ranks that come late, or read for long, get what was meant for them: the next thing that the others do is another piece.
#[test]
fn many_pieces_one_after_another_are_added_and_taken_over_whole() {
    // One value more than two pieces, one less than one, fewer than there are ranks, and none.
    let sizes = [(2 << 16) + 1, (1 << 16) - 1, 2, 0, 3 << 16];
    let value = |rank: u32, at: usize| 1.0 / (rank as f32 + 1.5 + (at % 1_000) as f32);
    for n_ranks in [1, 2, 3] {
        let is_right = |mut fleet: InProcess| {
            let own = fleet.rank();
            sizes.iter().zip(1..).all(|(n_values, round)| {
                let mut sums: Vec<_> = (0..*n_values).map(|at| value(own, at)).collect();
                fleet.sum(&mut sums).unwrap();
                let mut bytes = vec![if own == 0 { round } else { 0 }; 4 * n_values + 1];
                fleet.broadcast(&mut bytes).unwrap();
                let expected = |at| (1..n_ranks).fold(value(0, at), |sum, rank| sum + value(rank, at)).to_bits();
                sums.iter().enumerate().all(|(at, sum)| sum.to_bits() == expected(at))
                    && bytes.iter().all(|it| *it == round)
            })
        };
        assert_eq!(run(n_ranks, is_right), vec![true; n_ranks as usize]);
    }
}

#[test]
fn one_rank_keeps_what_it_has() {
    let mut values = [1.5, -2.0];
    assert_eq!((Alone.rank(), Alone.n_ranks(), Alone.agree(&[3, 4])), (0, 1, Ok(vec![3, 4])));
    Alone.sum(&mut values).unwrap();
    assert_eq!(values.map(f32::to_bits), [1.5_f32, -2.0].map(f32::to_bits));
}

#[test]
fn ranks_that_do_different_things_are_told_so_and_go_on() {
    let came_to = run(3, |mut fleet| {
        let is_last = fleet.rank() == 2;
        let mut values = vec![1.0; if is_last { 4 } else { 5 }];
        let first = fleet.sum(&mut values);
        let second = if is_last { fleet.broadcast(&mut [0; 2]) } else { fleet.agree(&[1]).map(drop) };
        (first, second, fleet.agree(&[u64::from(fleet.rank())]))
    });
    let differs = |own_rank, own, rank, call| Err(FleetError::Differs { own_rank, own, rank, call });
    for (rank, (first, second, third)) in (0..).zip(came_to) {
        if rank == 2 {
            assert_eq!(first, differs(2, Call::Sum(4), 0, Call::Sum(5)));
            assert_eq!(second, differs(2, Call::Broadcast(2), 0, Call::Agree(1)));
        } else {
            assert_eq!(first, differs(rank, Call::Sum(5), 2, Call::Sum(4)));
            assert_eq!(second, differs(rank, Call::Agree(1), 2, Call::Broadcast(2)));
        }
        assert_eq!(third, Ok(vec![0, 1, 2]));
    }
    let text = differs(0, Call::Sum(5), 2, Call::Broadcast(2)).map(|()| 0).unwrap_err().to_string();
    assert_eq!(text, "rank 2 takes over 2 bytes where rank 0 adds 5 values: all ranks do the same, in one order");
}

#[test]
fn nobody_waits_for_a_rank_that_is_gone() {
    let came_to = run(3, |mut fleet| {
        fleet.agree(&[]).unwrap();
        // The others may wait already, or come later.
        if fleet.rank() == 1 { Ok(()) } else { fleet.sum(&mut [1.0]) }
    });
    let gone = Err(FleetError::Gone { rank: 1 });
    assert_eq!(came_to, [gone.clone(), Ok(()), gone]);
}
