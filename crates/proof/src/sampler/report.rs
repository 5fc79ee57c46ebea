//! What came of all cases.

use serde::Serialize;

use super::changes::Changes;
use super::compared::Compared;
use super::mixture::Mixture;
use super::packed::Packed;
use super::resume::Resume;
use super::row::Row;
use super::target::Target;

/// What came of all cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What the times are.
    pub clock: &'static str,
    /// One row per case.
    pub rows: Vec<Row>,
    /// Packing into rows.
    pub packed: Vec<Packed>,
    /// Going on in the middle of an epoch.
    pub resume: Resume,
    /// Following another rule in the middle of an epoch.
    pub changes: Vec<Changes>,
    /// Steps of several sources with shares, with the default weight of diversity and with all of it.
    pub mixtures: Vec<Mixture>,
    /// The rules of other tools on the same lengths, each set's after ours.
    pub peers: Vec<Compared>,
    /// What is asked, and whether it is met.
    pub targets: Vec<Target>,
}
