//! The steps as a table, which a reader of comma-separated values must understand.

use insta::assert_snapshot;
use plimsoll_monitor::{StepsCsv, Table};
use plimsoll_types::{Event, RunStarted, StepDone, TaskStep};

use crate::exposition::SUPPLY;
use crate::run;

const PAGE: &str = include_str!("../../../../docs/tools.md");

/// Splits a line of which no cell holds a line of its own.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for it in line.chars() {
        match it {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("a cell").push(it),
        }
    }
    cells
}

#[test]
fn a_row_for_each_step_has_a_cell_for_each_column() {
    assert_snapshot!(StepsCsv::default().of(&run::small()));
}

#[test]
fn every_column_is_documented() {
    let table = StepsCsv::default().of(&[]);
    let names = cells(table.trim_end());
    assert!(20 < names.len(), "{names:?}");
    for name in names {
        assert!(PAGE.contains(&format!("| `{name}` |")), "docs/tools.md lacks {name}");
    }
}

#[test]
fn a_stream_fills_the_columns_of_what_is_read_ahead() {
    let step = StepDone { supply: Some(SUPPLY), ..run::step(0, run::knobs(16, 4)) };
    let table = StepsCsv::default().of(&[Event::StepDone(step)]);
    let rows: Vec<_> = table.lines().map(cells).collect();
    let of = |name: &str| rows[1][rows[0].iter().position(|it| it == name).unwrap()].as_str();
    assert_eq!((of("stream_workers"), of("stream_waited_seconds"), of("stream_ready_steps")), ("2", "0.125", "3"));
    assert_eq!(
        (of("stream_buffer_samples"), of("stream_buffer_bytes"), of("stream_buffer_fill")),
        ("40", "2097152", "0.5")
    );
}

#[test]
fn a_task_has_columns_of_its_name_whatever_that_is() {
    let Event::RunStarted(start) = run::started(2) else { unreachable!("a start") };
    let tasks = vec!["same, \"or\" not".to_owned(), "digit".to_owned()];
    let of_tasks = vec![TaskStep { samples: 4, loss: None, gradient_norm: None, weight: 0.5 }];
    let step = StepDone { tasks: of_tasks, loss: f64::NAN, ..run::step(0, run::knobs(16, 4)) };
    let table = StepsCsv::default().of(&[Event::RunStarted(RunStarted { tasks, ..start }), Event::StepDone(step)]);
    let rows: Vec<_> = table.lines().map(cells).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert_eq!(rows[0].len(), rows[1].len());
    let of = |name: &str| rows[1][rows[0].iter().position(|it| it == name).unwrap()].as_str();
    assert_eq!((of("same, or not_samples"), of("same, or not_weight"), of("same, or not_loss")), ("4", "0.5", ""));
    // A task that the step does not tell of, and a loss that is no number.
    assert_eq!((of("digit_samples"), of("loss")), ("", ""));
}
