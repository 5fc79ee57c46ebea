use super::*;

fn grad_norm(alpha: f64, learning_rate: f64, n_tasks: usize) -> TaskBalance {
    TaskBalance::try_new(&BalanceConfig::GradNorm { alpha, learning_rate }, n_tasks).unwrap()
}

#[track_caller]
fn close(actual: &[f64], expected: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
    assert!(actual.len() == expected.len() && actual.iter().zip(expected).all(near), "{actual:?} {expected:?}");
}

fn all(values: [f64; 2]) -> [Option<f64>; 2] {
    values.map(Some)
}

#[test]
fn a_step_is_the_published_one() {
    let mut balance = grad_norm(1.0, 0.025, 2);
    // At first both rates are 1, so both norms are drawn to their mean, 2: one weight falls by 0.025 · 3, the other
    // rises by 0.025 · 1, and 1.95 is scaled to 2.
    balance.observe(&all([4.0, 10.0]), &all([3.0, 1.0]));
    let first = [0.925 * 2.0 / 1.95, 1.025 * 2.0 / 1.95];
    close(balance.weights(), &first);
    // The losses are half of the first and all of it: relative to their mean, 2/3 and 4/3. The mean norm of 2.5 makes
    // targets of 5/3 and 10/3; 4 is above its own, 1 below.
    balance.observe(&all([2.0, 10.0]), &all([4.0, 1.0]));
    let moved = [first[0] - 0.025 * 4.0 / first[0], first[1] + 0.025 * 1.0 / first[1]];
    let scale = 2.0 / (moved[0] + moved[1]);
    close(balance.weights(), &[moved[0] * scale, moved[1] * scale]);
}

#[test]
fn alpha_is_the_power_of_the_relative_rate() {
    // Rates of 2/3 and 4/3, norms of 1 with a mean of 1: with so high a learning rate each weight ends on its target.
    for alpha in [0.0, 1.5] {
        let mut balance = grad_norm(alpha, 1e3, 2);
        balance.observe(&all([4.0, 4.0]), &all([1.0, 1.0]));
        balance.observe(&all([2.0, 4.0]), &all([1.0, 1.0]));
        let targets = [2f64 / 3.0, 4.0 / 3.0].map(|rate| rate.powf(alpha));
        let scale = 2.0 / (targets[0] + targets[1]);
        close(balance.weights(), &targets.map(|it| it * scale));
    }
}

/// Two tasks, each with a parameter of its own that starts 1 away from where it should be, and a loss of this scale.
fn train(balance: &mut TaskBalance, scales: [f64; 2], n_steps: u32) -> [f64; 2] {
    let mut errors = [1f64; 2];
    for _ in 0..n_steps {
        let weights = [balance.weights()[0], balance.weights()[1]];
        let losses = [0, 1].map(|task| Some(scales[task] * errors[task].powi(2) / 2.0));
        let norms = [0, 1].map(|task| Some(weights[task] * scales[task] * errors[task]));
        balance.observe(&losses, &norms);
        for task in [0, 1] {
            errors[task] -= 0.001 * weights[task] * scales[task] * errors[task];
        }
    }
    errors
}

#[test]
fn losses_of_very_different_scales_are_learnt_alike() {
    let mut fixed = TaskBalance::try_new(&BalanceConfig::Fixed { weights: Vec::new() }, 2).unwrap();
    let [small, large] = train(&mut fixed, [1.0, 100.0], 400);
    assert!(small > 0.6 && large < 1e-6, "{small} {large}: the problem is too easy");
    let mut balance = grad_norm(1.5, 0.025, 2);
    let [small, large] = train(&mut balance, [1.0, 100.0], 400);
    assert!((small / large - 1.0).abs() < 0.1 && small < 0.5, "{small} {large}");
    // Their gradients are of one size now, but for what the slower one is given more.
    let weights = balance.weights();
    let norms = (weights[0] * small) / (weights[1] * 100.0 * large);
    let rates = (small / large).powi(2);
    assert!((norms / rates.powf(1.5) - 1.0).abs() < 0.02, "{norms} {rates}");
    assert!((weights[0] + weights[1] - 2.0).abs() < 1e-9);
}

#[test]
fn a_task_that_a_step_does_not_have_keeps_its_weight() {
    let mut balance = grad_norm(1.5, 0.025, 3);
    balance.observe(&[Some(1.0), None, Some(1.0)], &[Some(3.0), None, Some(1.0)]);
    let weights = balance.weights().to_vec();
    assert!(weights[0] < 1.0 && 1.0 < weights[2], "{weights:?}");
    close(&[weights[1], weights[0] + weights[2]], &[1.0, 2.0]);
    // One task alone has nothing to be compared with, and a loss or a norm of nothing says nothing.
    balance.observe(&[None, Some(1.0), None], &[None, Some(9.0), None]);
    balance.observe(&[Some(0.0), Some(1.0), None], &[Some(1.0), Some(9.0), None]);
    balance.observe(&[Some(1.0), Some(1.0), None], &[Some(0.0), Some(9.0), None]);
    balance.observe(&[Some(f64::NAN), Some(1.0), None], &[Some(1.0), Some(9.0), None]);
    balance.observe(&[Some(1.0), Some(1.0), None], &[None, None, None]);
    assert_eq!(balance.weights(), weights);
}

#[test]
fn a_balance_goes_on_from_what_was_written_of_it() {
    let mut balance = grad_norm(1.5, 0.025, 2);
    balance.observe(&all([4.0, 10.0]), &all([3.0, 1.0]));
    let mut again: TaskBalance = serde_json::from_str(&serde_json::to_string(&balance).unwrap()).unwrap();
    for it in [&mut balance, &mut again] {
        it.observe(&all([2.0, 10.0]), &all([4.0, 1.0]));
    }
    assert_eq!(balance, again);
    assert_eq!(balance.settings(), grad_norm(1.5, 0.025, 2).settings());
    assert_ne!(balance.settings(), grad_norm(1.0, 0.025, 2).settings());
}

#[test]
fn fixed_weights_add_up_to_the_number_of_tasks() {
    let mut balance = TaskBalance::try_new(&BalanceConfig::Fixed { weights: vec![1.0, 3.0] }, 2).unwrap();
    balance.observe(&all([4.0, 10.0]), &all([3.0, 1.0]));
    close(balance.weights(), &[0.5, 1.5]);
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let refused = |config: BalanceConfig| TaskBalance::try_new(&config, 2).unwrap_err().to_string();
    let fixed = |weights: &[f64]| refused(BalanceConfig::Fixed { weights: weights.to_vec() });
    assert_eq!(
        fixed(&[1.0]),
        "balance the tasks: `tasks.weights` has 1 numbers for 2 tasks; give one for each, or none"
    );
    assert_eq!(fixed(&[1.0, 0.0]), "balance the tasks: `tasks.weights` has 0, each must be above 0");
    let measured = grad_norm(1.5, 0.025, 2).check(0).unwrap_err().to_string();
    assert!(measured.contains("each of 2 tasks, the job measures 0"), "{measured}");
    let grad_norm = |alpha, learning_rate| refused(BalanceConfig::GradNorm { alpha, learning_rate });
    assert_eq!(grad_norm(-1.0, 0.1), "balance the tasks: `tasks.alpha` is -1, it must be a number at least 0");
    assert_eq!(grad_norm(1.5, 0.0), "balance the tasks: `tasks.learning_rate` is 0, it must be a number above 0");
}
