//! What the four policies share, and how they are configured.

use plimsoll_policy::{
    Bounds, BucketedConfig, CertifiedConfig, FixedConfig, Policy, PolicyConfig, Signal, StepwiseConfig,
};
use plimsoll_types::Recompute;

use crate::scene::Then::{Budget, OutOfMemory, Peak};
use crate::scene::{check, failed, knobs, policy, unknown};

fn all() -> [PolicyConfig; 4] {
    [
        PolicyConfig::default(),
        PolicyConfig::Bucketed(BucketedConfig { cells: vec![16, 32].into(), ..BucketedConfig::default() }),
        PolicyConfig::Stepwise(StepwiseConfig::default()),
        PolicyConfig::Fixed(FixedConfig::of(knobs(32, 8))),
    ]
}

#[test]
fn a_fixed_policy_never_moves() {
    let mut fixed = policy(PolicyConfig::Fixed(FixedConfig::of(knobs(32, 8))));
    let keep = "keep: the policy is fixed";
    check(&mut fixed, 100, &unknown, &[(Peak(1), keep), (Peak(200), keep), (OutOfMemory(99), keep), (Budget(1), keep)]);
    assert_eq!((fixed.knobs(), fixed.adjustments(), fixed.oom_count()), (knobs(32, 8), 0, 1));
}

#[test]
fn that_activations_are_recomputed_is_no_question() {
    for mut policy in all().map(policy) {
        let knobs = policy.knobs();
        assert_eq!(policy.on_signal(&Signal::Checkpointing(Recompute::ALWAYS), &unknown), None, "{}", policy.name());
        assert_eq!(policy.knobs(), knobs);
    }
}

#[test]
fn the_certified_policy_has_a_ladder_and_the_bucketed_one_has_sizes() {
    let shown = all().map(policy).map(|it| (it.name(), it.ladder().is_some()));
    assert_eq!(shown, [("certified", true), ("bucketed", false), ("stepwise", false), ("fixed", false)]);
    assert_eq!(all().map(policy).map(|it| it.batch_sizes().is_some()), [false, true, false, false]);
}

#[test]
fn a_configuration_names_its_kind_and_leaves_the_rest_to_defaults() {
    let read = |text| serde_json::from_str::<PolicyConfig>(text);
    assert_eq!(read(r#"{"kind":"certified"}"#).unwrap(), PolicyConfig::default());
    assert_eq!(
        read(r#"{"kind":"stepwise","target":0.9,"bounds":{"patch_multiple":8}}"#).unwrap(),
        PolicyConfig::Stepwise(StepwiseConfig {
            target: 0.9,
            bounds: Bounds { patch_multiple: 8, ..Bounds::default() },
            ..StepwiseConfig::default()
        })
    );
    assert!(read(r#"{"kind":"fixed"}"#).unwrap_err().to_string().contains("knobs"));
    for (text, key) in [
        (r#"{"kind":"certified","patience":1}"#, "patience"),
        (r#"{"kind":"bucketed","edge":[1]}"#, "edge"),
        (r#"{"kind":"stepwise","bounds":{"batch":1}}"#, "batch"),
        (r#"{"kind":"fixed","knobs":{"patch_size":1,"micro_batch_size":1},"extra":1}"#, "extra"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
    }
}

#[test]
fn a_value_that_is_not_allowed_is_named_with_its_range() {
    #[track_caller]
    fn check(config: PolicyConfig, message: &str) {
        assert_eq!(Policy::try_new(config).unwrap_err().to_string(), message);
    }
    let certified = CertifiedConfig::default;
    let refuse = |config, message| check(PolicyConfig::Certified(config), message);
    refuse(CertifiedConfig { raise_below: 0.999, ..certified() }, "raise_below is 0.999, allowed is 0.5 to 0.995");
    refuse(CertifiedConfig { lower_above: 1.01, ..certified() }, "lower_above is 1.01, allowed is 0.5 to 1");
    refuse(CertifiedConfig { noise: f64::NAN, ..certified() }, "noise is NaN, allowed is 0 to 0.25");
    refuse(CertifiedConfig { retreat_to: 2.0, ..certified() }, "retreat_to is 2, allowed is 0 to 1");
    refuse(CertifiedConfig { min_samples: 0, ..certified() }, "min_samples is 0, allowed is 1 to 10000");
    refuse(CertifiedConfig { min_gain: -0.1, ..certified() }, "min_gain is -0.1, allowed is 0 to 1");
    refuse(
        CertifiedConfig { reopen_after_steps: 0, ..certified() },
        "reopen_after_steps is 0, allowed is 1 to 1000000000",
    );
    refuse(
        CertifiedConfig { start: Some(knobs(40, 3)), ..certified() },
        "start is patch 40, batch 3, allowed is a rung of the ladder from patch 32, batch 2 to patch 256, batch 64",
    );
    let bucketed = || BucketedConfig { cells: vec![8, 16].into(), ..BucketedConfig::default() };
    let refuse = |config, message: &str| check(PolicyConfig::Bucketed(config), message);
    for (edges, shown) in [(vec![], "[]"), (vec![0, 8], "[0, 8]"), (vec![8, 8], "[8, 8]")] {
        let message = format!(
            "edges is {shown}, allowed is edges that grow from 1, or cells of as many axes, none before one that it covers, the last of which covers all"
        );
        refuse(BucketedConfig { cells: edges.into(), ..bucketed() }, &message);
    }
    for (start, shown) in [(vec![4], "[4]"), (vec![4, 5], "[4, 5]"), (vec![4, 0], "[4, 0]"), (vec![65, 4], "[65, 4]")] {
        let message =
            format!("start is {shown}, allowed is 2 sizes from 1 to 64, none above that of a cell that its own covers");
        refuse(BucketedConfig { start: Some(start), ..bucketed() }, &message);
    }
    refuse(BucketedConfig { batch_max: 0, ..bucketed() }, "batch_max is 0, allowed is 1 to 1048576");
    refuse(BucketedConfig { raise_below: 1.0, ..bucketed() }, "raise_below is 1, allowed is 0.5 to 0.995");
    refuse(BucketedConfig { noise: -1.0, ..bucketed() }, "noise is -1, allowed is 0 to 0.25");
    refuse(BucketedConfig { min_gain: 2.0, ..bucketed() }, "min_gain is 2, allowed is 0 to 1");
    refuse(
        BucketedConfig { reopen_after_steps: 0, ..bucketed() },
        "reopen_after_steps is 0, allowed is 1 to 1000000000",
    );
    let stepwise = StepwiseConfig::default;
    let refuse = |config, message| check(PolicyConfig::Stepwise(config), message);
    refuse(StepwiseConfig { target: 1.5, ..stepwise() }, "target is 1.5, allowed is 0.1 to 1");
    refuse(StepwiseConfig { dead_band: 0.9, ..stepwise() }, "dead_band is 0.9, allowed is 0 to 0.85");
    refuse(
        StepwiseConfig { start: Some(knobs(16, 2)), ..stepwise() },
        "start is patch 16, batch 2, allowed is patch 32 to 256 in multiples of 1, batch 2 to 64",
    );
    check(
        PolicyConfig::Fixed(FixedConfig::of(knobs(0, 2))),
        "knobs is patch 0, batch 2, allowed is at least 1 for each",
    );
}

#[test]
fn sizes_that_are_fixed_stay_for_every_edge() {
    let sizes = |batch_sizes| PolicyConfig::Fixed(FixedConfig { batch_sizes, ..FixedConfig::of(knobs(32, 2)) });
    let mut fixed = policy(sizes(vec![8, 4, 2]));
    fixed.on_signal(&failed(3, knobs(32, 2)), &unknown);
    assert_eq!(fixed.batch_sizes(), Some(&[8, 4, 2][..]));
    let error = Policy::try_new(sizes(vec![2, 0])).unwrap_err();
    assert_eq!(error.to_string(), "batch_sizes is [2, 0], allowed is at least 1 for each");
}
