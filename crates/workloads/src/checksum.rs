//! A number that tells data apart.

/// A hash that is the same on every machine and in every version, unlike those of the standard library.
///
/// # Sources
///
/// FNV-1a in 64 bits, <http://www.isthe.com/chongo/tech/comp/fnv/>.
pub(crate) struct Checksum(u64);

impl Checksum {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes of any number, told apart from what comes before and after.
    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.write(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, add);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        for (text, expected) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            let mut checksum = Checksum::new();
            checksum.write(text.as_bytes());
            assert_eq!(checksum.finish(), expected, "{text}");
        }
    }

    #[test]
    fn what_ends_a_text_does_not_begin_the_next() {
        let of = |texts: [&str; 2]| {
            let mut checksum = Checksum::new();
            for text in texts {
                checksum.text(text);
            }
            checksum.finish()
        };
        assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
    }
}
