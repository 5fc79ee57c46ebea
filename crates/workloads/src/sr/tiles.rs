//! Covering an image with overlapping tiles.

/// One tile along one axis: what the model sees, and the part of it that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First pixel that the model sees.
    pub(crate) start: u32,
    /// First pixel that counts.
    pub(crate) core_start: u32,
    /// First pixel that no longer counts.
    pub(crate) core_end: u32,
}

/// Covers `0..len` with tiles of `edge` pixels, whose cores are disjoint, cover everything, and keep `halo` pixels of
/// context on each side that is not a border of the image.
///
/// With a halo of the model's receptive radius the result is that of the undivided image.
pub(crate) fn spans(len: u32, edge: u32, halo: u32) -> Vec<Span> {
    debug_assert!(halo < edge && edge <= len, "tiles of {edge} with a halo of {halo} on {len} pixels");
    let (mut spans, mut core_start) = (Vec::new(), 0_u32);
    loop {
        let start = core_start.saturating_sub(halo).min(len - edge);
        let core_end = if start + edge == len { len } else { (start + edge - halo).max(core_start + 1) };
        spans.push(Span { start, core_start, core_end });
        if core_end == len {
            return spans;
        }
        core_start = core_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_partition_the_image_and_keep_their_context() {
        for len in 16..120 {
            for edge in 16..=len.min(64) {
                for halo in [0, 3, 10] {
                    let spans = spans(len, edge, halo);
                    let mut next = 0;
                    for Span { start, core_start, core_end } in spans {
                        assert_eq!(core_start, next, "{len} {edge} {halo}");
                        assert!(core_start < core_end && start + edge <= len);
                        assert!(start == 0 || start + halo <= core_start, "{len} {edge} {halo}");
                        let enough = edge > 2 * halo;
                        assert!(
                            !enough || start + edge == len || core_end + halo <= start + edge,
                            "{len} {edge} {halo}"
                        );
                        next = core_end;
                    }
                    assert_eq!(next, len);
                }
            }
        }
    }
}
