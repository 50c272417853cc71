//! The report as one self-contained HTML page, without scripts.

use super::document::{Column, Document, Figure, Part, Section, Table, powers};
use crate::report::chart::escape;

/// Renders the page.
pub fn page(document: &Document) -> String {
    let title = escape(&document.title);
    let style = include_str!("page.css");
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
         <header class=\"page\">\n<h1>{title}</h1>\n"
    );
    page += &parts(&document.lead, "lead");
    page += &contents(&document.sections);
    page += "</header>\n<main>\n";
    for section in &document.sections {
        page += &whole_section(section);
    }
    page + "</main>\n<footer>Made by <code>gpulsm report</code>.</footer>\n</body>\n</html>\n"
}

fn contents(sections: &[Section]) -> String {
    let entry =
        |section: &Section| format!("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.title);
    let entries: String = sections.iter().map(entry).collect();
    format!("<nav aria-label=\"Contents\" style=\"padding:0\">\n<ol>\n{entries}</ol>\n</nav>\n")
}

fn whole_section(section: &Section) -> String {
    let (id, title) = (section.id, escape(section.title));
    let parts = parts(&section.parts, id);
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-heading\">\n\
         <h2 id=\"{id}-heading\">{title}</h2>\n{parts}</section>\n"
    )
}

fn parts(parts: &[Part], id: &str) -> String {
    let mut out = String::new();
    let is_table = |place: usize| matches!(parts.get(place), Some(Part::Table(_)));
    for (number, part) in parts.iter().enumerate() {
        // Tables that follow each other stand beside each other, where there is room.
        if is_table(number) && (number == 0 || !is_table(number - 1)) {
            out += "<div class=\"tables\">\n";
        }
        out += &match part {
            Part::Text(text) | Part::OfFigures(text) => format!("<p>{}</p>\n", inline(text)),
            Part::Figures(all) => figures(all, &format!("{id}-{number}")),
            Part::Table(one) => table(one),
        };
        if is_table(number) && !is_table(number + 1) {
            out += "</div>\n";
        }
    }
    out
}

/// Renders figures side by side: the more, the narrower each.
fn figures(figures: &[Figure], id: &str) -> String {
    let (class, width) = match figures.len() {
        1 => ("one", 980.0),
        2 | 4 => ("two", 520.0),
        _ => ("three", 350.0),
    };
    let rows = figures.iter().map(|figure| match figure {
        Figure::Plot(plot) => plot.legend_rows(width),
        Figure::Bars(_) => 0,
    });
    let rows = rows.max().unwrap_or(0);
    let draw = |(number, figure): (usize, &Figure)| {
        let id = format!("{id}-{number}");
        let svg = match figure {
            Figure::Plot(plot) => plot.svg(&id, width, rows),
            Figure::Bars(bars) => bars.svg(&id, width),
        };
        format!("<figure>\n{svg}\n</figure>\n")
    };
    let all: String = figures.iter().enumerate().map(draw).collect();
    format!("<div class=\"figures {class}\">\n{all}</div>\n")
}

fn table(table: &Table) -> String {
    let caption = inline(&table.caption);
    let class = if table.plain { " class=\"about\"" } else { "" };
    let (head, body) = (head(table), body(table));
    let label = escape(&table.caption);
    // A region that scrolls must be reachable with the keyboard.
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{label}\">\n\
         <table{class}>\n<caption>{caption}</caption>\n{head}{body}</table>\n</div>\n"
    )
}

fn head(table: &Table) -> String {
    let mut out = String::from("<thead>\n");
    if table.is_grouped() {
        let groups = table.columns.chunk_by(|one, next| one.group == next.group);
        let cell = |columns: &[Column]| {
            let (span, group) = (columns.len(), &columns[0].group);
            match group.as_str() {
                "" => format!("<td colspan=\"{span}\"></td>"),
                _ => format!(
                    "<th class=\"group first\" scope=\"colgroup\" colspan=\"{span}\">{}</th>",
                    inline(group)
                ),
            }
        };
        out += &format!("<tr>{}</tr>\n", groups.map(cell).collect::<String>());
    }
    let names = (0..table.columns.len()).map(|place| {
        format!(
            "<th scope=\"col\"{}>{}</th>",
            class(table, place),
            inline(&table.columns[place].name)
        )
    });
    out + &format!("<tr>{}</tr>\n</thead>\n", names.collect::<String>())
}

/// Returns the class of a cell: words to the left; a rule where a group begins.
fn class(table: &Table, place: usize) -> String {
    let column = &table.columns[place];
    let begins = place > 0 && table.columns[place - 1].group != column.group;
    match (column.words || place == 0, begins) {
        (true, false) => " class=\"words\"".into(),
        (true, true) => " class=\"words first\"".into(),
        (false, true) => " class=\"first\"".into(),
        (false, false) => String::new(),
    }
}

fn body(table: &Table) -> String {
    let mut out = String::from("<tbody>\n");
    for (number, row) in table.rows.iter().enumerate() {
        let mean = number + table.means >= table.rows.len();
        out += if mean { "<tr class=\"mean\">" } else { "<tr>" };
        for (place, cell) in row.iter().enumerate() {
            let cell = inline(cell);
            out += &match place {
                0 => format!("<th scope=\"row\">{cell}</th>"),
                _ => format!("<td{}>{cell}</td>", class(table, place)),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n"
}

/// Renders text with its powers raised, the formula's names set as in the paper, and `code` as such.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (number, piece) in text.split('`').enumerate() {
        let code = number % 2 == 1;
        if code {
            out += &format!("<code>{}</code>", escape(piece));
            continue;
        }
        for (plain, exponent) in powers(piece) {
            out += &escape(plain)
                .replace("T_sort", "<i>T</i><sub>sort</sub>")
                .replace("T_merge", "<i>T</i><sub>merge</sub>");
            if !exponent.is_empty() {
                out += &format!("<sup>{}</sup>", escape(exponent));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_powers_are_raised() {
        assert_eq!(
            inline("a < 2^20 & `x > 2^3`"),
            "a &lt; 2<sup>20</sup> &amp; <code>x &gt; 2^3</code>"
        );
    }

    #[test]
    fn tables_have_captions_and_scopes() {
        let mut one = Table::new("Rates <all>").group("", ["b"]).group("ours", ["min", "max"]);
        one.row(["2^16", "1", "2"].map(String::from).to_vec());
        let html = table(&one);
        for part in [
            "<caption>Rates &lt;all&gt;</caption>",
            "<th class=\"group first\" scope=\"colgroup\" colspan=\"2\">ours</th>",
            "<th scope=\"row\">2<sup>16</sup></th>",
            "<th scope=\"col\" class=\"first\">min</th>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }
}
