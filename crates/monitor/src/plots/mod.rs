//! Pictures of a run and of a plan, as SVG and as PNG from the same drawing.

mod axis;
mod bitmap;
mod canvas;
mod comparison;
mod header;
mod heat;
mod knobs;
mod memory;
mod panel;
mod pieces;
mod ratios;
mod series;
mod tasks;
mod training;

use std::sync::Once;

use plimsoll_types::Event;
use plotters::prelude::*;
use plotters::style::register_font;

use crate::PlanView;
use crate::run::Run;
use canvas::{Canvas, Drawn, Quirks};

/// Size of a picture in pixels.
const SIZE: (u32, u32) = (1200, 800);
/// Drawing units per pixel: plotters draws at whole units without smoothing, so both formats are drawn larger and
/// shown smaller.
const SCALE: u32 = 2;

/// A picture, in two formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The picture as an SVG document.
    pub svg: String,
    /// The picture as a PNG file.
    pub png: Vec<u8>,
}

/// Draws the loss over the steps, and the validation metric with its baseline below.
pub fn training_curves(events: &[Event]) -> Plot {
    render(&training::Curves(&Run::new(events)))
}

/// Draws peak and in-use memory over the steps against budget and capacity, with adjustments and out-of-memory
/// attempts, and the knobs below.
pub fn memory_timeline(events: &[Event]) -> Plot {
    render(&memory::Timeline(&Run::new(events)))
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

/// Something that can be drawn, whatever it is drawn on.
trait Figure {
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn<B>;
}

fn render(figure: &impl Figure) -> Plot {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        for (style, font) in [(FontStyle::Normal, dejavu::sans::regular()), (FontStyle::Bold, dejavu::sans::bold())] {
            assert!(register_font("sans-serif", style, font).is_ok(), "the built-in font is a font");
        }
    });
    Plot { svg: svg(figure), png: bitmap::png(figure) }
}

fn svg(figure: &impl Figure) -> String {
    let (width, height) = large();
    let mut text = String::new();
    draw(figure, Quirks::SVG, SVGBackend::with_string(&mut text, (width, height)));
    // The view box keeps the large units; only the outer size is that of the picture.
    text.replacen(
        &format!("width=\"{width}\" height=\"{height}\""),
        &format!("width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1),
        1,
    )
}

fn draw<B: DrawingBackend>(figure: &impl Figure, quirks: Quirks, backend: B) {
    let canvas = Canvas::new(backend, quirks);
    let drawn = canvas.clear().and_then(|()| figure.draw(&canvas)).and_then(|()| canvas.present());
    drawn.expect("drawing into memory, with fonts that are there, meets no error");
}

const fn large() -> (u32, u32) {
    (SIZE.0 * SCALE, SIZE.1 * SCALE)
}
