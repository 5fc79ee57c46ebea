//! Pictures of a run and of a plan: SVG, and PNG that is drawn from it.

mod axis;
mod bitmap;
mod canvas;
mod comparison;
mod font;
mod hatching;
mod header;
mod heat;
mod knobs;
mod memory;
mod panel;
mod ratios;
mod series;
mod tasks;
mod training;

use plimsoll_types::Event;

use crate::run::Run;
use crate::{PlanView, RunFacts};
use canvas::Canvas;

/// Size of a picture in pixels.
const SIZE: (f64, f64) = (1200.0, 800.0);

/// A picture, in two formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The picture as an SVG document.
    pub svg: String,
    /// The same as a PNG file.
    pub png: Vec<u8>,
}

/// Draws the loss over the steps, and the validation metric with its baseline below.
pub fn training_curves(events: &[Event]) -> Plot {
    render(&training::Curves(&Run::new(events)))
}

/// Draws peak and in-use memory over the steps against what was foreseen, budget and capacity, with what went wrong and what
/// was undone, and the knobs below; where its adjustments would be lost in the whole, the start is enlarged.
pub fn memory_timeline(events: &[Event], facts: &RunFacts) -> Plot {
    render(&memory::Timeline { run: &Run::new(events), facts, part: memory::Part::Both })
}

/// Draws the loss of each task over the steps and its weight, where that varies, and beside them the last validation
/// metric of each task over its baseline; `None` where the samples have no tasks.
pub fn task_comparison(events: &[Event]) -> Option<Plot> {
    let run = Run::new(events);
    tasks::Comparison::new(&run).map(|it| render(&it))
}

/// Draws the losses of two runs of the same steps on the same axes, one of them disturbed, with the micro-batches of that
/// one that ran out of memory, and by how much its losses differ.
pub fn loss_comparison(undisturbed: &[Event], disturbed: &[Event]) -> Plot {
    render(&comparison::LossComparison { undisturbed: Run::new(undisturbed), disturbed: Run::new(disturbed) })
}

/// Draws a memory plan as a grid, batch by edge: the colour and number of a cell are its share of the budget, and a line
/// along the cells says where the budget ends.
pub fn plan_heat_map(plan: &PlanView) -> Plot {
    render(&heat::HeatMap(plan))
}

/// Something that can be drawn.
trait Figure {
    fn draw(&self, canvas: &Canvas);
}

fn render(figure: &impl Figure) -> Plot {
    let svg = svg(figure, SIZE);
    let png = bitmap::png(&svg);
    Plot { svg, png }
}

/// Draws a figure at a size in pixels.
fn svg(figure: &impl Figure, size: (f64, f64)) -> String {
    let canvas = Canvas::new(size);
    figure.draw(&canvas);
    canvas.into_svg()
}
