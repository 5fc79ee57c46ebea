//! What the sizes of a step's tensors are combinations of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{MAX_AXES, StepShape};

/// Most monomials that a job can name; the complete ones over three axes are 22, and a predictor has a 24th for tables.
pub const MAX_FEATURES: usize = 23;

/// The greatest exponent: a volume's pairs of positions along one edge that stands for three.
pub const MAX_EXPONENT: u8 = 6;

/// A product of powers: of the number of samples, and of the edge along each axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Monomial {
    samples: u8,
    edges: [u8; MAX_AXES],
}

/// The monomials, in the number of samples `n` and the edges `a`, `b` and `c`, that the size of every tensor of a step
/// is a non-negative combination of.
///
/// A bound on memory from other shapes is a proof only as far as they are complete: an attention bias or a mask takes
/// `e²` for any batch, a table of positions takes `e`.
/// A feature too many costs a looser bound until enough shapes were seen, a missing one costs the bound.
///
/// Written as a list of exponents, those of `n` first: `[[0,0],[0,1],[1,1]]` is `1, a, n·a`.
///
/// # Example
///
/// ```
/// use plimsoll_types::{Features, StepShape};
///
/// let features = Features::complete(1);
/// assert_eq!(features.to_string(), "1, a, a², n, n·a, n·a²");
/// assert_eq!(features.of(StepShape::new(4, 32))[..6], [1.0, 32.0, 1024.0, 4.0, 128.0, 4096.0]);
/// assert_eq!(Features::complete(2).to_string(), "1, a, b, a², a·b, b², n, n·a, n·b, n·a², n·a·b, n·b²");
/// ```
///
/// # Sources
///
/// The `B·L` and `B·L²` terms of Korthikanti et al. (arXiv 2205.05198), for transformers; perimeter and area for images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<u8>>", into = "Vec<Vec<u8>>")]
pub struct Features {
    monomials: [Monomial; MAX_FEATURES],
    len: usize,
    n_axes: usize,
}

/// Exponents that make no features.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeaturesError {
    /// There is no monomial, or more than there can be.
    #[error("name the features of a step: there are {0}, but must be 1 to {MAX_FEATURES}")]
    NFeatures(usize),
    /// A monomial is over no axis, over too many, or over others than the first monomial.
    #[error(
        "name the features of a step: feature {at} has {found} exponents, but must have one for the samples and one for \
         each of 1 to {MAX_AXES} axes, as all others"
    )]
    NAxes {
        /// Its place, from 0.
        at: usize,
        /// Its exponents.
        found: usize,
    },
    /// A monomial that grows too fast.
    #[error(
        "name the features of a step: feature {at} has an exponent of {found}, but it must be at most {MAX_EXPONENT}"
    )]
    Exponent {
        /// Its place, from 0.
        at: usize,
        /// The exponent.
        found: u8,
    },
    /// A monomial is there twice.
    #[error("name the features of a step: feature {at} is there twice")]
    Twice {
        /// The place of the second, from 0.
        at: usize,
    },
}

impl Features {
    /// Returns the default for samples with so many axes, 1 to [`MAX_AXES`]: `1` and `n`, times all powers and products
    /// of edges up to squares, times the product of all three where there are three.
    ///
    /// They suit whatever has vectors, sequences, planes or attention maps, of each sample or of the batch.
    /// What takes more, such as a volume under one edge, names its own, or [its powers](Self::powers).
    pub const fn complete(n_axes: usize) -> Self {
        let n_axes = if n_axes == 0 {
            1
        } else if n_axes > MAX_AXES {
            MAX_AXES
        } else {
            n_axes
        };
        let mut all = Self::none(n_axes);
        let mut samples = 0;
        while samples <= 1 {
            all = all.with_products(samples);
            samples += 1;
        }
        all
    }

    /// Returns `1` and `n`, times all powers of one edge up to this one, of [`MAX_EXPONENT`] at most: 3 for the side of a
    /// volume, and 1 where nothing grows faster than the edge itself, which bounds tighter than the default.
    ///
    /// ```
    /// use plimsoll_types::Features;
    ///
    /// assert_eq!(Features::powers(3).to_string(), "1, a, a², a³, n, n·a, n·a², n·a³");
    /// assert_eq!(Features::powers(2), Features::complete(1));
    /// ```
    pub const fn powers(degree: u8) -> Self {
        let degree = if MAX_EXPONENT < degree { MAX_EXPONENT } else { degree };
        let mut all = Self::none(1);
        let mut at = 0;
        while at < 2 * (degree + 1) {
            let mut edges = [0; MAX_AXES];
            edges[0] = at % (degree + 1);
            all = all.with(at / (degree + 1), edges);
            at += 1;
        }
        all
    }

    const fn none(n_axes: usize) -> Self {
        Self { monomials: [Monomial { samples: 0, edges: [0; MAX_AXES] }; MAX_FEATURES], len: 0, n_axes }
    }

    /// Adds the powers and products of edges up to squares, times `n` to the power of `samples`.
    const fn with_products(self, samples: u8) -> Self {
        let mut all = self.with(samples, [0; MAX_AXES]);
        let mut degree = 1;
        while degree <= 2 {
            let mut first = 0;
            while first < self.n_axes {
                let mut second = if degree == 1 { self.n_axes - 1 } else { first };
                while second < self.n_axes {
                    let mut edges = [0; MAX_AXES];
                    edges[first] += 1;
                    if degree == 2 {
                        edges[second] += 1;
                    }
                    all = all.with(samples, edges);
                    second += 1;
                }
                first += 1;
            }
            degree += 1;
        }
        if self.n_axes == MAX_AXES { all.with(samples, [1; MAX_AXES]) } else { all }
    }

    const fn with(mut self, samples: u8, edges: [u8; MAX_AXES]) -> Self {
        self.monomials[self.len] = Monomial { samples, edges };
        self.len += 1;
        self
    }

    /// Takes monomials by their exponents: that of the number of samples, and that of the edge along each axis.
    ///
    /// # Errors
    ///
    /// [`FeaturesError`] for none or too many, for exponents of another number of axes than those before, for one above
    /// [`MAX_EXPONENT`], and for a repeated monomial.
    pub fn try_new(exponents: &[&[u8]]) -> Result<Self, FeaturesError> {
        let len = exponents.len();
        if len == 0 || MAX_FEATURES < len {
            return Err(FeaturesError::NFeatures(len));
        }
        let n_axes = exponents[0].len().saturating_sub(1);
        let mut monomials = [Monomial::default(); MAX_FEATURES];
        for (at, it) in exponents.iter().enumerate() {
            monomials[at] = Monomial::try_new(at, it, n_axes)?;
            if monomials[..at].contains(&monomials[at]) {
                return Err(FeaturesError::Twice { at });
            }
        }
        Ok(Self { monomials, len, n_axes })
    }

    /// Returns how many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns how many axes they are over.
    pub const fn n_axes(&self) -> usize {
        self.n_axes
    }

    /// Whether the shape has as many axes as these features are over.
    pub fn fit(&self, shape: StepShape) -> bool {
        shape.edges().len() == self.n_axes
    }

    /// Whether no monomial grows faster than the number of samples: then each tensor has a size of its own, or so much for
    /// each sample, or both.
    pub fn are_linear_in_samples(&self) -> bool {
        self.monomials[..self.len].iter().all(|it| it.samples <= 1)
    }

    /// Returns the value of each monomial for a shape; what lies beyond [`Self::len`] is 0.
    pub fn of(&self, shape: StepShape) -> [f64; MAX_FEATURES] {
        let mut values = [0.0; MAX_FEATURES];
        for (value, monomial) in values.iter_mut().zip(&self.monomials[..self.len]) {
            *value = monomial.of(shape);
        }
        values
    }
}

impl Default for Features {
    /// The complete ones over one axis.
    fn default() -> Self {
        Self::complete(1)
    }
}

impl Monomial {
    fn try_new(at: usize, exponents: &[u8], n_axes: usize) -> Result<Self, FeaturesError> {
        let [samples, edges @ ..] = exponents else { return Err(FeaturesError::NAxes { at, found: 0 }) };
        if edges.is_empty() || MAX_AXES < edges.len() || edges.len() != n_axes {
            return Err(FeaturesError::NAxes { at, found: exponents.len() });
        }
        if let Some(found) = exponents.iter().copied().find(|it| MAX_EXPONENT < *it) {
            return Err(FeaturesError::Exponent { at, found });
        }
        Ok(Self { samples: *samples, edges: std::array::from_fn(|axis| edges.get(axis).copied().unwrap_or(0)) })
    }

    fn of(self, shape: StepShape) -> f64 {
        let edges = shape.edges().iter().zip(self.edges);
        edges.fold(power(shape.samples, self.samples), |product, (edge, exponent)| product * power(*edge, exponent))
    }
}

fn power(base: u32, exponent: u8) -> f64 {
    match exponent {
        0 => 1.0,
        1 => base.into(),
        2 => f64::from(base) * f64::from(base),
        _ => f64::from(base).powi(exponent.into()),
    }
}

impl TryFrom<Vec<Vec<u8>>> for Features {
    type Error = FeaturesError;

    fn try_from(exponents: Vec<Vec<u8>>) -> Result<Self, FeaturesError> {
        Self::try_new(&exponents.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

impl From<Features> for Vec<Vec<u8>> {
    fn from(features: Features) -> Self {
        let exponents = |it: &Monomial| [&[it.samples], &it.edges[..features.n_axes]].concat();
        features.monomials[..features.len].iter().map(exponents).collect()
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.monomials[..self.len].iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

impl fmt::Display for Monomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const POWERS: [&str; MAX_EXPONENT as usize + 1] = ["", "", "²", "³", "⁴", "⁵", "⁶"];
        let names = ["n", "a", "b", "c"].into_iter().zip([self.samples].into_iter().chain(self.edges));
        let factors: Vec<_> = names
            .filter(|(_, exponent)| 0 < *exponent)
            .map(|(name, exponent)| format!("{name}{}", POWERS[usize::from(exponent)]))
            .collect();
        f.write_str(if factors.is_empty() { "1".to_owned() } else { factors.join("·") }.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extent;

    #[test]
    fn the_complete_features_have_all_products_up_to_squares_alone_and_per_sample() {
        for (n_axes, len) in [(1, 6), (2, 12), (3, 22)] {
            let features = Features::complete(n_axes);
            assert_eq!((features.len(), features.n_axes()), (len, n_axes));
            let written: Vec<Vec<u8>> = features.into();
            assert_eq!(Features::try_from(written), Ok(features), "and none twice");
        }
        assert_eq!(
            Features::complete(3).to_string().split(", n,").next().unwrap(),
            "1, a, b, c, a², a·b, a·c, b², b·c, c², a·b·c"
        );
    }

    #[test]
    fn each_monomial_is_a_product_over_samples_and_edges() {
        let features = Features::try_new(&[&[0, 0, 0], &[1, 2, 1], &[0, 0, 3]]).unwrap();
        let shape = StepShape::of(3, Extent::try_new(&[4, 5]).unwrap());
        assert_eq!(features.of(shape)[..4], [1.0, 3.0 * 16.0 * 5.0, 125.0, 0.0]);
        assert_eq!(features.to_string(), "1, n·a²·b, b³");
        assert!(features.fit(shape) && !features.fit(StepShape::new(3, 4)));
    }

    #[test]
    fn exponents_that_make_no_features_are_refused() {
        assert_eq!(Features::try_new(&[]), Err(FeaturesError::NFeatures(0)));
        assert_eq!(Features::try_new(&[&[]]), Err(FeaturesError::NAxes { at: 0, found: 0 }));
        assert_eq!(Features::try_new(&[&[1]]), Err(FeaturesError::NAxes { at: 0, found: 1 }));
        assert_eq!(Features::try_new(&[&[0, 0], &[1, 1, 1]]), Err(FeaturesError::NAxes { at: 1, found: 3 }));
        assert_eq!(Features::try_new(&[&[0, 7]]), Err(FeaturesError::Exponent { at: 0, found: 7 }));
        assert_eq!(Features::try_new(&[&[0, 1], &[0, 1]]), Err(FeaturesError::Twice { at: 1 }));
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let text = "[[0,0],[0,1],[0,2],[1,0],[1,1],[1,2]]";
        assert_eq!(serde_json::to_string(&Features::default()).unwrap(), text);
        assert_eq!(serde_json::from_str::<Features>(text).unwrap(), Features::default());
    }
}
