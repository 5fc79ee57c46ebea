//! What the edges promise.

use crate::source::Lengths;

/// Returns the part of the positions, from 0 to 1, that is padding where each sample is padded to its own edge and those longer
/// than `longest` are left out; `None` where samples are cut or packed, or their lengths show only when they are read.
///
/// A micro-batch that mixes lengths of several edges has more. Of a million samples it takes some 20 ms.
pub(crate) fn planned_padding(lengths: &Lengths, edges: &[u32], longest: Option<u32>) -> Option<f64> {
    let Lengths::Known(index) = lengths else { return None };
    let longest = longest.unwrap_or(u32::MAX);
    let (mut real, mut padded) = (0u64, 0u64);
    for [length] in index.iter() {
        let Some(edge) = edges.get(edges.partition_point(|edge| *edge < length)) else { continue };
        if *edge <= longest {
            (real, padded) = (real + u64::from(length), padded + u64::from(*edge));
        }
    }
    (0 < padded).then(|| 1.0 - real as f64 / padded as f64)
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::SampleIndex;

    use super::*;

    fn known(lengths: &[u32]) -> Lengths {
        Lengths::Known(SampleIndex::try_new([lengths]).unwrap())
    }

    #[test]
    fn each_sample_is_padded_to_its_own_edge() {
        let check = |lengths: &[u32], longest, planned: f64| {
            let found = planned_padding(&known(lengths), &[8, 16], longest).unwrap();
            assert!((found - planned).abs() < 1e-12, "{lengths:?}: {found}");
        };
        check(&[8, 16], None, 0.0);
        check(&[6, 9], None, 9.0 / 24.0);
        check(&[6, 9, 17], None, 9.0 / 24.0);
        check(&[6, 9], Some(8), 0.25);
    }

    #[test]
    fn what_is_not_known_before_is_not_promised() {
        assert_eq!(planned_padding(&Lengths::Cut, &[8], None), None);
        assert_eq!(planned_padding(&Lengths::Streamed { longest: 8 }, &[8], None), None);
        assert_eq!(planned_padding(&known(&[9]), &[8], None), None);
    }
}
