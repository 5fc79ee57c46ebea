//! A plan for a model whose modules lie on several devices: a CPU, and Vulkan where it is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod devices;

use burn::optim::GradientsParams;
use burn::tensor::Device;
use plimsoll::{Bytes, plan};
use plimsoll_probe::{DeviceKind, open};

use self::devices::{Net, adam, beyond, on_both, reserved, rows};

/// Trains as Burn's own loop does, from empty pages, and returns the peak of the heap, and what the card reserves
/// besides then.
fn needed_by_own_loop(n_samples: usize, cpu: &Device, card: &Device) -> [Bytes; 2] {
    card.memory_cleanup();
    let before = reserved(DeviceKind::Vulkan(0));
    let mut heap = open(DeviceKind::Flex, None).unwrap();
    heap.reset_peak().unwrap();
    let (mut net, mut optimizer) = (Net::init(cpu, card), adam());
    // The fourth may be the first to find no room between what those before it have left.
    for _ in 0..5 {
        let gradients = net.loss(n_samples, cpu, card).backward();
        // What is fused ends with the pass, as in a step that reads its loss.
        card.flush().unwrap();
        net = {
            let gradients = GradientsParams::from_grads(gradients, &net);
            optimizer.step(1e-3, net, gradients)
        };
        card.sync().unwrap();
    }
    [heap.read().unwrap().peak, reserved(DeviceKind::Vulkan(0)).saturating_sub(before)]
}

#[test]
fn a_plan_bounds_what_burns_own_loop_needs_on_each_device_and_the_tightest_decides() {
    on_both(|cpu, card| {
        let make = || (Net::init(cpu, card), adam());
        let loss = |net: &Net, rows| net.loss_of(rows, card);
        let planned = plan(cpu, make, |n, _| rows(n, cpu), loss).shapes([(4, 1), (16, 1), (64, 1)]);
        let limit = beyond(DeviceKind::Vulkan(0), Bytes::mib(16));
        let plan = planned.capacity(beyond(DeviceKind::Flex, Bytes::gib(1))).also_on(card, limit).run().unwrap();
        assert_eq!(plan.shapes.iter().map(|it| it.fits).collect::<Vec<_>>(), [true, true, false], "{plan}");
        assert!(plan.tightest(64, 1).unwrap().device.starts_with("vulkan:0"), "{plan}");
        for (at, it) in plan.shapes.iter().enumerate().filter(|(_, it)| it.fits) {
            let needed = needed_by_own_loop(it.samples as usize, cpu, card);
            for (needed, on) in needed.into_iter().zip(&plan.devices) {
                let bound = on.shapes[at].upper;
                eprintln!("{} of {} on {}, at most {bound}", needed, it.samples, on.device);
                assert!(needed <= bound, "{needed} for {} on {}: {plan}", it.samples, on.device);
            }
        }
    });
}
