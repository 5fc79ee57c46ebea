//! A certificate as it is written: observations only.

use plimsoll_types::Features;
use serde::{Deserialize, Serialize};

use super::{Certificate, Graphs, ShapeNeed};
use crate::PredictError;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    features: Features,
    needs: Vec<ShapeNeed>,
    spare: Vec<u32>,
    graphs: Graphs,
}

impl TryFrom<State> for Certificate {
    type Error = PredictError;

    fn try_from(state: State) -> Result<Self, PredictError> {
        let State { features, needs, spare, graphs } = state;
        let mut certificate = Self::try_new(features, needs)?;
        if graphs.are_for(certificate.needs.len()) {
            certificate.graphs = graphs;
        }
        if certificate.has_tables() {
            certificate.revalue();
        }
        if certificate.spare.len() == spare.len() {
            certificate.spare = spare;
        }
        Ok(certificate)
    }
}

impl From<Certificate> for State {
    fn from(certificate: Certificate) -> Self {
        let Certificate { features, needs, spare, graphs, .. } = certificate;
        Self { features, needs, spare, graphs }
    }
}
