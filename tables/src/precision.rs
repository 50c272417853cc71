//! Whether a number of a file lost precision.

use std::cmp::Ordering;

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
            Scalar::Signed(number) => double as i128 != number,
            Scalar::Double(number) => double != number && !number.is_nan(),
            Scalar::Single(_) | Scalar::Bytes(_) | Scalar::Present => false,
        }
    }

    /// Returns whether this number, which was parsed from a text, is another if it is written with as
    /// many digits.
    pub(crate) fn is_rounded_from_text(self, text: &str) -> bool {
        let (double, is_normal, safe_digits) = match self {
            Scalar::Single(number) => (number.into(), number.is_normal(), f32::DIGITS),
            Scalar::Double(number) => (number, number.is_normal(), f64::DIGITS),
            _ => return false,
        };
        // A short text has few digits.
        if !double.is_finite() || is_normal && text.len() <= safe_digits as usize {
            return false;
        }
        is_plain_text_rounded(double.abs(), text).unwrap_or_else(|| is_text_rounded(self, text))
    }
}

/// Compares a number with a text of at most 19 digits and no exponent; `None` if it is no such text or
/// the number is large or tiny. This is many times as fast as to write the number.
fn is_plain_text_rounded(number: f64, text: &str) -> Option<bool> {
    let (whole, fraction) = text.split_once('.')?;
    let whole = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    // Zeros at the end are not digits that the file has to tell.
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() && whole.ends_with('0') {
        return None;
    }
    let digits = whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() > 19 {
        return None;
    }
    let mut unscaled = 0u64;
    for digit in digits {
        unscaled = unscaled * 10 + u64::from(digit.checked_sub(b'0').filter(|&it| it < 10)?);
    }
    // The number is mantissa / 2^shift, the text unscaled / 10^places: both times 2^shift * 10^places.
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = number.to_bits();
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1) | 1 << MANTISSA_BITS;
    let shift = (1023 + MANTISSA_BITS).checked_sub((bits >> MANTISSA_BITS) as u32)?;
    let places = fraction.len() as u32;
    if !number.is_normal() || shift > 63 {
        return None;
    }
    let stored = u128::from(mantissa) * 10u128.pow(places);
    let written = u128::from(unscaled) << shift;
    // Half of the text's last digit is as far as a number may be that is written so.
    match (2 * stored.abs_diff(written)).cmp(&(1 << shift)) {
        Ordering::Less => Some(false),
        Ordering::Equal => None,
        Ordering::Greater => Some(true),
    }
}

/// Compares a number with any text, by writing the number.
fn is_text_rounded(number: Scalar, text: &str) -> bool {
    /// No float has more digits than these.
    const MOST_DIGITS: usize = 800;
    let digits = significant(text);
    if digits.is_empty() || digits.len() > MOST_DIGITS {
        return !digits.is_empty();
    }
    let places = digits.len() - 1;
    let written = match number {
        Scalar::Single(number) => format!("{number:.places$e}"),
        Scalar::Double(number) => format!("{number:.places$e}"),
        _ => return false,
    };
    significant(&written) != digits
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

    #[test]
    fn both_ways_to_compare_with_a_text_agree() {
        let mut state = 7u64;
        let mut compared = 0;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let number = (state >> 20) as f64 / 10f64.powi((state % 20) as i32);
            let places = (state >> 8) as usize % 20;
            for text in [number.to_string(), format!("{number:.places$}"), format!("-{number}")] {
                let double: f64 = text.parse().unwrap();
                let single: f32 = text.parse().unwrap();
                let scalars = [Scalar::Double(double), Scalar::Single(single)];
                for (stored, scalar) in [double, single.into()].into_iter().zip(scalars) {
                    if let Some(is_rounded) = is_plain_text_rounded(stored.abs(), &text) {
                        assert_eq!(is_rounded, is_text_rounded(scalar, &text), "{text} {scalar}");
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 10_000, "{compared}");
    }
}
