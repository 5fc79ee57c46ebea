//! Optimizer steps out of a stream of samples with two axes.

use plimsoll_sampler::{PlanConfig, TaskMix};
use proptest::prelude::*;

use crate::common::{Room, cases, check_step_of_two, lattices_of_two, lengths_of_two, step_sizes};
use crate::interrupted::{Case, Disturbed, streams};

fn case() -> impl Strategy<Value = Case<Room, 2>> {
    let config = (any::<u64>(), any::<bool>(), lattices_of_two()).prop_map(|(seed, homogeneous, lattice)| PlanConfig {
        seed,
        lattice,
        tasks: TaskMix { homogeneous, ..TaskMix::default() },
        ..PlanConfig::default()
    });
    let rooms = (Room::LEAST.0..8000).prop_map(Room);
    streams(Room::LEAST, config, (lengths_of_two(), rooms), step_sizes(40, 2000))
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn steps_over_two_axes_hold_the_room_and_every_sample_once_and_are_the_same_after_any_interruption(case in case()) {
        let steps = |disturbed| case.run(disturbed, |step, asked, lengths| check_step_of_two(step, asked, lengths));
        let undisturbed = steps(Disturbed::Never);
        prop_assert_eq!(&steps(Disturbed::Interrupted), &undisturbed);
        case.check_epochs(&undisturbed);
    }
}
