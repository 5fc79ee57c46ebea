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
/// Points that are looked at together, so that a compiler makes vectors of where they lie.
const AT_ONCE: usize = 16;
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
/// - `rows`: `[height, width, 3]`
/// - output: `[3, height, width]`
pub(crate) fn warped(rows: &[u8], sides: [usize; 2], by: Augmentation, chance: &mut Chance) -> Vec<u8> {
    let tangent = chance.around_zero(TURN);
    let [sin, cos] = [2.0 * tangent, 1.0 - tangent * tangent].map(|it| it / (1.0 + tangent * tangent));
    let zoom = 1.0 - chance.around_zero(by.zoom).abs();
    let [stretch_x, stretch_y] = [(); 2].map(|()| zoom * (1.0 + chance.around_zero(STRETCH)));
    let stretch_x = if by.mirror && chance.flip() { -stretch_x } else { stretch_x };
    let slant = chance.around_zero(SLANT);
    let [shift_x, shift_y] = sides.map(|side| chance.around_zero(SHIFT * side as f32));
    let [centre_x, centre_y] = sides.map(|side| (side as f32 - 1.0) / 2.0);
    let [width, height] = sides;
    let ((pixels, _), mut warped) = (rows.as_chunks(), vec![0; rows.len()]);
    for y in 0..height {
        let v = (y as f32 - centre_y) * stretch_y;
        for start in (0..width).step_by(AT_ONCE) {
            let places = std::array::from_fn(|at| {
                let u = (start as f32 + at as f32 - centre_x) * stretch_x + slant * v;
                (cos * u - sin * v + centre_x + shift_x, sin * u + cos * v + centre_y + shift_y)
            });
            let colors = Corners::around(&places, sides).colors(pixels, sides, AT_ONCE.min(width - start));
            for (plane, colors) in warped.chunks_exact_mut(pixels.len()).zip(&colors) {
                let into = plane[y * width..][..width][start..].iter_mut();
                into.zip(colors).for_each(|(into, color)| *into = byte(*color));
            }
        }
    }
    recolor(&mut warped, pixels.len(), by.colors, chance);
    blot(&mut warped, sides, chance);
    warped
}

/// Changes each colour by a factor and a summand, as another light would.
fn recolor(planes: &mut [u8], n_pixels: usize, most: f32, chance: &mut Chance) {
    if most <= 0.0 {
        return;
    }
    for plane in planes.chunks_exact_mut(n_pixels) {
        let (factor, summand) = (1.0 + chance.around_zero(most), chance.around_zero(most * ADDED * BRIGHTEST));
        for it in plane {
            *it = byte((f32::from(*it) * factor + summand).clamp(0.0, BRIGHTEST));
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

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
fn byte(color: f32) -> u8 {
    (color + 0.5) as u8
}

/// The upper left of the four pixels around each of some points, and how near these are to the right and lower ones.
struct Corners {
    left: [i32; AT_ONCE],
    top: [i32; AT_ONCE],
    right: [f32; AT_ONCE],
    lower: [f32; AT_ONCE],
}

impl Corners {
    #[expect(clippy::cast_possible_truncation, reason = "clamped to the image")]
    fn around(places: &[(f32, f32); AT_ONCE], sides: [usize; 2]) -> Self {
        let [last_x, last_y] = sides.map(|side| side as f32 - 1.0);
        let zero = [0.0; AT_ONCE];
        let mut corners = Self { left: [0; AT_ONCE], top: [0; AT_ONCE], right: zero, lower: zero };
        for (at, (x, y)) in places.iter().enumerate() {
            let (x, y) = (x.clamp(0.0, last_x), y.clamp(0.0, last_y));
            (corners.left[at], corners.top[at]) = (x as i32, y as i32);
            (corners.right[at], corners.lower[at]) = (x - corners.left[at] as f32, y - corners.top[at] as f32);
        }
        corners
    }

    /// Returns red, green and blue of the first so many points.
    #[expect(clippy::cast_sign_loss, reason = "clamped to the image")]
    fn colors(&self, pixels: &[[u8; 3]], [width, height]: [usize; 2], n: usize) -> [[f32; AT_ONCE]; 3] {
        let mut colors = [[0.0; AT_ONCE]; 3];
        for at in 0..n {
            let (left, top, right, lower) =
                (self.left[at] as usize, self.top[at] as usize, self.right[at], self.lower[at]);
            let (next, below) = (usize::from(left + 1 < width), if top + 1 < height { width } else { 0 });
            let first = top * width + left;
            let under = first + below;
            let near = [pixels[first], pixels[first + next], pixels[under], pixels[under + next]];
            let between = |from: f32, to: f32, share: f32| from + (to - from) * share;
            for (channel, colors) in colors.iter_mut().enumerate() {
                let of = |at: usize| f32::from(near[at][channel]);
                colors[at] = between(between(of(0), of(1), right), between(of(2), of(3), right), lower);
            }
        }
        colors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Warps planes as they are when they come from a file.
    fn warped(planes: &[u8], sides: [usize; 2], by: Augmentation, chance: &mut Chance) -> Vec<u8> {
        let n = planes.len() / 3;
        let rows: Vec<_> = (0..planes.len()).map(|at| planes[at % 3 * n + at / 3]).collect();
        super::warped(&rows, sides, by, chance)
    }

    #[test]
    fn a_point_has_the_colours_of_those_around_it_by_how_near_they_are() {
        let sides @ [width, height] = [21, 3];
        let pixels: Vec<[u8; 3]> =
            (0..width * height).map(|at| [0, 1, 2].map(|it| u8::try_from(at * (it + 3) % 251).unwrap())).collect();
        let places = std::array::from_fn(|at| (1.3 * at as f32 - 0.8, 0.3 * at as f32 - 0.7));
        let colors = Corners::around(&places, sides).colors(&pixels, sides, AT_ONCE);
        for (at, (x, y)) in places.into_iter().enumerate() {
            let near = |place: f32, side: usize| {
                (0..side).map(move |it| (it, (1.0 - (place.clamp(0.0, side as f32 - 1.0) - it as f32).abs()).max(0.0)))
            };
            for (channel, of_channel) in colors.iter().enumerate() {
                let of =
                    |(row, by): (usize, f32)| near(x, width).map(move |(it, share)| (row * width + it, by * share));
                let expected: f32 =
                    near(y, height).flat_map(of).map(|(it, by)| f32::from(pixels[it][channel]) * by).sum();
                assert!((of_channel[at] - expected).abs() < 1e-3, "({x}, {y}): {} for {expected}", of_channel[at]);
            }
        }
    }

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
            let warp = |sample| warped(&[&ring[..]; 3].concat(), [32; 2], by, &mut Chance::new(1, 2, sample));
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
