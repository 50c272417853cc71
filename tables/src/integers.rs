//! Types of integers: what their texts are, and which numbers they have.

use crate::Scalar;

/// A type of integers.
#[derive(Clone, Copy, Debug)]
pub struct Integers {
    pub name: &'static str,
    pub least: i128,
    pub greatest: u128,
}

impl Integers {
    /// Parses an integer, or returns what is wrong with the text.
    pub fn parse(self, text: &str) -> Result<Scalar, String> {
        if let Ok(number) = text.parse::<u128>() {
            return self.convert(Scalar::Unsigned(number));
        }
        if let Ok(number) = text.parse::<i128>() {
            return self.convert(Scalar::Signed(number));
        }
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        Err(if is_number { self.out_of_range() } else { not_a_number(text, self.name, "integer") })
    }

    /// Converts an integer to this type, or returns what is wrong with it.
    pub fn convert(self, number: Scalar) -> Result<Scalar, String> {
        let fits = match number {
            Scalar::Unsigned(number) => number <= self.greatest,
            Scalar::Signed(number) => {
                number >= self.least && (number < 0 || number.unsigned_abs() <= self.greatest)
            }
            _ => return Err(expected(self.name, "integer")),
        };
        match number {
            _ if !fits => Err(self.out_of_range()),
            Scalar::Unsigned(number) if self.least < 0 => Ok(Scalar::Signed(number as i128)),
            Scalar::Signed(number) if self.least == 0 => Ok(Scalar::Unsigned(number as u128)),
            number => Ok(number),
        }
    }

    fn out_of_range(self) -> String {
        let Integers { name, least, greatest } = self;
        format!("out of range: {name} goes from {least} to {greatest}")
    }
}

/// Returns what is wrong with a text that is no number of this type; `what` is "integer" or "number".
pub fn not_a_number(text: &str, name: &str, what: &str) -> String {
    if is_time(text) {
        return format!(
            "a date or time in text: convert it to a number first, such as seconds since \
             1970-01-01 (expected {name})"
        );
    }
    if text.contains(',') && text.replace(',', "").parse::<f64>().is_ok() {
        let advice = "use a decimal point, and no mark between thousands";
        return format!("not a number: it has a comma; {advice} (expected {name})");
    }
    expected(name, what)
}

pub fn expected(name: &str, what: &str) -> String {
    let article = if what == "integer" { "an" } else { "a" };
    format!("not {article} {what} (expected {name})")
}

/// Returns whether a text looks like a date, a time or both: ISO 8601, RFC 3339, or as people write them.
fn is_time(text: &str) -> bool {
    const SHAPES: [&str; 6] =
        ["0000-00-00", "0000/00/00", "00/00/0000", "00.00.0000", "00:00:00", "00000000T"];
    let digit = |letter: char| if letter.is_ascii_digit() { '0' } else { letter };
    let shape: String = text.chars().take(10).map(digit).collect();
    SHAPES.iter().any(|time| shape.starts_with(time))
}
