//! Numbers that ranks tell each other in place of what they have.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns a number that is another for another value, but for chance, and the same on all ranks of one program.
pub fn fingerprint(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let bytes: Vec<u8> = (0..100).collect();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(fingerprint(&other), fingerprint(&bytes), "byte {at}");
        }
        assert_eq!(fingerprint(&bytes.clone()), fingerprint(&bytes));
    }
}
