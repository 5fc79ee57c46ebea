//! The mean and the deviation of an image.

/// What makes the mean of an image 0 and its deviation 1; an even one becomes 0.
///
/// Workers find it, since summing takes longer than all else that a batch is made by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standard {
    mean: f32,
    scale: f32,
}

impl Standard {
    /// Of an image that is black, as padding is.
    pub(crate) const BLACK: Self = Self { mean: 0.0, scale: 1.0 };

    pub(crate) fn of(image: &[u8]) -> Self {
        let n = image.len() as f32;
        let mean = image.iter().map(|it| f32::from(*it)).sum::<f32>() / n;
        let variance = image.iter().map(|it| (f32::from(*it) - mean).powi(2)).sum::<f32>() / n;
        Self { mean, scale: 1.0 / variance.sqrt().max(1.0) }
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
