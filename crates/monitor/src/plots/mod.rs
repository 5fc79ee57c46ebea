//! Pictures of a run and of a plan: SVG, and PNG that is drawn from it.

mod axis;
mod bitmap;
mod canvas;
mod comparison;
mod font;
mod foreseen;
mod hatching;
mod header;
mod heat;
mod knobs;
mod memory;
mod panel;
mod ratios;
mod runs;
mod series;
mod sizes;
mod steps;
mod tasks;
mod training;

use plimsoll_types::Event;

use crate::metrics::rate;
use crate::run::Run;
use crate::{PlanView, RunFacts};
use canvas::Canvas;
pub(crate) use canvas::{DARK, escaped};

/// Size of a picture in pixels.
const SIZE: (f64, f64) = (1200.0, 800.0);

/// Size of a picture that a narrow page has in full width.
const NARROW: (f64, f64) = (520.0, 880.0);
/// Size of a small picture: as wide as a narrow page, its type is as large as the page's.
const SMALL: (f64, f64) = (520.0, 360.0);

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

/// Draws samples per second, the norm of the gradient and the learning rate over the steps.
pub fn step_curves(events: &[Event]) -> Plot {
    render(&steps::Curves { run: &Run::new(events), shown: &steps::ALL })
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

/// A picture inside a page: as SVG, for wide screens or for narrow ones.
pub(crate) struct Inline {
    /// What the picture shows.
    pub(crate) title: &'static str,
    pub(crate) svg: String,
}

/// Draws the pictures that a wide page has in full width.
pub(crate) fn wide_pictures(run: &Run<'_>, facts: &RunFacts) -> Vec<Inline> {
    let inline = |title, svg| Inline { title, svg };
    let memory = memory::Timeline { run, facts, part: memory::Part::Both };
    let tasks = tasks::Comparison::new(run).map(|it| inline("Tasks", svg(&it, SIZE)));
    let both = [inline("Memory", svg(&memory, SIZE)), inline("Curves", svg(&training::Curves(run), SIZE))];
    both.into_iter().chain(tasks).collect()
}

/// Draws the same for a narrow page, where those of tasks have no room.
pub(crate) fn narrow_pictures(run: &Run<'_>, facts: &RunFacts) -> Vec<Inline> {
    let memory = |part| memory::Timeline { run, facts, part };
    let whole = memory(memory::Part::Whole);
    let start = whole.has_start().then(|| svg(&memory(memory::Part::Start), NARROW));
    let start = start.map(|svg| Inline { title: "Memory at the start", svg });
    let whole = Inline { title: "Memory", svg: svg(&whole, NARROW) };
    let curves = Inline { title: "Curves", svg: svg(&training::Curves(run), NARROW) };
    start.into_iter().chain([whole, curves]).collect()
}

/// Draws the pictures that are small on any page.
pub(crate) fn small_pictures(run: &Run<'_>) -> Vec<Inline> {
    let curve = |title, shown| Inline { title, svg: svg(&steps::Curves { run, shown }, SMALL) };
    let foreseen = Inline { title: "Predicted against measured", svg: svg(&foreseen::Foreseen(run), SMALL) };
    let rates = Inline { title: "Throughput against batch size", svg: svg(&sizes::Rates(run), SMALL) };
    let edges = Inline { title: "Samples by padded length or patch", svg: svg(&sizes::Edges(run), SMALL) };
    let is_padded = run.steps().any(|it| it.real_positions.is_some());
    let padding = is_padded.then(|| curve("Padding", &steps::PADDING));
    let curves = [
        curve("Throughput", &steps::ALL[..1]),
        curve("Gradient norm", &steps::ALL[1..2]),
        curve("Learning rate", &steps::ALL[2..]),
    ];
    [foreseen, rates, edges].into_iter().chain(padding).chain(curves).collect()
}

/// Draws what several runs reached on the same axes; what only runs of one job have in common only where they are.
pub(crate) fn compared_pictures(runs: &[(String, Run<'_>)], is_one_job: bool) -> Vec<Inline> {
    let picture = |title, heading, value| {
        let beside = runs::Beside { runs, heading, value };
        Inline { title, svg: svg(&beside, SMALL) }
    };
    let of_a_job = || {
        [
            picture("Training loss", "loss", |it| Some(it.loss)),
            picture("Throughput", "samples per second", |it| rate(it.n_samples(), it.seconds)),
        ]
    };
    let memory = picture("Memory", "peak, % of the budget", |it| Some(100.0 * it.peak.share_of(it.budget)));
    is_one_job.then(of_a_job).into_iter().flatten().chain([memory]).collect()
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
