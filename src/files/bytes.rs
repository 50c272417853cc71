//! Little-endian numbers and short texts as bytes, and checksums of bytes.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// Sections of files begin at multiples of this.
pub(crate) const PAGE: u64 = 4096;

/// Returns the XXH3 of 64 bits.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Returns the XXH3 of 64 bits of parts that lie one after the other, with a seed.
pub(crate) fn seeded_checksum(seed: u64, parts: &[&[u8]]) -> u64 {
    if let [part] = parts {
        return XxHash3_64::oneshot_with_seed(seed, part);
    }
    let mut hasher = XxHash3_64::with_seed(seed);
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish()
}

/// Rounds up to a multiple of [`PAGE`]; `None` if that is too large.
pub(crate) fn round_up_to_page(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}

/// Bytes that numbers and texts are added to.
#[derive(Default)]
pub(crate) struct Encoder(pub Vec<u8>);

impl Encoder {
    pub fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub fn u16(&mut self, number: u16) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn u32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn u64s(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|&number| self.u64(number));
    }

    /// Adds a short text, such as the name of a type.
    pub fn text(&mut self, text: &str) {
        self.u16(text.len().try_into().expect("names are shorter than 64 KiB"));
        self.0.extend(text.as_bytes());
    }
}

/// Takes numbers and texts off the front of bytes; `None` where they end too early.
pub(crate) struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn text(&mut self) -> Option<String> {
        let len = self.u16()?;
        String::from_utf8(self.bytes(len.into())?.to_vec()).ok()
    }
}
