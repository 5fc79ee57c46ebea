//! Which tasks a data set has.

use super::lines::Task;

/// The tasks of a data set, numbered from 0 in the order of [`Task::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tasks([bool; Task::ALL.len()]);

impl Tasks {
    /// Returns those of some samples.
    pub(crate) fn of(tasks: impl Iterator<Item = Task>) -> Self {
        let mut has = [false; Task::ALL.len()];
        tasks.for_each(|task| has[task as usize] = true);
        Self(has)
    }

    /// Returns them in the order of their numbers.
    pub(crate) fn iter(self) -> impl Iterator<Item = Task> {
        Task::ALL.into_iter().filter(move |task| self.0[*task as usize])
    }

    /// Returns how many there are.
    pub(crate) fn len(self) -> usize {
        self.iter().count()
    }

    /// Returns the number of one of them.
    pub(crate) fn number(self, task: Task) -> u16 {
        u16::from(self.0[..task as usize].iter().map(|it| u8::from(*it)).sum::<u8>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_are_there_are_numbered_without_gaps() {
        let all = Tasks::of(Task::ALL.into_iter().rev());
        assert_eq!(all.iter().map(|it| all.number(it)).collect::<Vec<_>>(), [0, 1, 2]);
        let two = Tasks::of([Task::Pair, Task::Single, Task::Pair].into_iter());
        assert_eq!(two.iter().map(|it| (it, two.number(it))).collect::<Vec<_>>(), [(Task::Single, 0), (Task::Pair, 1)]);
        assert_eq!((all.len(), two.len(), Tasks::of([].into_iter()).len()), (3, 2, 0));
    }
}
