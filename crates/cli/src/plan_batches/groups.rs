//! Samples that stay together.

use std::path::Path;

use plimsoll_sampler::{Admitted, Groups, PackError, PackPlanner, PackedRows, PlanError, SamplerError};
use plimsoll_sampler::{BatchPlanner, GroupRule, PackConfig, PaddedBudget, PlanConfig};

use super::lengths::{kept, read_groups};
use crate::exit::{UserError, user_error};

/// Groups, and how they are called in a file.
pub(super) struct NamedGroups {
    pub(super) groups: Groups,
    names: Vec<String>,
}

impl NamedGroups {
    /// Reads the group of each of so many samples, and keeps those of the samples that take part.
    pub(super) fn read(path: &Path, n_read: usize, admitted: &Admitted) -> Result<Self, UserError> {
        let (names, of_all) = read_groups(path, n_read)?;
        let of_kept = kept(&admitted.ids, &of_all);
        let lengths: Vec<u32> = admitted.index.iter().map(|[length]| length).collect();
        let groups = Groups::try_new(&lengths, &of_kept).map_err(|error| user_error(error.to_string()))?;
        Ok(Self { groups, names })
    }

    pub(super) fn planner(
        &self,
        budget: PaddedBudget<1>,
        config: PlanConfig<1>,
    ) -> Result<BatchPlanner<GroupRule<PaddedBudget<1>>, 2>, UserError> {
        self.groups.planner(budget, config).map_err(|error| self.refused(error.into()))
    }

    pub(super) fn pack_planner(&self, config: PackConfig) -> Result<PackPlanner, UserError> {
        self.groups.pack_planner(config).map_err(|error| self.refused(error.into()))
    }

    pub(super) fn rows(&self, of_groups: &PackedRows) -> PackedRows {
        self.groups.rows(of_groups)
    }

    /// Says what cannot be planned, with the group's own name.
    fn refused(&self, error: SamplerError) -> UserError {
        let name = |group: u32| &self.names[group as usize];
        user_error(match error {
            SamplerError::Plan(PlanError::GroupAboveBudget { group, n_samples, length, capacity }) => format!(
                "plan batches: group `{}` has {n_samples} samples, the longest of length {length}, and the budget has room \
                 for {capacity} of these",
                name(group)
            ),
            SamplerError::Pack(PackError::GroupBeyondRow { group, length, limit }) => {
                format!("plan batches: group `{}` has {length} positions, and a row has room for {limit}", name(group))
            }
            other => other.to_string(),
        })
    }
}
