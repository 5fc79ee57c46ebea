//! Words that ranks tell each other, who tell each other numbers.

/// Returns numbers that hold a text of up to eight bytes each; what is longer is cut.
pub(super) fn numbers<const N: usize>(text: &str) -> [u64; N] {
    let mut bytes = text.bytes();
    [(); N].map(|()| u64::from_le_bytes([(); 8].map(|()| bytes.next().unwrap_or(0))))
}

/// Returns the text that numbers hold.
pub(super) fn text(numbers: &[u64]) -> String {
    let bytes: Vec<_> = numbers.iter().flat_map(|it| it.to_le_bytes()).take_while(|it| *it != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_heard_as_it_was_told() {
        for it in ["", "node-7", "node-7.cluster.example", &"n".repeat(64)] {
            assert_eq!(text(&numbers::<8>(it)), it);
        }
    }
}
