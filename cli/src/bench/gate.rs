//! Gates: bars that a run must reach, as ratios within the run: `insert.b16 >= 1.5 * sa.insert.b16`.

use std::error::Error;
use std::fmt::Display;

use crate::results::Row;

/// A line of a gate's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    line: String,
    left: Term,
    at_least: bool,
    right: Term,
}

/// A factor and the row it multiplies, if any.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    factor: f64,
    name: Option<String>,
}

/// The outcome of a bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub holds: bool,
    bar: Bar,
    /// The left side over the right.
    ratio: f64,
}

impl Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.holds { "holds" } else { "FAILS" };
        let limit = if self.bar.at_least { "required" } else { "allowed" };
        write!(f, "{word}  {}  ({:.2} of what is {limit})", self.bar.line, self.ratio)
    }
}

/// Parses a gate: a bar a line; a # begins a comment.
pub fn parse(text: &str) -> Result<Vec<Bar>, String> {
    let mut bars = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            bars.push(parse_bar(line).map_err(|error| format!("line {number}: {error}"))?);
        }
    }
    if bars.is_empty() { Err("it contains no bar".into()) } else { Ok(bars) }
}

fn parse_bar(line: &str) -> Result<Bar, String> {
    let (left, at_least, right) = if let Some((left, right)) = line.split_once(">=") {
        (left, true, right)
    } else if let Some((left, right)) = line.split_once("<=") {
        (left, false, right)
    } else {
        return Err(format!("{line:?} has neither >= nor <="));
    };
    Ok(Bar { line: line.into(), left: parse_term(left)?, at_least, right: parse_term(right)? })
}

fn parse_term(text: &str) -> Result<Term, String> {
    let mut term = Term { factor: 1.0, name: None };
    for part in text.split('*').map(str::trim) {
        if let Ok(factor) = part.parse::<f64>() {
            term.factor *= factor;
        } else if part.is_empty() || part.contains(char::is_whitespace) || term.name.is_some() {
            return Err(format!("{:?} is not `number * name`", text.trim()));
        } else {
            term.name = Some(part.into());
        }
    }
    Ok(term)
}

/// The figure of a row that a name means.
type Figure = fn(&Row) -> f64;

/// Finds the row that a name means, and its figure: the mean, or with `.min` or `.max` an extreme.
fn find<'a>(rows: &'a [Row], name: &str) -> Result<(&'a Row, Figure), String> {
    let (of, figure): (&str, Figure) = match name.rsplit_once('.') {
        Some((row, "min")) => (row, least),
        Some((row, "max")) => (row, most),
        _ => (name, Row::mean),
    };
    let meant: Vec<&Row> = rows.iter().filter(|row| names(row).any(|known| known == of)).collect();
    if let [one, another, ..] = meant[..] {
        return Err(format!("{of} is ambiguous: {} or {}", one.name(), another.name()));
    }
    meant.first().map(|row| (*row, figure)).ok_or_else(|| {
        let like = |parts: usize| -> Vec<String> {
            let begin = name.split('.').take(parts).collect::<Vec<_>>().join(".");
            rows.iter().map(Row::name).filter(|known| known.starts_with(&begin)).collect()
        };
        let mut like =
            [like(2), like(1)].into_iter().find(|some| !some.is_empty()).unwrap_or_default();
        like.truncate(12);
        match like.is_empty() {
            true => format!("no measurement is named {name}"),
            false => format!("no measurement is named {name}; there are {}", like.join(", ")),
        }
    })
}

fn least(row: &Row) -> f64 {
    row.extremes().0
}

fn most(row: &Row) -> f64 {
    row.extremes().1
}

/// Returns an error if a name means none of the rows that will be measured.
pub fn check_names(bars: &[Bar], rows: &[Row]) -> Result<(), String> {
    let terms = bars.iter().flat_map(|bar| [&bar.left, &bar.right]);
    let names = terms.filter_map(|term| term.name.as_deref());
    let unknown: Vec<String> = names.filter_map(|name| find(rows, name).err()).collect();
    if unknown.is_empty() { Ok(()) } else { Err(unknown.join("\n")) }
}

/// Returns the full name of a row, and the one without n.
fn names(row: &Row) -> impl Iterator<Item = String> {
    let mut short = row.clone();
    short.params.remove("n");
    [row.name(), short.name()].into_iter()
}

impl Bar {
    /// Returns the experiments that it needs.
    pub fn experiments(&self, all: &[&str]) -> Result<Vec<String>, String> {
        let names = [&self.left, &self.right].into_iter().filter_map(|term| term.name.as_deref());
        let of = |name: &str| {
            let mut parts = name.split('.').take(2);
            let named = parts.find(|part| all.contains(part)).map(String::from);
            named.ok_or_else(|| {
                format!("{name} belongs to no experiment; there are {}", all.join(", "))
            })
        };
        names.map(of).collect()
    }

    pub fn check(&self, rows: &[Row]) -> Result<Verdict, Box<dyn Error>> {
        let value = |term: &Term| {
            let Some(name) = &term.name else { return Ok::<f64, String>(term.factor) };
            let (row, figure) = find(rows, name)?;
            Ok(term.factor * figure(row))
        };
        let (left, right) = (value(&self.left)?, value(&self.right)?);
        let holds = if self.at_least { left >= right } else { left <= right };
        Ok(Verdict { holds, bar: self.clone(), ratio: left / right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Point, Unit};

    fn row(series: &str, b: &str, seconds: f64) -> Row {
        Row {
            experiment: "insert".into(),
            series: series.into(),
            params: [("b".into(), b.into()), ("n".into(), "24".into())].into(),
            over: None,
            unit: Unit::Seconds,
            points: vec![Point { at: 0.0, items: 1000, samples: vec![seconds] }],
        }
    }

    #[test]
    fn bars_hold_or_fail_by_ratio() {
        let rows = [row("gpulsm", "16", 0.5), row("sa", "16", 1.0)];
        let verdicts = |text: &str| -> Vec<bool> {
            parse(text).unwrap().iter().map(|bar| bar.check(&rows).unwrap().holds).collect()
        };
        assert_eq!(verdicts("insert.b16 >= 1.5 * sa.insert.b16 # fast\n\n# nothing"), [true]);
        assert_eq!(verdicts("insert.b16.n24 >= 2.5 * sa.insert.b16.n24"), [false]);
        assert_eq!(verdicts("sa.insert.b16 <= insert.b16.min\ninsert.b16 >= 2001"), [true, false]);
    }

    #[test]
    fn what_cannot_be_read_or_found_is_said() {
        assert!(parse("insert.b16 > 2").unwrap_err().starts_with("line 1"));
        assert!(parse("\ninsert b16 >= 2").unwrap_err().starts_with("line 2"));
        assert!(parse("# nothing").is_err());
        let bar = &parse("insert.b17 >= 1").unwrap()[0];
        let error = bar.check(&[row("gpulsm", "16", 1.0)]).unwrap_err().to_string();
        assert!(error.contains("insert.b17"), "{error}");
        assert_eq!(bar.experiments(&["insert", "lookup"]).unwrap(), ["insert"]);
        assert!(bar.experiments(&["lookup"]).unwrap_err().contains("insert.b17"));
        let mut rows = [row("gpulsm", "16", 1.0), row("gpulsm", "16", 1.0)];
        rows[1].params.insert("n".into(), "27".into());
        let of = |name: &str| find(&rows, name).map(|(row, _)| row.name());
        assert_eq!(
            of("insert.b16").unwrap_err(),
            "insert.b16 is ambiguous: insert.b16.n24 or insert.b16.n27"
        );
        assert_eq!(of("insert.b16.n27.max").unwrap(), "insert.b16.n27");
        let bar = &parse("count.L8.b16 >= 0.5 * sa.count.L8.b16").unwrap()[0];
        assert_eq!(bar.experiments(&["count"]).unwrap(), ["count", "count"]);
    }
}
