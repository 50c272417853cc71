//! Whether a number of a file lost precision.

use crate::Scalar;

impl Scalar {
    /// Returns whether this number, which was converted from another, is not quite that one.
    pub(crate) fn is_rounded_from(self, number: Scalar) -> bool {
        let double = match self {
            Scalar::Single(single) => single.into(),
            Scalar::Double(double) => double,
            _ => return false,
        };
        match number {
            Scalar::Unsigned(number) => double as u128 != number,
            Scalar::Signed(number) => double as i128 != number.into(),
            Scalar::Double(number) => double != number && !number.is_nan(),
            Scalar::Single(_) | Scalar::Present => false,
        }
    }

    /// Returns whether this number, which was parsed from a text, is another if it is written with as
    /// many digits.
    pub(crate) fn is_rounded_from_text(self, text: &str) -> bool {
        /// No float has more digits than these.
        const MOST_DIGITS: usize = 800;
        let (is_finite, is_normal, safe_digits) = match self {
            Scalar::Single(number) => (number.is_finite(), number.is_normal(), f32::DIGITS),
            Scalar::Double(number) => (number.is_finite(), number.is_normal(), f64::DIGITS),
            _ => return false,
        };
        // A short text has few digits. (This is the usual case, and the rest is slow.)
        if !is_finite || is_normal && text.len() <= safe_digits as usize {
            return false;
        }
        let digits = significant(text);
        if digits.is_empty() || digits.len() > MOST_DIGITS {
            return !digits.is_empty();
        }
        let places = digits.len() - 1;
        let written = match self {
            Scalar::Single(number) => format!("{number:.places$e}"),
            Scalar::Double(number) => format!("{number:.places$e}"),
            _ => return false,
        };
        significant(&written) != digits
    }
}

/// Returns the digits of a number from the first to the last that is not 0, without point and exponent.
fn significant(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    #[test]
    fn lost_precision_is_noticed() {
        let converted = |of: Type, from: Scalar| of.convert(from).unwrap().is_rounded_from(from);
        assert!(converted(Type::F64, Scalar::Signed((1 << 53) + 1)));
        assert!(!converted(Type::F64, Scalar::Signed(-(1 << 53))));
        assert!(converted(Type::F32, Scalar::Unsigned((1 << 24) + 1)));
        assert!(converted(Type::F64, Scalar::Unsigned(u64::MAX.into())));
        assert!(converted(Type::F32, Scalar::Double(0.1)));
        assert!(!converted(Type::F32, Scalar::Double(f64::NAN)));
        assert!(!converted(Type::F64, Scalar::Single(0.1)));
        assert!(!converted(Type::U64, Scalar::Signed(7)));

        let parsed = |of: Type, text: &str| of.parse(text).unwrap().is_rounded_from_text(text);
        for text in ["0.1", "1e300", "9007199254740992", "-0.0", "0.00000000000000000000", "inf"] {
            assert!(!parsed(Type::F64, text), "{text}");
        }
        // As shortest and as longest writers write 0.1 and 1/3; a large number with many zeros.
        for text in ["0.10000000000000001", "0.3333333333333333", "100000000000000000000000.000"] {
            assert!(!parsed(Type::F64, text), "{text}");
        }
        for text in ["9007199254740993", "0.1234567890123456789", "1e-400", "1.2e-323"] {
            assert!(parsed(Type::F64, text), "{text}");
        }
        assert!(!parsed(Type::F32, "0.123456791") && parsed(Type::F32, "0.123456789"));
        assert!(!parsed(Type::F32, "16777216") && parsed(Type::F32, "16777217"));
        assert!(parsed(Type::F64, &format!("0.{}", "1".repeat(1 << 20))));
        assert!(!parsed(Type::U64, "18446744073709551615"));
    }
}
