//! Steps of a model whose modules lie on several devices: a CPU, and Vulkan where it is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod devices;

use burn::module::Module;
use burn::tensor::Device;
use plimsoll::{Bytes, Done, Error, Step, StepError, step};
use plimsoll_probe::DeviceKind;

use self::devices::{Net, adam, beyond, on_both, reserved};

/// Takes so many steps of so many samples, and returns what each did.
fn take(step: &mut Step<Net>, n_steps: usize, n_samples: usize, first: &Device, second: &Device) -> Vec<Done> {
    let samples = vec![(); n_samples];
    let loss = |net: &Net, part: Vec<()>| net.loss(part.len(), first, second);
    (0..n_steps).map(|_| step.run(&samples, 1e-3, loss).unwrap()).collect()
}

fn is_whole(done: &Done, n_samples: usize) -> bool {
    let mut next = 0;
    done.parts.iter().for_each(|it| {
        assert_eq!(it.samples.start, next, "{done:?}");
        next = it.samples.end;
    });
    next == n_samples
}

#[test]
fn each_device_keeps_to_its_own_budget_and_the_tight_one_decides_how_many_run_at_once() {
    on_both(|cpu, card| {
        for (more_of_cpu, more_of_card, tight) in
            [(Bytes::mib(7), Bytes::gib(1), "flex"), (Bytes::gib(1), Bytes::mib(40), "vulkan:0")]
        {
            let net = Net::init(cpu, card);
            let built = step(cpu, net, adam()).capacity(beyond(DeviceKind::Flex, more_of_cpu));
            let built = built.also_on(card, beyond(DeviceKind::Vulkan(0), more_of_card));
            let mut step = built.build().unwrap();
            let done = take(&mut step, 3, 64, cpu, card);
            for done in &done {
                assert!(is_whole(done, 64), "{done:?}");
                assert_eq!(done.devices.len(), 2, "{done:?}");
                for it in &done.devices {
                    assert!(it.peak <= it.budget, "{done:?}");
                }
            }
            let last = &done[2];
            assert!(last.devices[0].device.starts_with(tight), "{last:?}");
            assert!(1 < last.parts.len() && last.parts.len() < 32, "{last:?}");
        }
    });
}

#[test]
fn a_shortage_on_the_second_device_is_survived_with_the_same_samples() {
    on_both(|cpu, card| {
        for (first, second, kind, more) in
            [(cpu, card, DeviceKind::Vulkan(0), Bytes::mib(12)), (card, cpu, DeviceKind::Flex, Bytes::mib(8))]
        {
            let built = step(first, Net::init(first, second), adam()).also_on(second, beyond(kind, more));
            let mut step = built.micro_batch(64).build().unwrap();
            let done = take(&mut step, 1, 64, first, second).remove(0);
            assert!(is_whole(&done, 64) && 1 < done.parts.len() && !done.failures.is_empty(), "{done:?}");
            assert!(done.loss.is_finite() && step.is_whole().unwrap(), "{done:?}");
        }
    });
}

#[test]
fn a_sample_that_does_not_fit_on_the_second_device_is_an_error_that_names_it() {
    on_both(|cpu, card| {
        let built = step(cpu, Net::init(cpu, card), adam());
        let tight = built.also_on(card, reserved(DeviceKind::Vulkan(0)).max(Bytes::mib(1)));
        let mut step = tight.build().unwrap();
        let Err(error) = step.run(&[()], 1e-3, |net, part| net.loss(part.len(), cpu, card)) else { panic!("it fits") };
        let text = error.to_string();
        assert!(text.contains("on vulkan:0") && text.contains("one sample alone does not fit"), "{text}");
        assert!(matches!(error, Error::Sample { source: StepError::Elsewhere { .. }, .. }), "{text}");
    });
}

#[test]
fn a_model_on_a_device_that_nobody_has_named_is_refused_when_it_is_built_and_after_it_has_moved() {
    on_both(|cpu, card| {
        let error = step(cpu, Net::init(cpu, card), adam()).build().err().unwrap().to_string();
        assert!(error.contains("`also_on` names it beside the first"), "{error}");
        let error = step(cpu, Net::init(cpu, cpu), adam()).also_on(cpu, None).build().err().unwrap().to_string();
        assert!(error.contains("it is named twice"), "{error}");
        let mut step = step(cpu, Net::init(cpu, cpu), adam()).build().unwrap();
        assert!(take(&mut step, 1, 4, cpu, cpu)[0].devices.is_empty());
        step.change(|net| Net { last: net.last.fork(card), ..net });
        for _ in 0..2 {
            let error = step.run(&[()], 1e-3, |net, part| net.loss(part.len(), cpu, card)).unwrap_err();
            assert!(error.to_string().contains("`also_on` names it beside the first"), "{error}");
        }
    });
}
