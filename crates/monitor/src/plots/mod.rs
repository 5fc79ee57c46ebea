//! Pictures of a run and of a plan: SVG, and PNG that is drawn from it.

mod axis;
#[cfg(feature = "png")]
mod bitmap;
mod canvas;
mod comparison;
mod font;
mod foreseen;
mod header;
mod heat;
mod knobs;
mod memory;
mod panel;
mod ratios;
mod runs;
mod series;
mod sign;
mod sizes;
mod steps;
mod tasks;
mod training;

use crate::history::History;
use crate::series::Series;
use crate::{PlanView, RunFacts};
use canvas::Canvas;
pub(crate) use canvas::{DARK, escaped};
pub(crate) use series::MAX_POINTS;

/// Size of a picture in pixels.
const SIZE: (f64, f64) = (1200.0, 800.0);

/// Size of a picture that a narrow page has in full width.
const NARROW: (f64, f64) = (520.0, 880.0);
/// Size of a small picture: as wide as a narrow page, its type is as large as the page's.
const SMALL: (f64, f64) = (520.0, 360.0);

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The picture as an SVG document.
    pub svg: String,
}

impl Plot {
    /// Draws the picture as a PNG file.
    #[cfg(feature = "png")]
    pub fn png(&self) -> Vec<u8> {
        bitmap::png(&self.svg)
    }
}

/// Draws the loss over the steps, and the validation metric with its baseline below.
pub fn training_curves(history: &History) -> Plot {
    render(&training::Curves(history))
}

/// Draws peak and in-use memory over the steps against what was foreseen, budget and capacity, with what went wrong and what
/// was undone, and the knobs below; where its adjustments would be lost in the whole, the start is enlarged.
pub fn memory_timeline(history: &History, facts: &RunFacts) -> Plot {
    render(&memory::Timeline { history, facts, part: memory::Part::Both })
}

/// Draws samples per second, the norm of the gradient and the learning rate over the steps.
pub fn step_curves(history: &History) -> Plot {
    render(&steps::Curves { history, shown: &steps::ALL })
}

/// Draws the loss of each task over the steps and its weight, where that varies, and beside them the last validation
/// metric of each task over its baseline; `None` where the samples have no tasks.
pub fn task_comparison(history: &History) -> Option<Plot> {
    tasks::Comparison::new(history).map(|it| render(&it))
}

/// Draws the losses of two runs of the same steps on the same axes, one of them disturbed, with the micro-batches of that
/// one that ran out of memory, and by how much its losses differ.
pub fn loss_comparison(undisturbed: &History, disturbed: &History) -> Plot {
    render(&comparison::LossComparison { undisturbed, disturbed })
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

/// A picture inside a page: as SVG, for wide screens or for narrow ones.
pub(crate) struct Inline {
    /// What the picture shows.
    pub(crate) title: &'static str,
    pub(crate) svg: String,
}

/// Draws the pictures that a wide page has in full width.
pub(crate) fn wide_pictures(history: &History, facts: &RunFacts) -> Vec<Inline> {
    let inline = |title, svg| Inline { title, svg };
    let memory = memory::Timeline { history, facts, part: memory::Part::Both };
    let tasks = tasks::Comparison::new(history).map(|it| inline("Tasks", svg(&it, SIZE)));
    let both = [inline("Memory", svg(&memory, SIZE)), inline("Curves", svg(&training::Curves(history), SIZE))];
    both.into_iter().chain(tasks).collect()
}

/// Draws the same for a narrow page, where those of tasks have no room.
pub(crate) fn narrow_pictures(history: &History, facts: &RunFacts) -> Vec<Inline> {
    let memory = |part| memory::Timeline { history, facts, part };
    let whole = memory(memory::Part::Whole);
    let start = whole.has_start().then(|| svg(&memory(memory::Part::Start), NARROW));
    let start = start.map(|svg| Inline { title: "Memory at the start", svg });
    let whole = Inline { title: "Memory", svg: svg(&whole, NARROW) };
    let curves = Inline { title: "Curves", svg: svg(&training::Curves(history), NARROW) };
    start.into_iter().chain([whole, curves]).collect()
}

/// Draws the pictures that are small on any page.
pub(crate) fn small_pictures(history: &History) -> Vec<Inline> {
    let curve = |title, shown| Inline { title, svg: svg(&steps::Curves { history, shown }, SMALL) };
    let foreseen = Inline { title: "Predicted against measured", svg: svg(&foreseen::Foreseen(history), SMALL) };
    let rates = Inline { title: "Throughput against batch size", svg: svg(&sizes::Rates(history), SMALL) };
    let edges = Inline { title: "Samples by padded length or patch", svg: svg(&sizes::Edges(history), SMALL) };
    let padding = (!history.curves.padding.is_empty()).then(|| curve("Padding", &steps::PADDING));
    let curves = [
        curve("Throughput", &steps::ALL[..1]),
        curve("Gradient norm", &steps::ALL[1..2]),
        curve("Learning rate", &steps::ALL[2..]),
    ];
    [foreseen, rates, edges].into_iter().chain(padding).chain(curves).collect()
}

/// Draws what several runs reached on the same axes; what only runs of one job have in common only where they are.
pub(crate) fn compared_pictures(runs: &[(&str, &History)], is_one_job: bool) -> Vec<Inline> {
    let picture = |title, heading, series: fn(&History) -> &Series| {
        let beside = runs::Beside { runs, heading, series };
        Inline { title, svg: svg(&beside, SMALL) }
    };
    let of_a_job = || {
        [
            picture("Training loss", "loss", |it| &it.curves.committed.loss),
            picture("Throughput", "samples per second", |it| &it.curves.committed.samples_per_second),
        ]
    };
    let memory = picture("Memory", "peak, % of the budget", |it| &it.curves.committed.budget_share);
    is_one_job.then(of_a_job).into_iter().flatten().chain([memory]).collect()
}

fn render(figure: &impl Figure) -> Plot {
    Plot { svg: svg(figure, SIZE) }
}

/// Draws a figure at a size in pixels.
fn svg(figure: &impl Figure, size: (f64, f64)) -> String {
    let canvas = Canvas::new(size);
    figure.draw(&canvas);
    canvas.into_svg()
}
