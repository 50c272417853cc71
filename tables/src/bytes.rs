//! Bytes of a fixed number, as text or as hexadecimal digits.

use std::fmt;

/// The greatest number of bytes.
const MOST: usize = 16;

/// Up to 16 bytes.
///
/// They are written as text, without zeros at the end, where that can be read back; otherwise as `0x` and two
/// hexadecimal digits for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedBytes {
    bytes: [u8; MOST],
    len: u8,
}

impl FixedBytes {
    /// Takes bytes as they are.
    ///
    /// # Panics
    ///
    /// Panics if there are more than 16.
    pub fn new(bytes: &[u8]) -> Self {
        FixedBytes::padded(bytes, bytes.len())
    }

    /// Takes bytes, and as many zeros after them as there must be.
    fn padded(bytes: &[u8], len: usize) -> Self {
        let mut padded = [0; MOST];
        padded[..bytes.len()].copy_from_slice(bytes);
        FixedBytes { bytes: padded, len: len as u8 }
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }

    /// Parses a text of at most `len` bytes, to which zeros are appended, or `0x` and hexadecimal digits for all of
    /// them.
    pub(crate) fn parse(text: &str, len: usize) -> Result<Self, String> {
        match text.strip_prefix("0x") {
            Some(digits) => FixedBytes::from_digits(digits, len),
            None => FixedBytes::from_bytes(text.as_bytes(), len),
        }
    }

    /// Takes at most `len` bytes, to which zeros are appended.
    pub(crate) fn from_bytes(bytes: &[u8], len: usize) -> Result<Self, String> {
        match bytes.len() <= len {
            true => Ok(FixedBytes::padded(bytes, len)),
            false => {
                let most = if len == 1 { "1 byte".into() } else { format!("{len} bytes") };
                Err(format!("{} bytes (expected at most {most})", bytes.len()))
            }
        }
    }

    fn from_digits(digits: &str, len: usize) -> Result<Self, String> {
        let wrong = || format!("not hexadecimal (expected 0x and {} digits)", 2 * len);
        if digits.len() != 2 * len || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u128::from_str_radix(digits, 16).map_err(|_| wrong())?;
        Ok(FixedBytes::new(&number.to_be_bytes()[MOST - len..]))
    }

    /// Returns the text that these bytes are, if it is read as these bytes wherever a word is.
    fn text(&self) -> Option<&str> {
        let end = self.as_slice().iter().rposition(|&byte| byte != 0)? + 1;
        let text = str::from_utf8(&self.bytes[..end]).ok()?;
        let is_special = |letter: char| letter.is_control() || letter.is_whitespace();
        let is_word = !text.contains(|letter| is_special(letter) || ":=\"'\\`".contains(letter));
        (is_word && !text.starts_with(['-', '#']) && !text.starts_with("0x")).then_some(text)
    }
}

impl fmt::Display for FixedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.text() {
            return f.write_str(text);
        }
        f.write_str("0x")?;
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_digits() {
        let check = |text: &str, len: usize, bytes: &[u8], written: &str| {
            let parsed = FixedBytes::parse(text, len).unwrap();
            assert_eq!(parsed.as_slice(), bytes, "{text}");
            assert_eq!(parsed.to_string(), written, "{text}");
            assert_eq!(FixedBytes::parse(written, len), Ok(parsed), "{text}");
        };
        check("AAPL", 4, b"AAPL", "AAPL");
        check("AAPL", 6, b"AAPL\0\0", "AAPL");
        check("é", 2, "é".as_bytes(), "é");
        check("0x4142", 2, b"AB", "AB");
        check("0x0000ff", 3, &[0, 0, 255], "0x0000ff");
        check("", 2, &[0, 0], "0x0000");
        check("a:b", 3, b"a:b", "0x613a62");
        check("0x3078", 2, b"0x", "0x3078");
        check(&format!("0x{}", "f".repeat(32)), 16, &[255; 16], &format!("0x{}", "f".repeat(32)));
    }

    #[test]
    fn what_is_no_such_bytes_is_explained() {
        for (text, len, what) in [
            ("AAPL", 3, "4 bytes (expected at most 3 bytes)"),
            ("0x1", 1, "not hexadecimal (expected 0x and 2 digits)"),
            ("0x+1", 1, "not hexadecimal"),
            ("0xzz", 1, "not hexadecimal"),
            ("0x0102", 3, "expected 0x and 6 digits"),
        ] {
            let error = FixedBytes::parse(text, len).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
