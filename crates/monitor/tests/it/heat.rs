use insta::assert_snapshot;
use plimsoll_monitor::{PlanCell, PlanSource, PlanView, plan_heat_map};
use plimsoll_types::{Bytes, Extent, StepShape};

use crate::plan;
use crate::plots::texts;

/// One row of cells, with a budget of 100 MiB.
pub(crate) fn row(reserved: &[Option<u64>]) -> PlanView {
    let cell = |(batch, mib): (u32, &Option<u64>)| PlanCell {
        shape: StepShape::new(batch, 64),
        reserved: mib.map(Bytes::mib),
        in_use: None,
        source: PlanSource::DryRun,
    };
    PlanView { budget: Bytes::mib(100), cells: (1..).zip(reserved).map(cell).collect(), ..PlanView::default() }
}

#[test]
fn a_heat_map_says_what_it_shows() {
    assert_snapshot!(texts(&plan_heat_map(&plan::small())));
}

#[test]
fn labels_that_have_no_room_are_left_out() {
    let plot = plan_heat_map(&plan::large());
    let lines = texts(&plot);
    let labels =
        |anchor: &str, color: &str| plot.svg.lines().filter(|it| it.contains(anchor) && it.contains(color)).count();
    assert_eq!(labels("text-anchor=\"end\"", "#696969"), 20, "every second of 40 edges\n{lines}");
    assert_eq!(labels("text-anchor=\"middle\"", "#696969"), 15, "every second of 30 batch sizes\n{lines}");
}

#[test]
fn a_plan_without_cells_says_so() {
    assert!(plan_heat_map(&plan::empty()).svg.contains("no cell"));
    assert!(plan_heat_map(&PlanView::default()).svg.contains("no cell"));
}

#[test]
fn plans_that_make_no_sense_are_drawn() {
    let all = row(&[Some(0), Some(40), Some(40)]);
    let vast = PlanCell { reserved: Some(Bytes::MAX), ..all.cells[0] };
    let twice = PlanView { cells: [all.cells.clone(), all.cells.clone()].concat(), ..all.clone() };
    let plans = [
        PlanView { budget: Bytes::ZERO, ..all.clone() },
        PlanView { cells: vec![vast], ..all.clone() },
        PlanView { extents: [0, u32::MAX, 7, 7].map(Extent::new).to_vec(), batches: vec![0], ..all },
        twice,
    ];
    for plan in plans {
        let plot = plan_heat_map(&plan);
        assert!(plot.svg.contains("share of the budget") && !plot.svg.contains("NaN"), "{plan:?}");
    }
}
