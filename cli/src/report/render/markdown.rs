//! The report as Markdown: the same text and tables, without the plots.

use super::document::{Document, Part, Section, Table};

/// Renders the text, which refers to the page `html`.
pub fn text(document: &Document, html: &str) -> String {
    let mut out = format!("# {}\n\n", escape(&document.title));
    out += &parts(&document.lead);
    let is_drawn =
        |section: &Section| section.parts.iter().any(|part| matches!(part, Part::Figures(_)));
    if document.sections.iter().any(is_drawn) {
        out += &format!("The same with plots is in `{html}`.\n\n");
    }
    for section in &document.sections {
        out += &format!("## {}\n\n{}", section.title, parts(&section.parts));
    }
    out.trim_end().to_string() + "\n"
}

fn parts(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => format!("{}\n\n", escape(text)),
        Part::Figures(_) | Part::OfFigures(_) => String::new(),
        Part::Table(one) => table(one),
    };
    parts.iter().map(part).collect()
}

fn table(table: &Table) -> String {
    let names = table.columns.iter().map(|column| match column.group.as_str() {
        "" => column.name.clone(),
        group => format!("{group} {}", column.name),
    });
    let rules = (0..table.columns.len()).map(|place| {
        if table.columns[place].words || place == 0 { "---" } else { "---:" }.to_string()
    });
    let mut out = format!("{}:\n\n{}{}", escape(&table.caption), line(names), line(rules));
    for row in &table.rows {
        out += &line(row.iter().cloned());
    }
    out + "\n"
}

/// Escapes HTML outside of `code`.
fn escape(text: &str) -> String {
    let piece = |(number, piece): (usize, &str)| match number % 2 {
        0 => piece.replace('&', "&amp;").replace('<', "&lt;"),
        _ => piece.to_string(),
    };
    text.split('`').enumerate().map(piece).collect::<Vec<_>>().join("`")
}

/// Renders a line of cells, with bars inside of them escaped.
fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<_> =
        cells.map(|cell| escape(&cell).replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_html() {
        assert_eq!(escape("a <b> & `c <d>`"), "a &lt;b> &amp; `c <d>`");
    }

    #[test]
    fn tables_are_lines_of_cells() {
        let mut one = Table::new("Rates").words(["row"]).group("ours", ["mean"]);
        one.row(["a|b", "2"].map(String::from).to_vec());
        assert_eq!(table(&one), "Rates:\n\n| row | ours mean |\n| --- | ---: |\n| a\\|b | 2 |\n\n");
    }
}
