//! The contents of a report, before it becomes a page or a Markdown file. In all texts `2^20` stands for a
//! power, which the page sets with a superscript.

use crate::report::chart::{Bars, Plot};
use crate::report::rates::Headline;

/// The whole report.
#[derive(Default)]
pub struct Document {
    pub title: String,
    /// What comes before all sections: where and how it was measured, and the main figures.
    pub lead: Vec<Part>,
    pub sections: Vec<Section>,
}

/// An experiment, or something else with a heading.
#[derive(Default)]
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub parts: Vec<Part>,
    /// What the table at the top says of it.
    pub headlines: Vec<Headline>,
}

impl Section {
    /// Makes a section that begins with a description.
    pub fn new(id: &'static str, title: &'static str, about: &str) -> Self {
        Section { id, title, parts: vec![Part::Text(about.into())], headlines: Vec::new() }
    }

    pub fn text(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(text.into()));
    }

    /// Adds plots side by side; empty ones are left out.
    pub fn figures(&mut self, figures: impl IntoIterator<Item = Figure>) {
        let figures: Vec<_> = figures.into_iter().filter(|figure| !figure.is_empty()).collect();
        if !figures.is_empty() {
            self.parts.push(Part::Figures(figures));
        }
    }

    /// Adds a table, if it has any line.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }

    /// Returns whether there is only the description.
    pub fn is_bare(&self) -> bool {
        self.parts.len() < 2
    }
}

pub enum Part {
    Text(String),
    /// Text about the figures above, for forms that have figures.
    OfFigures(String),
    Figures(Vec<Figure>),
    Table(Table),
}

pub enum Figure {
    Plot(Plot),
    Bars(Bars),
}

impl Figure {
    fn is_empty(&self) -> bool {
        match self {
            Figure::Plot(plot) => plot.lines.iter().all(|line| line.points.is_empty()),
            Figure::Bars(bars) => bars.groups.is_empty(),
        }
    }
}

/// Columns under headings that may be grouped; the first column names the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
    /// How many of the last rows are means of those above.
    pub means: usize,
    /// Whether it holds words that may be long, instead of figures.
    pub plain: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub group: String,
    pub name: String,
    /// Words are set flush left, numbers flush right.
    pub words: bool,
}

impl Table {
    pub fn new(caption: impl Into<String>) -> Self {
        Table { caption: caption.into(), ..Table::default() }
    }

    /// Adds columns of numbers under a common heading, or under none.
    pub fn group<'a>(mut self, group: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        for name in names {
            self.columns.push(Column { group: group.into(), name: name.into(), words: false });
        }
        self
    }

    /// Adds columns of words.
    pub fn words<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        for name in names {
            self.columns.push(Column { group: String::new(), name: name.into(), words: true });
        }
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.caption);
        self.rows.push(cells);
    }

    /// Returns whether some columns have a common heading.
    pub fn is_grouped(&self) -> bool {
        self.columns.iter().any(|column| !column.group.is_empty())
    }
}

/// Splits a text at its powers: (plain, exponent) pairs, the last exponent empty.
pub fn powers(text: &str) -> Vec<(&str, &str)> {
    let (mut rest, mut parts) = (text, Vec::new());
    while let Some(at) = rest.find('^') {
        let (plain, after) = (&rest[..at], &rest[at + 1..]);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
        // A function's argument is raised with it.
        let end = if after[end..].starts_with("(r)") { end + "(r)".len() } else { end };
        if end == 0 {
            break;
        }
        parts.push((plain, &after[..end]));
        rest = &after[end..];
    }
    parts.push((rest, ""));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_cut_out() {
        assert_eq!(
            powers("b = 2^20 of n = 2^27."),
            [("b = 2", "20"), (" of n = 2", "27"), (".", "")]
        );
        assert_eq!(powers("none"), [("none", "")]);
        assert_eq!(powers("a ^ b"), [("a ^ b", "")]);
        assert_eq!(powers("2^ffz(r)"), [("2", "ffz(r)"), ("", "")]);
    }
}
