//! What PNG files of pictures show.

use plimsoll_monitor::{History, PlanCell, PlanSource, PlanView, Plot, RunFacts, memory_timeline, plan_heat_map};
use plimsoll_types::StepShape;
use resvg::tiny_skia::Pixmap;

use crate::heat::row;
use crate::{plan, run};

/// What a pixel of a row of cells shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Within,
    Limit,
    Beyond,
    Other,
}

fn seen([r, g, b]: [u8; 3]) -> Seen {
    let (high, low) = (r.max(g).max(b), r.min(g).min(b));
    match (r, g, b) {
        // Vermillion, also where a pixel is shared with a cell.
        _ if g.saturating_add(30) < r && b.saturating_add(30) < r => Seen::Limit,
        _ if 40 < high - low => Seen::Within,
        (140..=230, ..) if high == low => Seen::Beyond,
        _ => Seen::Other,
    }
}

/// The colours of a picture, row by row.
fn pixels(plot: &Plot) -> Vec<Vec<[u8; 3]>> {
    let picture = Pixmap::decode_png(&plot.png()).expect("a picture is a PNG");
    let rows = picture.pixels().chunks(picture.width() as usize);
    rows.map(|row| row.iter().map(|it| [it.red(), it.green(), it.blue()]).collect()).collect()
}

/// What the cells of a single row show from left to right, below their numbers.
fn seen_along(plan: &PlanView) -> Vec<Seen> {
    let picture = pixels(&plan_heat_map(plan));
    let mut along: Vec<Seen> = (112..)
        .step_by(180)
        .zip(&plan.cells)
        .flat_map(|(left, _)| left..left + 180)
        .map(|x| seen(picture[232][x]))
        .collect();
    along.retain(|it| *it != Seen::Other);
    along.dedup();
    along
}

#[test]
fn both_formats_have_the_same_size() {
    let plot = memory_timeline(&History::of(&run::small()), &RunFacts::default());
    let picture = Pixmap::decode_png(&plot.png()).unwrap();
    assert_eq!((picture.width(), picture.height()), (1200, 800));
    assert!(plot.svg.starts_with("<svg width=\"1200\" height=\"800\" viewBox=\"0 0 1200 800\""), "{}", &plot.svg[..80]);
    assert_eq!(plot.png(), plot.png());
}

#[test]
fn cells_are_coloured_up_to_the_line_and_grey_after_it() {
    assert_eq!(seen_along(&row(&[Some(40), Some(100), Some(101)])), [Seen::Within, Seen::Limit, Seen::Beyond]);
    assert!(seen_along(&row(&[Some(40), None])).starts_with(&[Seen::Within, Seen::Limit]));
    assert_eq!(seen_along(&row(&[Some(40), Some(60)])), [Seen::Within]);
    assert_eq!(seen_along(&row(&[Some(101), Some(900)])), [Seen::Beyond]);
}

#[test]
fn nothing_is_cut_off_at_the_edge_of_the_picture() {
    let wide = PlanView {
        job: "a job of a name that is far too long for a picture".repeat(4),
        edge_name: "the length of a sequence, padded to the lattice (tokens)".into(),
        ..plan::large()
    };
    let long = |it: u32| StepShape::new(1_000_000 * it, 100_000 * it);
    let cell = |it| PlanCell { shape: long(it), reserved: None, in_use: None, source: PlanSource::DryRun };
    let huge = PlanView { cells: (1..=40).map(cell).collect(), ..plan::empty() };
    for plan in [plan::single(), plan::small(), plan::ladder(), wide, huge] {
        let picture = pixels(&plan_heat_map(&plan));
        let (width, height) = (picture[0].len(), picture.len());
        let edge = |x: usize, y: usize| x < 4 || y < 4 || width <= x + 4 || height <= y + 4;
        let is_inked = |y: usize| (0..width).find(|x| edge(*x, y) && picture[y][*x] != [255; 3]);
        assert_eq!((0..height).find_map(is_inked), None, "{} extents", plan.extents.len());
    }
}
