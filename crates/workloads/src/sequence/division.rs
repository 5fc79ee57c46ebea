//! Which recordings are trained on, validated on and tested on.

use std::collections::{BTreeMap, BTreeSet};

use super::config::RecordingsConfig;
use super::fault::DataError;
use super::labels::Row;
use super::recording::Recording;
use crate::split::Divided;

/// A line of the list with its length, and the number of its label.
type Found = (Row, u32);

/// Divides recordings by their groups, where there are such, and else those of each label, so that no label lacks in any
/// part by chance; what is held out comes shortest first, and what is trained on by its source.
pub(super) fn divided(
    found: Vec<Found>,
    (classes, sources): (&[String], &[String]),
    config: &RecordingsConfig,
) -> Result<Divided<Recording>, DataError> {
    let divided = match &config.group_column {
        Some(column) => by_group(found, column, config)?,
        None => by_label(found, config),
    };
    let groups: BTreeSet<_> = found_groups(&divided).map(str::to_owned).collect();
    let groups: Vec<_> = groups.into_iter().collect();
    let recording = |(row, n_frames): Found| {
        let class = classes.iter().position(|it| *it == row.label).unwrap_or(0);
        let source = row.source.as_ref().and_then(|it| sources.binary_search(it).ok()).unwrap_or(0);
        let source = u16::try_from(source).unwrap_or(u16::MAX);
        let together = row.together.as_ref().and_then(|it| groups.binary_search(it).ok()).unwrap_or(0);
        let together = u32::try_from(together).unwrap_or(u32::MAX);
        Recording { name: row.path, class, source, together, weight: row.weight, n_frames, number: 0 }
    };
    let mut divided = divided.map(|part| part.into_iter().map(recording).collect());
    divided.train.sort_by_key(|it| (it.source, it.class));
    for part in [&mut divided.validation, &mut divided.test] {
        part.sort_by_key(|it| (it.n_frames, it.class));
    }
    let all = [&mut divided.train, &mut divided.validation, &mut divided.test].into_iter().flatten();
    (0..).zip(all).for_each(|(number, it)| it.number = number);
    Ok(divided)
}

/// Returns what recordings stay together with.
fn found_groups(divided: &Divided<Found>) -> impl Iterator<Item = &str> {
    let all = divided.train.iter().chain(&divided.validation).chain(&divided.test);
    all.filter_map(|(row, _)| row.together.as_deref())
}

fn by_label(found: Vec<Found>, config: &RecordingsConfig) -> Divided<Found> {
    let mut of_label: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for it in found {
        of_label.entry(it.0.label.clone()).or_default().push(it);
    }
    let mut divided = Divided::default();
    for (group, of_label) in (0..).zip(of_label.into_values()) {
        divided.extend(config.shares.divide(group, of_label));
    }
    divided
}

/// Holds out whole groups: a share of them, whatever they hold.
fn by_group(found: Vec<Found>, column: &str, config: &RecordingsConfig) -> Result<Divided<Found>, DataError> {
    let mut of_group: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for it in found {
        of_group.entry(it.0.group.clone().unwrap_or_default()).or_default().push(it);
    }
    let n_groups = of_group.len();
    let divided = config.shares.divide(0, of_group.into_values().collect());
    let divided = divided.map(|groups| groups.into_iter().flatten().collect());
    let (folder, wants_test) = (config.folder.clone(), 0.0 < config.shares.test);
    let lacks = match &divided {
        Divided { validation, .. } if validation.is_empty() => Some("validate on"),
        Divided { test, .. } if wants_test && test.is_empty() => Some("test on"),
        _ => None,
    };
    if let Some(lacks) = lacks {
        let (column, needed) = (column.to_owned(), 2 + usize::from(wants_test));
        return Err(DataError::Groups { folder, column, found: n_groups, lacks, needed });
    }
    match untrained(&divided) {
        None => Ok(divided),
        Some((label, groups)) => Err(DataError::OneGroup { folder, column: column.to_owned(), label, groups }),
    }
}

/// Returns a label that is held out and has nothing to train on, with the groups that have it.
fn untrained(divided: &Divided<Found>) -> Option<(String, Vec<String>)> {
    let held_out = || divided.validation.iter().chain(&divided.test);
    let is_trained = |label: &str| divided.train.iter().any(|(row, _)| row.label == label);
    let (row, _) = held_out().find(|(row, _)| !is_trained(&row.label))?;
    let mut groups: Vec<_> =
        held_out().filter(|it| it.0.label == row.label).filter_map(|it| it.0.group.clone()).collect();
    groups.sort();
    groups.dedup();
    Some((row.label.clone(), groups))
}
