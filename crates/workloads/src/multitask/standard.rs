//! The mean and the deviation of an image.

/// What makes the mean of an image 0 and its deviation 1; an even one becomes 0.
///
/// Workers find it, since summing takes longer than all else that a batch is made by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standard {
    mean: f32,
    scale: f32,
}

/// Values whose squares are summed in 32 bits, which are vectors then.
const AT_ONCE: usize = 1 << 15;

impl Standard {
    /// Of an image that is black, as padding is.
    pub(crate) const BLACK: Self = Self { mean: 0.0, scale: 1.0 };

    #[expect(clippy::cast_possible_truncation, reason = "what 32 bits have of it")]
    pub(crate) fn of(image: &[u8]) -> Self {
        let mean_of = |of: fn(u8) -> u32| {
            let sums = image.chunks(AT_ONCE).map(|it| u64::from(it.iter().map(|it| of(*it)).sum::<u32>()));
            sums.sum::<u64>() as f64 / image.len() as f64
        };
        let [mean, of_squares] = [u32::from, |it| u32::from(it) * u32::from(it)].map(mean_of);
        let deviation = (of_squares - mean * mean).max(1.0).sqrt();
        Self { mean: mean as f32, scale: 1.0 / deviation as f32 }
    }

    /// Appends the values of an image, each on the new scale.
    pub(super) fn standardise(self, image: &[u8], into: &mut Vec<f32>) {
        into.extend(image.iter().map(|it| (f32::from(*it) - self.mean) * self.scale));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_mean_0_and_deviation_1_and_an_even_one_is_0() {
        let standardised = |image: &[u8]| {
            let mut values = Vec::new();
            Standard::of(image).standardise(image, &mut values);
            values
        };
        assert_eq!(standardised(&[10, 30, 10, 30]), [-1.0, 1.0, -1.0, 1.0]);
        assert_eq!(standardised(&[7; 5]), [0.0; 5]);
        assert_eq!(Standard::of(&[0; 12]), Standard::BLACK);
    }
}
