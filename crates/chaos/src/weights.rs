//! The weights that a run ends with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::Failed;

/// Tensors by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weights {
    bytes: Vec<u8>,
    tensors: BTreeMap<String, Vec<f32>>,
}

impl Weights {
    /// Reads the weights of the last checkpoint.
    pub(crate) fn of_run(run: &Path) -> Result<Self, Failed> {
        let folders = fs::read_dir(run.join("checkpoints"))?.flatten().map(|it| it.path());
        let is_checkpoint =
            |it: &std::path::PathBuf| it.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-"));
        let last = folders.filter(is_checkpoint).max().ok_or("find a checkpoint: there is none")?;
        let path = last.join("weights.safetensors");
        let bytes = fs::read(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
        let tensors = parse(&bytes).map_err(|error| format!("read {}: {error}", path.display()))?;
        Ok(Self { bytes, tensors })
    }

    /// Whether both files are the same to the last bit.
    pub(crate) fn is_identical(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    pub(crate) fn are_finite(&self) -> bool {
        self.values().all(f32::is_finite)
    }

    /// Returns the norm of the difference over that of the others, all tensors together.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        if !self.tensors.keys().eq(other.tensors.keys()) {
            return f64::INFINITY;
        }
        let pairs = self.values().zip(other.values()).map(|(a, b)| (f64::from(a), f64::from(b)));
        let (difference, norm) = pairs.fold((0.0, 0.0), |(d, n), (a, b)| (d + (a - b).powi(2), n + b * b));
        (difference / norm).sqrt()
    }

    fn values(&self) -> impl Iterator<Item = f32> {
        self.tensors.values().flatten().copied()
    }
}

/// Reads a file of safetensors, all of 32 bits.
fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Vec<f32>>, Failed> {
    let tensor = |(name, view): (String, TensorView<'_>)| {
        if view.dtype() != Dtype::F32 {
            return Err(format!("`{name}` is of {:?}, it must be of F32", view.dtype()).into());
        }
        let (numbers, _) = view.data().as_chunks();
        Ok((name, numbers.iter().map(|it| f32::from_le_bytes(*it)).collect()))
    };
    SafeTensors::deserialize(bytes)?.tensors().into_iter().map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(values: [f32; 3]) -> Vec<u8> {
        let header = r#"{"__metadata__":{"by":"hand"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#;
        let numbers = values.iter().flat_map(|it| it.to_le_bytes());
        (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(numbers).collect()
    }

    fn weights(values: [f32; 3]) -> Weights {
        let bytes = file(values);
        Weights { tensors: parse(&bytes).unwrap(), bytes }
    }

    #[test]
    fn tensors_are_found_by_their_names() {
        let tensors = parse(&file([1.0, -2.0, 0.5])).unwrap();
        assert_eq!((&tensors["a"][..], &tensors["b"][..]), (&[1.0, -2.0][..], &[0.5][..]));
        assert!(parse(&file([1.0; 3])[..40]).is_err());
    }

    #[test]
    fn the_distance_is_relative_and_sees_every_tensor() {
        let (one, other) = (weights([3.0, 0.0, 4.0]), weights([3.0, 0.0, 4.5]));
        assert!((other.distance(&one) - 0.1).abs() < 1e-12);
        assert!(one.is_identical(&one) && !one.is_identical(&other));
        assert!(!weights([f32::NAN, 0.0, 0.0]).are_finite());
    }
}
