//! Number formats: rates in millions a second, with three or four significant digits.

/// Formats a rate, given in items a second, in millions a second.
pub fn rate(per_second: f64) -> String {
    number(per_second / 1e6)
}

/// Formats a number with three or four significant digits and thousands separators.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".into();
    }
    let decimals = match size {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.0 => 0,
        _ => 4,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// Formats a number with as few digits as possible: for ticks.
pub fn number_short(value: f64) -> String {
    let decimals = (0..6).find(|&decimals| {
        let written = format!("{value:.decimals$}");
        (written.parse::<f64>().unwrap_or(value) - value).abs() <= 1e-6 * value.abs()
    });
    grouped(&format!("{value:.*}", decimals.unwrap_or(6)))
}

/// Puts a comma before every three digits ahead of the point.
fn grouped(written: &str) -> String {
    let (whole, rest) = written.split_at(written.find('.').unwrap_or(written.len()));
    let digits = whole.trim_start_matches('-');
    let mut out = whole[..whole.len() - digits.len()].to_string();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// Formats a ratio: `13.5 ×`.
pub fn times(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "–".into();
    }
    let decimals = if ratio.abs() < 9.995 {
        2
    } else if ratio.abs() < 99.95 {
        1
    } else {
        0
    };
    grouped(&format!("{ratio:.decimals$}")) + " ×"
}

/// Formats a share in percent.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let percent = share * 100.0;
    let decimals = usize::from((percent - percent.round()).abs() > 0.05);
    format!("{percent:.decimals$} %")
}

/// Formats a time in milliseconds.
pub fn millis(seconds: f64) -> String {
    number(seconds * 1e3)
}

/// Formats one of the paper's figures, with the digits it prints.
pub fn printed(figure: f64, decimals: usize) -> String {
    grouped(&format!("{figure:.decimals$}"))
}

/// Formats a date and time in UTC, from seconds since 1970.
pub fn date(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    // The calendar in eras of 400 years that begin on 1 March, so that leap days come last.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        for (value, written) in [
            (1_234_567.0, "1,234,567"),
            (23_040.4, "23,040"),
            (727.84, "728"),
            (58.44, "58.4"),
            (2.6, "2.60"),
            (0.7, "0.700"),
            (0.0, "0"),
            (-1234.0, "-1,234"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(number(value), written);
        }
        assert_eq!(rate(727.8e6), "728");
        assert_eq!(times(13.49), "13.5 ×");
        assert_eq!(times(0.871), "0.87 ×");
        assert_eq!(percent(0.1), "10 %");
        assert_eq!(percent(0.031), "3.1 %");
        assert_eq!(percent(0.125), "12.5 %");
    }

    #[test]
    fn the_paper_keeps_its_digits() {
        assert_eq!(printed(1870.2, 1), "1,870.2");
        assert_eq!(printed(4.1, 2), "4.10");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_794_729_600 + 3_661), "2026-11-15 09:01 UTC");
    }
}
