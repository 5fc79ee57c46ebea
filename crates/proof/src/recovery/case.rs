//! What is simulated.

use super::rig::Kind;
use super::weather::Disturbance;

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// The policy.
    pub kind: Kind,
    /// What comes and goes.
    pub disturbance: Disturbance,
    /// How far the readings of equal steps may differ, as a share.
    pub noise: f64,
}

/// Returns every disturbance without noise but for the last, and every noise without a disturbance, for both policies.
pub fn cases() -> Vec<Case> {
    let co_tenant = |share, steps| Disturbance::CoTenant { share, steps };
    let worlds = [
        ("co-tenant, hours, 30 %", co_tenant(0.3, 7200.0), 0.0),
        ("co-tenant, minutes, 7 %", co_tenant(0.07, 240.0), 0.0),
        ("co-tenant, minutes, 30 %", co_tenant(0.3, 240.0), 0.0),
        ("co-tenant, seconds, 20 %", co_tenant(0.2, 10.0), 0.0),
        ("co-tenant, hours, 5 %", co_tenant(0.05, 7200.0), 0.0),
        ("bursts of a loader", Disturbance::Bursts { share: 0.25, every: 600.0 }, 0.0),
        ("slow leak", Disturbance::Leak { share: 0.4, steps: 20_000 }, 0.0),
        ("capacity halves", Disturbance::Halves { steps: 5000 }, 0.0),
        ("noise 0 %", Disturbance::Calm, 0.0),
        ("noise 1 %", Disturbance::Calm, 0.01),
        ("noise 2 %", Disturbance::Calm, 0.02),
        ("noise 5 %", Disturbance::Calm, 0.05),
        ("mixed, noise 2 %", Disturbance::Mixed, 0.02),
    ];
    let of = |kind| worlds.map(|(name, disturbance, noise)| Case { name, kind, disturbance, noise });
    [of(Kind::Certified), of(Kind::Bucketed)].concat()
}
