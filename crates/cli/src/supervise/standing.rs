//! Where a run stands, as its directory tells a process that does not train.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use plimsoll_train::{EVENTS_FILE, last_process, log_tail};
use plimsoll_types::{Bytes, Decision, Event, Knobs};

/// The end of the log that is read: a step is a line, seldom of more than some KiB.
const TAIL: u64 = 1 << 20;

/// Where a run stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The last step in the log.
    pub(super) step: Option<u64>,
    /// The knobs that came after it.
    pub(super) rung: Option<Knobs>,
    /// The batch size of each edge, where they have been changed of late.
    pub(super) sizes: Vec<u32>,
    /// Whether activations are recomputed, as far as the end of the log tells.
    pub(super) is_checkpointing: bool,
    /// The capacity then.
    pub(super) capacity: Option<Bytes>,
    /// The last checkpoint.
    pub(super) checkpoint: Option<u64>,
}

impl Standing {
    /// Reads what there is; a run that has written nothing stands nowhere.
    pub(super) fn of(run: &Path) -> Self {
        let mut standing = Self { checkpoint: last_checkpoint(run), ..Self::default() };
        let tail = log_tail(run, TAIL).unwrap_or_default();
        // The first line and the last may be parts of lines.
        let events = tail.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        events.for_each(|event| standing.follow(&event));
        standing
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::RunStarted(head) => (self.rung, self.capacity) = (Some(head.knobs), Some(head.budget.capacity)),
            Event::GradientCheckpointing(_) => self.is_checkpointing = true,
            Event::BudgetChanged(changed) => self.capacity = Some(changed.budget.capacity),
            Event::StepDone(done) => (self.step, self.rung) = (Some(done.step), Some(done.rung)),
            Event::Decided(decided) => match &decided.decision {
                Decision::Move(change) => self.rung = Some(change.to),
                Decision::Resize(resize) => {
                    if let (Some(rung), Some(size)) = (&mut self.rung, resize.to.last()) {
                        rung.micro_batch_size = *size;
                    }
                    self.sizes.clone_from(&resize.to);
                }
                _ => (),
            },
            _ => (),
        }
    }
}

/// Tells one log from another that takes its place.
pub(super) fn identity(run: &Path) -> Option<(u64, u64)> {
    fs::metadata(run.join(EVENTS_FILE)).ok().map(|it| (it.dev(), it.ino()))
}

/// Returns the machine of each rank of the last process that worked on a run.
pub(super) fn machines_of(run: &Path) -> Vec<String> {
    last_process(run).map(|it| it.machines).unwrap_or_default()
}

fn last_checkpoint(run: &Path) -> Option<u64> {
    let entries = fs::read_dir(run.join("checkpoints")).ok()?.flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use plimsoll_monitor::encode;
    use plimsoll_types::{Change, Decided, MoveReason};

    use super::*;

    fn knobs(micro_batch_size: u32) -> Knobs {
        Knobs { patch_size: 32, micro_batch_size }
    }

    #[test]
    fn the_tail_of_a_log_that_was_cut_short_tells_the_last_rung() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Standing::of(folder.path()), Standing::default());
        let change = Change { from: knobs(2), to: knobs(8), reason: MoveReason::OutOfMemory { count: 1 } };
        let moved = encode(&Event::Decided(Decided { step: 4, decision: Decision::Move(change) }));
        fs::write(folder.path().join(EVENTS_FILE), format!("cut off\"}}\n{moved}{}", &moved[..20])).unwrap();
        for name in ["step-00000005", "step-00000010", "unfinished", "best.json"] {
            fs::create_dir_all(folder.path().join("checkpoints").join(name)).unwrap();
        }
        let expected = Standing { rung: Some(knobs(8)), checkpoint: Some(10), ..Standing::default() };
        assert_eq!(Standing::of(folder.path()), expected);
    }
}
