//! What would make steps larger where memory is left?

use std::fmt::Write;

use plimsoll_types::{Knobs, RunStarted};

use crate::limit::Limit;
use crate::policy::Policy;
use crate::step_settings::{Bound, ChosenBy, Origin, StepSettings};
use crate::tail::Last;
use crate::text::unit_of_length;

/// What bounds the sizes of a step, and what takes more.
pub(crate) struct Levers<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) settings: &'a StepSettings,
    pub(crate) start: &'a RunStarted,
    pub(crate) last: &'a Last,
}

/// Something that keeps steps from being larger.
struct Lever {
    /// What it is, as the end of "the limit was".
    what: String,
    /// The key that moves it; none where no key does.
    key: Option<String>,
    /// Whether a larger one changes what is learnt.
    is_learnt: bool,
}

impl Levers<'_> {
    /// Names what kept steps from being larger, and, where memory is left, what would make them so.
    pub(crate) fn told(&self, limit: Limit, is_room: bool) -> String {
        let levers = self.levers(limit);
        let whats: Vec<_> = levers.iter().map(|it| it.what.clone()).collect();
        let be = if whats.len() == 1 { "limit was" } else { "limits were" };
        let whole = if limit == Limit::EffectiveBatch { ": a micro-batch holds all that a step has" } else { "" };
        let mut text = format!("The {be} {}{whole}.", listed(&whats));
        for (is_learnt, brings) in
            [(false, "takes more memory for the same step"), (true, "takes more memory, and changes what is learnt")]
        {
            let keys: Vec<_> =
                levers.iter().filter(|it| it.is_learnt == is_learnt).filter_map(|it| it.key.clone()).collect();
            if is_room && !keys.is_empty() {
                let _ = write!(text, " A larger {} {brings}.", keys.join(" or "));
            }
        }
        text + self.finds(limit)
    }

    /// Names the effective batch.
    pub(crate) fn effective(&self) -> String {
        let unit = if self.settings.effective_unit.is_empty() { "samples" } else { &self.settings.effective_unit };
        format!("the effective batch of {} {unit}", self.start.effective_batch_size)
    }

    /// Names the key that must be larger with the effective batch: a micro-batch holds all of it, and would not hold more.
    fn also(&self) -> &'static str {
        match (self.settings.chosen_by, self.settings.batch_max.map(|it| it.origin)) {
            _ if self.has_lengths() => "",
            (ChosenBy::BatchSize, _) => " (with a larger `batch.batch_size`)",
            (ChosenBy::Policy | ChosenBy::FixedPolicy, Some(Origin::Set | Origin::Preset)) => {
                " (with a larger `batch.batch_max`)"
            }
            _ => "",
        }
    }

    fn levers(&self, limit: Limit) -> Vec<Lever> {
        let of_step = match limit {
            Limit::EffectiveBatch => {
                let key = "`batch.effective_batch_size`".to_owned() + self.also();
                Lever { what: self.effective(), key: Some(key), is_learnt: true }
            }
            Limit::Fixed => self.given(),
            _ => Lever {
                what: bound("batch.batch_max", self.settings.batch_max, self.policy.batch_max) + &self.fewer(),
                key: Some("`batch.batch_max`".to_owned()),
                is_learnt: false,
            },
        };
        self.patch().into_iter().chain([of_step]).collect()
    }

    /// Names the largest patch, where samples are cut to it.
    fn patch(&self) -> Option<Lever> {
        let Self { policy, settings, start, last } = self;
        if self.has_lengths() || (policy.patch_max, settings.patch_max) == (None, None) {
            return None;
        }
        let is_top = policy.tops(last.rung, start.effective_batch_size, settings).patch;
        let of_samples = settings.patch_max.filter(|it| it.origin == Origin::Data);
        let lever = match of_samples {
            Some(Bound { most, .. }) => {
                Lever { what: format!("the smallest image (patch {most})"), key: None, is_learnt: true }
            }
            None => Lever {
                what: bound("batch.patch_max", settings.patch_max, policy.patch_max),
                key: Some("`batch.patch_max`".to_owned()),
                is_learnt: true,
            },
        };
        is_top.then_some(lever)
    }

    /// Names the sizes that were given or found, and never change.
    fn given(&self) -> Lever {
        let Knobs { patch_size, micro_batch_size } = self.last.rung;
        let n = self.policy.batch_max.unwrap_or(micro_batch_size);
        let sizes = if self.has_lengths() {
            format!("batch {micro_batch_size} of {patch_size} {}", self.unit())
        } else {
            self.last.rung.to_string()
        };
        let (what, key) = match self.settings.chosen_by {
            ChosenBy::BatchSize => (format!("`batch.batch_size = {n}`"), Some("`batch.batch_size`".to_owned())),
            ChosenBy::Search => (format!("the batch of {n} that `batch.batch_size = \"auto\"` found"), None),
            ChosenBy::FixedPolicy => (format!("what `policy.kind = \"fixed\"` keeps: {sizes}"), None),
            ChosenBy::Plan => (format!("what the plan was certain of: {sizes}"), None),
            ChosenBy::Policy => (format!("the sizes that were given, and never change: {sizes}"), None),
        };
        Lever { what: what + &self.fewer(), key, is_learnt: false }
    }

    /// Says what finds larger sizes where they were given.
    const fn finds(&self, limit: Limit) -> &'static str {
        match (limit, self.settings.chosen_by) {
            (Limit::Fixed, ChosenBy::BatchSize) => {
                " `batch.batch_size = \"adaptive\"` with `policy.kind = \"certified\"` finds how much fits."
            }
            (Limit::Fixed, ChosenBy::Search) => {
                " `batch.batch_size = \"adaptive\"` with `policy.kind = \"certified\"` follows what there is."
            }
            (Limit::Fixed, ChosenBy::FixedPolicy) => " `policy.kind = \"certified\"` finds how much fits.",
            _ => "",
        }
    }

    /// Says so where the longest samples have smaller batches, which only memory makes them.
    fn fewer(&self) -> String {
        let unit = self.unit();
        self.policy.fewer().map_or_else(String::new, |(n, edge)| format!(" (of {edge} {unit} no more than {n} fit)"))
    }

    /// Returns what a length counts.
    fn unit(&self) -> &str {
        unit_of_length(&self.start.unit_of_length)
    }

    fn has_lengths(&self) -> bool {
        !self.policy.cells.is_empty() || self.settings.batches_per_step.is_some()
    }
}

/// Writes a key with its value, and who has set it if nobody has.
fn bound(key: &str, bound: Option<Bound>, most: Option<u32>) -> String {
    let most = bound.map(|it| it.most).or(most).map_or_else(String::new, |it| format!(" = {it}"));
    let by = if bound.is_some_and(|it| it.origin == Origin::Preset) { " (the preset's)" } else { "" };
    format!("`{key}{most}`{by}")
}

/// Writes a list as a sentence has it: "8, 8 and 7".
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => items.concat(),
    }
}
