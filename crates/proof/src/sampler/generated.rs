//! Lengths like those of real data.

use std::f64::consts::TAU;

use crate::finder::Random;

/// Samples of several tasks on two axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasked {
    /// Images and tokens of each sample.
    pub lengths: [Vec<u32>; 2],
    /// The task of each sample: one image; two to four of one subject; two to eight of several.
    pub tasks: Vec<u16>,
}

/// Returns tokens of chats: log-normal around 245, from 8 to 4 096.
pub fn chats(n: usize) -> Vec<u32> {
    let mut random = Random::new(1);
    (0..n).map(|_| log_normal(&mut random, 245.0, 0.9, (8, 4096))).collect()
}

/// Returns tokens of documents: log-normal around 700 with a long tail, from 16 to 200 000.
pub fn documents(n: usize) -> Vec<u32> {
    let mut random = Random::new(6);
    (0..n).map(|_| log_normal(&mut random, 700.0, 1.3, (16, 200_000))).collect()
}

/// Returns frames of 10 ms of read speech: most utterances of 12 to 16 s, a quarter shorter, none above 24.5 s.
pub fn speech(n: usize) -> Vec<u32> {
    let mut random = Random::new(2);
    let mut length = || {
        let (median, sigma) = if random.uniform(0.0, 1.0) < 0.75 { (1430.0, 0.09) } else { (800.0, 0.45) };
        log_normal(&mut random, median, sigma, (300, 2450))
    };
    (0..n).map(|_| length()).collect()
}

/// Returns images and tokens of samples of three tasks, in shares of two, two and one in five.
pub fn images_and_tokens(n: usize) -> Tasked {
    let mut random = Random::new(4);
    let (mut images, mut tokens, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for id in 0..n {
        let (task, least, more, median) =
            [(0, 1, 0, 150.0), (1, 2, 2, 245.0), (2, 2, 6, 400.0)][[0, 0, 1, 1, 2][id % 5]];
        images.push((0..more).fold(least, |sum, _| sum + u32::from(random.uniform(0.0, 1.0) < 0.5)));
        tokens.push(log_normal(&mut random, median, 0.6, (8, 2048)));
        tasks.push(task);
    }
    Tasked { lengths: [images, tokens], tasks }
}

/// A length whose logarithm is normally distributed (Box and Muller), within limits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a length can be")]
fn log_normal(random: &mut Random, median: f64, sigma: f64, (least, most): (u32, u32)) -> u32 {
    let (radius, angle) = (1.0 - random.uniform(0.0, 1.0), random.uniform(0.0, TAU));
    let normal = (-2.0 * radius.ln()).sqrt() * angle.cos();
    (median * (sigma * normal).exp()).clamp(f64::from(least), f64::from(most)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mut lengths: Vec<u32>, median: u32, within: (u32, u32)) {
        lengths.sort_unstable();
        let middle = lengths[lengths.len() / 2];
        assert!(middle.abs_diff(median) <= median / 50, "median {middle}");
        assert!(within.0 <= lengths[0] && lengths[lengths.len() - 1] <= within.1);
    }

    #[test]
    fn lengths_are_where_they_are_said_to_be() {
        check(chats(20_000), 245, (8, 4096));
        check(speech(20_000), 1380, (300, 2450));
        check(documents(100_000), 700, (16, 200_000));
        let Tasked { lengths: [images, tokens], tasks } = images_and_tokens(20_000);
        check(tokens, 223, (8, 2048));
        check(images.clone(), 2, (1, 8));
        let of = |task| images.iter().zip(&tasks).filter(move |(_, it)| **it == task).map(|(images, _)| *images);
        assert!(
            of(0).all(|it| it == 1) && of(1).all(|it| (2..=4).contains(&it)) && of(2).all(|it| (2..=8).contains(&it))
        );
        assert_eq!([0, 1, 2].map(|task| of(task).count()), [8_000, 8_000, 4_000]);
    }
}
