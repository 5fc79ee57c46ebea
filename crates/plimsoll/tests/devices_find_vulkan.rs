//! The batch for a model whose modules lie on several devices: a CPU, and Vulkan where it is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod devices;

use burn::tensor::{Device, Tensor};
use plimsoll::{Bytes, find_batch_size};
use plimsoll_probe::DeviceKind;

use self::devices::{Net, adam, beyond, on_both, rows};

/// Returns a loss for which the second half holds far more than what goes from the first to it.
fn wide_loss(net: &Net, rows: Tensor<2>, card: &Device) -> Tensor<1> {
    let half = net.first.forward(rows).tanh().to_device(card);
    net.last.forward(half).repeat_dim(1, 16).tanh().tanh().mean()
}

#[test]
fn the_batch_that_is_found_is_that_of_the_tightest_device_which_is_named() {
    on_both(|cpu, card| {
        for (more_of_cpu, more_of_card, tight) in
            [(Bytes::gib(1), Bytes::mib(48), "vulkan:0"), (Bytes::mib(4), Bytes::gib(1), "flex")]
        {
            let make = || (Net::init(cpu, card), adam());
            let loss = |net: &Net, rows| wide_loss(net, rows, card);
            let search = find_batch_size(cpu, make, |n, _| rows(n, cpu), loss).batches(1..=16);
            let search = search.capacity(beyond(DeviceKind::Flex, more_of_cpu));
            let found = search.also_on(card, beyond(DeviceKind::Vulkan(0), more_of_card)).run().unwrap();
            assert!(1 < found.batch() && found.batch() < 16, "{found:?}");
            assert!(found.tightest.as_ref().unwrap().starts_with(tight), "{found:?}");
        }
    });
}
