//! Sizes in bytes, as options take them.

/// Parses a size in bytes, at least 1: a whole number, and perhaps a unit.
pub fn byte_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let size = number.parse::<u64>().ok().zip(unit_size(unit.trim_start()));
    match size.map(|(number, unit)| number.checked_mul(unit)) {
        Some(Some(size)) if size > 0 => Ok(size),
        Some(None) => Err("more bytes than a file can have".into()),
        _ => Err(FORMS.into()),
    }
}

const FORMS: &str = "expected a whole number of bytes from 1 on, alone or with a unit: 1000000, 64K, 64M, 2G, 1T (or KiB, \
                     MiB, GiB, TiB: powers of 1024), 64KB, 64MB, 2GB, 1TB (powers of 1000)";

/// Returns how many bytes a unit has; `None` if there is no such unit.
fn unit_size(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (base, power) = match &*unit {
        "" | "b" => (1, 1),
        "k" | "kib" => (1024, 1),
        "m" | "mib" => (1024, 2),
        "g" | "gib" => (1024, 3),
        "t" | "tib" => (1024, 4),
        "kb" => (1000, 1),
        "mb" => (1000, 2),
        "gb" => (1000, 3),
        "tb" => (1000, 4),
        _ => return None,
    };
    Some(u64::pow(base, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1", 1),
            ("1000", 1000),
            ("5B", 5),
            ("64K", 64 << 10),
            ("1M", 1 << 20),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("2G", 2 << 30),
            ("2gib", 2 << 30),
            ("1T", 1 << 40),
            ("3kB", 3000),
            ("7MB", 7_000_000),
            ("2GB", 2_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(byte_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "0", "0M", "M", "-1", "1.5G", "1X", "1MM", "1e6", "99999999999999999999"] {
            assert_eq!(byte_size(text), Err(FORMS.into()), "{text}");
        }
        assert!(byte_size("99999999T").is_err_and(|error| error.contains("more bytes")));
    }
}
