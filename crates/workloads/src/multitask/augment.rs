//! Images that are never quite the same twice.

use crate::chance::Chance;

/// The greatest turn, as the tangent of half of it: 23 degrees. A larger one would make other letters of some.
const TURN: f32 = 0.2;
/// The greatest change of a side, as a share of it.
const STRETCH: f32 = 0.15;
/// The greatest slant: how far the sides lean, as a share of their length.
const SLANT: f32 = 0.3;
/// The greatest shift along a side, as a share of it.
const SHIFT: f32 = 0.1;
/// The longest side of the rectangle that is blotted out, as a share of the image's.
const BLOT: f32 = 0.4;
/// The brightest value.
const BRIGHTEST: f32 = 255.0;
/// What is added to a colour at most, as a share of the brightest value, for all that its factor may change.
const ADDED: f32 = 0.25;

/// How much an image that is trained on may differ from its file, beyond what all do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Augmentation {
    /// The greatest share of each side that is cut off, so that the rest is seen larger: from 0 to below 1.
    pub zoom: f32,
    /// The greatest change of each colour, as a share of it: from 0 to 1.
    pub colors: f32,
    /// Whether half of the images are mirrored, left to right.
    pub mirror: bool,
}

impl Default for Augmentation {
    /// What suits drawings and photographs alike; a mirrored letter may be another one.
    fn default() -> Self {
        Self { zoom: 0.5, colors: 0.2, mirror: false }
    }
}

/// Turns, stretches, slants, shifts and colours an image a little, enlarges a part of it, and blots out another.
///
/// Beyond its border is what is on it.
///
/// There is no sine in it, which would not be the same on every machine.
///
/// # Shapes
///
/// - `source` and output: `[3, height, width]`
pub(crate) fn warped(source: &[u8], sides: [usize; 2], by: Augmentation, chance: &mut Chance) -> Vec<u8> {
    let tangent = chance.around_zero(TURN);
    let [sin, cos] = [2.0 * tangent, 1.0 - tangent * tangent].map(|it| it / (1.0 + tangent * tangent));
    let zoom = 1.0 - chance.around_zero(by.zoom).abs();
    let [stretch_x, stretch_y] = [(); 2].map(|()| zoom * (1.0 + chance.around_zero(STRETCH)));
    let stretch_x = if by.mirror && chance.flip() { -stretch_x } else { stretch_x };
    let slant = chance.around_zero(SLANT);
    let [shift_x, shift_y] = sides.map(|side| chance.around_zero(SHIFT * side as f32));
    let [centre_x, centre_y] = sides.map(|side| (side as f32 - 1.0) / 2.0);
    let [width, height] = sides;
    let (mut warped, n_pixels) = (vec![0; source.len()], width * height);
    let mut of_row = Vec::with_capacity(width);
    for (y, start) in (0..height).zip((0..).step_by(width)) {
        let v = (y as f32 - centre_y) * stretch_y;
        of_row.clear();
        of_row.extend((0..width).map(|x| {
            let u = (x as f32 - centre_x) * stretch_x + slant * v;
            let (x, y) = (cos * u - sin * v + centre_x + shift_x, sin * u + cos * v + centre_y + shift_y);
            Corners::around(x, y, sides)
        }));
        for (from, into) in source.chunks_exact(n_pixels).zip(warped.chunks_exact_mut(n_pixels)) {
            into[start..].iter_mut().zip(&of_row).for_each(|(into, corners)| *into = corners.of(from));
        }
    }
    recolor(&mut warped, n_pixels, by.colors, chance);
    blot(&mut warped, sides, chance);
    warped
}

/// Changes each colour by a factor and a summand, as another light would.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a byte")]
fn recolor(planes: &mut [u8], n_pixels: usize, most: f32, chance: &mut Chance) {
    if most <= 0.0 {
        return;
    }
    for plane in planes.chunks_exact_mut(n_pixels) {
        let (factor, summand) = (1.0 + chance.around_zero(most), chance.around_zero(most * ADDED * BRIGHTEST));
        let changed = |it: u8| (f32::from(it) * factor + summand).clamp(0.0, BRIGHTEST) + 0.5;
        for it in plane {
            *it = changed(*it) as u8;
        }
    }
}

/// Fills a rectangle anywhere with the mean colour.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a side, and a mean of bytes")]
fn blot(planes: &mut [u8], sides: [usize; 2], chance: &mut Chance) {
    let [(left, right), (top, bottom)] = sides.map(|side| {
        let most = (BLOT * side as f32) as usize;
        let start = chance.below(side);
        (start, (start + chance.below(most + 1)).min(side))
    });
    let [width, height] = sides;
    for plane in planes.chunks_exact_mut(width * height) {
        let mean = plane.iter().map(|it| u64::from(*it)).sum::<u64>() / plane.len() as u64;
        plane.chunks_exact_mut(width).take(bottom).skip(top).for_each(|row| row[left..right].fill(mean as u8));
    }
}

/// The four pixels around a point, and how near it is to the right and lower ones.
struct Corners {
    at: [usize; 4],
    right: f32,
    lower: f32,
}

impl Corners {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the image")]
    fn around(x: f32, y: f32, [width, height]: [usize; 2]) -> Self {
        let (x, y) = (x.clamp(0.0, width as f32 - 1.0), y.clamp(0.0, height as f32 - 1.0));
        let (left, top) = (x as usize, y as usize);
        let (next, below) = ((left + 1).min(width - 1), (top + 1).min(height - 1));
        let at = [top * width + left, top * width + next, below * width + left, below * width + next];
        Self { at, right: x - left as f32, lower: y - top as f32 }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
    fn of(&self, plane: &[u8]) -> u8 {
        let [a, b, c, d] = self.at.map(|at| f32::from(plane[at]));
        let between = |from: f32, to: f32, share: f32| from + (to - from) * share;
        (between(between(a, b, self.right), between(c, d, self.right), self.lower) + 0.5) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warp_depends_on_seed_epoch_and_sample_alone_and_moves_something() {
        let source: Vec<u8> = (0..3 * 16 * 16).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect();
        let by = Augmentation { mirror: true, ..Augmentation::default() };
        let warp = |seed, epoch, sample| warped(&source, [16; 2], by, &mut Chance::new(seed, epoch, sample));
        assert_eq!(warp(1, 2, 3), warp(1, 2, 3));
        for other in [warp(2, 2, 3), warp(1, 3, 3), warp(1, 2, 4), source.clone()] {
            assert_ne!(warp(1, 2, 3), other);
        }
    }

    #[test]
    fn what_is_even_stays_so() {
        let even = [vec![9; 64], vec![200; 64], vec![255; 64]].concat();
        let by = Augmentation { colors: 0.0, mirror: true, ..Augmentation::default() };
        for sides in [[8, 8], [16, 4], [1, 64]] {
            assert_eq!(warped(&even, sides, by, &mut Chance::new(5, 6, 7)), even);
        }
        let colored = warped(&even, [8; 2], Augmentation::default(), &mut Chance::new(5, 6, 7));
        assert!(colored.chunks(64).all(|plane| plane.iter().all(|it| *it == plane[0])) && colored != even);
    }

    /// The image of which the left half is black and the right one white, seen with so much of one change alone.
    fn seen(by: Augmentation, sample: u64) -> Vec<u8> {
        let half: Vec<u8> = (0..32 * 32).map(|at| if at % 32 < 16 { 0 } else { 255 }).collect();
        warped(&[half.clone(), half.clone(), half].concat(), [32; 2], by, &mut Chance::new(1, 2, sample))
    }

    #[test]
    fn about_half_of_the_images_are_mirrored_where_any_may_be() {
        let none = Augmentation { zoom: 0.0, colors: 0.0, mirror: false };
        // The corners may be blotted out, but not most of the edges.
        let is_mirrored = |by, sample| {
            let seen = seen(by, sample);
            let side = |x: usize| (0..32).map(|y| u32::from(seen[32 * y + x])).sum::<u32>();
            side(31) < side(0)
        };
        assert!((0..200).all(|sample| !is_mirrored(none, sample)));
        let n = (0..200).filter(|sample| is_mirrored(Augmentation { mirror: true, ..none }, *sample)).count();
        assert!((70..130).contains(&n), "{n} of 200");
    }

    #[test]
    fn a_crop_that_is_enlarged_shows_less_of_the_image() {
        // A ring at the border is black; the larger the part that is cut off, the less of it is seen.
        let ring: Vec<u8> = (0..32 * 32)
            .map(|at| if [at % 32, at / 32].iter().any(|it| !(4..28).contains(it)) { 0 } else { 255 })
            .collect();
        let n_black = |zoom| {
            let by = Augmentation { zoom, colors: 0.0, mirror: false };
            let warp = |sample| warped(&ring, [32; 2], by, &mut Chance::new(1, 2, sample));
            (0..100).map(|sample| warp(sample).iter().filter(|it| **it < 64).count()).sum::<usize>()
        };
        let [whole, some, few] = [0.0, 0.3, 0.6].map(n_black);
        assert!(few < some && some < whole, "{few} {some} {whole}");
    }

    #[test]
    fn a_wide_image_keeps_its_shape() {
        // Columns of one colour each: a small warp of them looks about the same from top to bottom.
        let columns: Vec<u8> = (0..3 * 40 * 10).map(|at| u8::try_from(at % 40 * 6).unwrap()).collect();
        let by = Augmentation { zoom: 0.0, colors: 0.0, mirror: false };
        let seen: Vec<_> =
            (0..40).map(|sample| warped(&columns, [40, 10], by, &mut Chance::new(1, 2, sample))).collect();
        let column = |x: usize| seen.iter().map(|it| u64::from(it[5 * 40 + x])).sum::<u64>() / 40;
        assert!(seen.iter().all(|it| it.len() == columns.len()));
        assert!(
            column(4) + 60 < column(20) && column(20) + 60 < column(36),
            "{} {} {}",
            column(4),
            column(20),
            column(36)
        );
    }

    #[test]
    fn chances_are_even_and_cover_their_range() {
        let mut chance = Chance::new(1, 2, 3);
        let n_true = (0..10_000).filter(|_| chance.flip()).count();
        assert!((4_800..5_200).contains(&n_true), "{n_true}");
        let drawn: Vec<_> = (0..1000).map(|_| chance.around_zero(0.5)).collect();
        assert!(drawn.iter().all(|it| it.abs() <= 0.5));
        assert!(drawn.iter().any(|it| *it < -0.49) && drawn.iter().any(|it| *it > 0.49));
    }
}
