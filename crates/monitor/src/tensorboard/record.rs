//! Records of an event file: protocol buffers, each with its length and two checksums.

/// The version that makes TensorBoard heed where a run began again.
const VERSION: &[u8] = b"brain.Event:2";

/// The fields of the messages that are written, each with its number and its wire type (0: a whole number, 1: 64 bits, 2: bytes
/// after their length, 5: 32 bits).
mod field {
    pub(super) const EVENT_WALL_TIME: u8 = 1 << 3 | 1;
    pub(super) const EVENT_STEP: u8 = 2 << 3;
    pub(super) const EVENT_FILE_VERSION: u8 = 3 << 3 | 2;
    pub(super) const EVENT_SUMMARY: u8 = 5 << 3 | 2;
    pub(super) const EVENT_SESSION_LOG: u8 = 7 << 3 | 2;
    pub(super) const SESSION_STATUS: u8 = 1 << 3;
    pub(super) const SUMMARY_VALUE: u8 = 1 << 3 | 2;
    pub(super) const VALUE_TAG: u8 = 1 << 3 | 2;
    pub(super) const VALUE_SIMPLE: u8 = 2 << 3 | 5;
}

/// `SessionLog.START`.
const START: u8 = 1;

/// A number with its name.
pub(super) struct Scalar<'a> {
    pub(super) tag: &'a str,
    pub(super) value: f64,
}

/// Bytes of records, in buffers that are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    summary: Vec<u8>,
    message: Vec<u8>,
}

impl Records {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds the record with which a file begins.
    pub(super) fn version(&mut self, wall_time: f64) {
        self.message(wall_time, None);
        bytes(&mut self.message, field::EVENT_FILE_VERSION, VERSION);
        self.frame();
    }

    /// Adds a record that makes void what was said of this step and later ones.
    pub(super) fn begin(&mut self, step: u64, wall_time: f64) {
        self.message(wall_time, Some(step));
        bytes(&mut self.message, field::EVENT_SESSION_LOG, &[field::SESSION_STATUS, START]);
        self.frame();
    }

    /// Adds a record of numbers of one step; they are kept in 32 bits, as the format has them.
    pub(super) fn scalars<'a>(&mut self, step: u64, wall_time: f64, scalars: impl Iterator<Item = Scalar<'a>>) {
        self.summary.clear();
        for Scalar { tag, value } in scalars {
            let length = 1 + n_bytes(tag.len() as u64) + tag.len() + 5;
            self.summary.push(field::SUMMARY_VALUE);
            whole(&mut self.summary, length as u64);
            bytes(&mut self.summary, field::VALUE_TAG, tag.as_bytes());
            self.summary.push(field::VALUE_SIMPLE);
            #[expect(clippy::cast_possible_truncation, reason = "the format has 32 bits for a number")]
            self.summary.extend_from_slice(&(value as f32).to_le_bytes());
        }
        self.message(wall_time, Some(step));
        bytes(&mut self.message, field::EVENT_SUMMARY, &self.summary);
        self.frame();
    }

    fn message(&mut self, wall_time: f64, step: Option<u64>) {
        self.message.clear();
        self.message.push(field::EVENT_WALL_TIME);
        self.message.extend_from_slice(&wall_time.to_le_bytes());
        if let Some(step) = step {
            self.message.push(field::EVENT_STEP);
            whole(&mut self.message, step);
        }
    }

    /// Adds the message as a record.
    fn frame(&mut self) {
        let length = (self.message.len() as u64).to_le_bytes();
        self.bytes.extend_from_slice(&length);
        self.bytes.extend_from_slice(&masked_crc(&length).to_le_bytes());
        self.bytes.extend_from_slice(&self.message);
        self.bytes.extend_from_slice(&masked_crc(&self.message).to_le_bytes());
    }
}

/// Writes a field of bytes with their length.
fn bytes(to: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    to.push(field);
    whole(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// Writes a whole number, seven bits in a byte, the lowest first.
fn whole(to: &mut Vec<u8>, mut value: u64) {
    while 0x80 <= value {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push((value & 0x7f) as u8);
}

/// Returns how many bytes a whole number takes.
const fn n_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Returns the CRC-32C (Castagnoli), turned and shifted so that a checksum over checksums tells as much.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_takes_a_byte_for_each_seven_bits() {
        for (value, expected) in [(0, &[0][..]), (127, &[127]), (128, &[0x80, 1]), (300, &[0xac, 2])] {
            let mut written = Vec::new();
            whole(&mut written, value);
            assert_eq!((written.as_slice(), written.len()), (expected, n_bytes(value)));
        }
        assert_eq!(n_bytes(u64::MAX), 10);
    }
}
