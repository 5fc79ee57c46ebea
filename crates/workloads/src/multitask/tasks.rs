//! The tasks of a data set, as its lines name them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::lines::{Asks, Line};

/// The most tasks of a data set: each has a head of its own.
pub(super) const MOST_TASKS: usize = 256;

/// What the two orders of two groups are called.
const ORDERS: [&str; 2] = ["as in the text", "exchanged"];

/// A task, with its place among the others in the order in which the list first names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name in the list.
    pub name: String,
    /// What it asks.
    pub asks: Asks,
    /// The answers that there are, in the order of the model's outputs.
    pub answers: Vec<String>,
}

/// Gathers the tasks of some lines, which name these subjects.
pub(super) fn tasks_of(lines: &[(usize, Line)], subjects: &[String]) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for (_, line) in lines {
        if tasks.iter().all(|it| it.name != line.task) {
            let answers = match line.asks {
                Asks::Subject => subjects.to_vec(),
                Asks::Label => labels(lines, &line.task),
                Asks::Order => ORDERS.map(str::to_owned).to_vec(),
            };
            tasks.push(Task { name: line.task.clone(), asks: line.asks, answers });
        }
    }
    tasks
}

fn labels(lines: &[(usize, Line)], task: &str) -> Vec<String> {
    let of_task = lines.iter().filter(|(_, line)| line.task == task).filter_map(|(_, line)| line.label.clone());
    Vec::from_iter(of_task.collect::<BTreeSet<_>>())
}

impl Task {
    /// Returns the answer to a line: that of an order is drawn anew whenever the line is.
    pub(super) fn answer(&self, line: &Line) -> usize {
        let answer = match self.asks {
            Asks::Subject => Some(&line.groups[0].subject),
            Asks::Label => line.label.as_ref(),
            Asks::Order => None,
        };
        answer.and_then(|answer| self.answers.binary_search(answer).ok()).unwrap_or(0)
    }
}

/// Returns the place of a task of this name.
pub(super) fn number(tasks: &[Task], name: &str) -> Option<u16> {
    tasks.iter().position(|it| it.name == name).and_then(|at| u16::try_from(at).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multitask::lines::parse;

    #[test]
    fn tasks_come_in_the_order_of_the_list_each_with_its_answers() {
        let of = |task: &str, subjects: &str, label: &str| {
            let line = format!(
                r#"{{"task":"{task}","subjects":[{subjects}],"images":["1","2"],"counts":[1,1],{label}"text":""}}"#
            );
            parse(line.as_bytes()).unwrap()
        };
        let lines = [
            of("mood", r#""a""#, r#""label":"sad","#),
            of("who", r#""b""#, ""),
            of("order", r#""a","b""#, ""),
            of("mood", r#""b""#, r#""label":"glad","#),
            of("whose", r#""a""#, ""),
        ];
        let lines: Vec<_> = (1..).zip(lines).collect();
        let subjects = ["a", "b"].map(str::to_owned);
        let tasks = tasks_of(&lines, &subjects);
        let told: Vec<_> = tasks.iter().map(|it| (it.name.as_str(), it.asks, it.answers.join(" "))).collect();
        assert_eq!(
            told,
            [
                ("mood", Asks::Label, "glad sad".to_owned()),
                ("who", Asks::Subject, "a b".to_owned()),
                ("order", Asks::Order, "as in the text exchanged".to_owned()),
                ("whose", Asks::Subject, "a b".to_owned()),
            ]
        );
        let answer = |line: usize| {
            let line = &lines[line].1;
            tasks[usize::from(number(&tasks, &line.task).unwrap())].answer(line)
        };
        assert_eq!([0, 1, 2, 3, 4].map(answer), [1, 1, 0, 0, 0]);
        assert_eq!(number(&tasks, "when"), None);
    }
}
