//! An SVG element, written from the top down, with titles for screen readers. All colours and fonts are
//! the page's, by class.

use crate::report::render::powers;

/// A drawing of a width and a height.
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// How text is set relative to its place.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        Svg { body: String::new(), width, height }
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x, y, to_x, to_y) = (short(from.0), short(from.1), short(to.0), short(to.1));
        self.add(&format!(r#"<line class="{class}" x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}"/>"#));
    }

    pub fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let (x, y, width, height) = (short(at.0), short(at.1), short(size.0), short(size.1));
        self.add(&format!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#
        ));
    }

    /// Draws straight lines from point to point, closed to an area or not.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], closed: bool) {
        let mut path = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let step = if number == 0 { "M" } else { "L" };
            path += &format!("{step}{} {}", short(*x), short(*y));
        }
        let end = if closed { "Z" } else { "" };
        self.add(&format!(r#"<path class="{class}" d="{path}{end}"/>"#));
    }

    /// Draws round dots, all in one element.
    pub fn dots(&mut self, class: &str, points: &[(f64, f64)]) {
        let dot = |(x, y): &(f64, f64)| format!("M{} {}h0", short(*x), short(*y));
        let path: String = points.iter().map(dot).collect();
        self.add(&format!(r#"<path class="{class}" d="{path}"/>"#));
    }

    /// Draws a small shape that distinguishes series without colour.
    pub fn marker(&mut self, class: &str, shape: usize, at: (f64, f64), radius: f64) {
        let (x, y) = at;
        if shape.is_multiple_of(6) {
            let (x, y, radius) = (short(x), short(y), short(radius));
            return self
                .add(&format!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{radius}"/>"#));
        }
        let corners: Vec<_> =
            corners(shape).iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect();
        self.path(class, &corners, true);
    }

    pub fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), text: &str) {
        let place = format!(r#"x="{}" y="{}""#, short(at.0), short(at.1));
        self.put(class, anchor, &place, text);
    }

    /// Draws text that reads upwards.
    pub fn upright(&mut self, class: &str, at: (f64, f64), text: &str) {
        let place =
            format!(r#"transform="translate({} {}) rotate(-90)""#, short(at.0), short(at.1));
        self.put(class, Anchor::Middle, &place, text);
    }

    fn put(&mut self, class: &str, anchor: Anchor, place: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let inner = raised(text);
        self.add(&format!(
            r#"<text class="{class}" text-anchor="{anchor}" {place}>{inner}</text>"#
        ));
    }

    fn add(&mut self, element: &str) {
        self.body += element;
        self.body.push('\n');
    }

    /// Returns the whole element. `id` must be unique in the page.
    pub fn finish(self, id: &str, title: &str, describe: &str) -> String {
        let Svg { body, width, height } = self;
        let (title, describe) = (escape(title), escape(describe));
        format!(
            "<svg role=\"img\" id=\"{id}\" viewBox=\"0 0 {width} {height}\" \
             aria-labelledby=\"{id}-title {id}-desc\">\n<title id=\"{id}-title\">{title}</title>\n\
             <desc id=\"{id}-desc\">{describe}</desc>\n{body}</svg>"
        )
    }
}

/// Returns the corners of a shape about its centre: square, triangle, diamond, triangle on its tip, cross.
fn corners(shape: usize) -> &'static [(f64, f64)] {
    match shape % 6 {
        1 => &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
        2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        4 => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
        _ => &CROSS,
    }
}

const CROSS: [(f64, f64); 12] = [
    (-0.4, -1.2),
    (0.4, -1.2),
    (0.4, -0.4),
    (1.2, -0.4),
    (1.2, 0.4),
    (0.4, 0.4),
    (0.4, 1.2),
    (-0.4, 1.2),
    (-0.4, 0.4),
    (-1.2, 0.4),
    (-1.2, -0.4),
    (-0.4, -0.4),
];

/// Formats text with its powers raised.
fn raised(text: &str) -> String {
    let mut out = String::new();
    let mut lower = "";
    for (plain, exponent) in powers(text) {
        if !plain.is_empty() {
            out += &format!("<tspan{lower}>{}</tspan>", escape(plain));
        }
        if !exponent.is_empty() {
            out += &format!(r#"<tspan class="power" dy="-5">{}</tspan>"#, escape(exponent));
            lower = r#" dy="5""#;
        }
    }
    out
}

/// What HTML and SVG take for text.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Estimates the width of a text of a size, without a font: a little more than most need.
pub fn text_width(text: &str, size: f64) -> f64 {
    let of = |text: &str| text.chars().map(char_width).sum::<f64>();
    powers(text).iter().map(|(plain, exponent)| of(plain) + 0.75 * of(exponent)).sum::<f64>() * size
}

fn char_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | ':' | '·' | '(' | ')' => 0.34,
        'f' | 'r' | 't' | '/' | '-' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' | '=' | '×' => 0.9,
        _ if c.is_uppercase() => 0.72,
        _ => 0.62,
    }
}

/// A coordinate with a tenth of a pixel.
fn short(value: f64) -> String {
    let written = format!("{value:.1}");
    written.strip_suffix(".0").unwrap_or(&written).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawing_has_a_title_and_escapes() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("tick", Anchor::End, (1.0, 2.55), "<2^20> & more");
        let svg = svg.finish("a", "rates <of> \"all\"", "b & c");
        assert!(
            svg.contains("<title id=\"a-title\">rates &lt;of&gt; &quot;all&quot;</title>"),
            "{svg}"
        );
        assert!(svg.contains("<desc id=\"a-desc\">b &amp; c</desc>"), "{svg}");
        assert!(svg.contains("&lt;2</tspan>"), "{svg}");
        assert!(svg.contains(">20</tspan><tspan dy=\"5\">&gt; &amp; more</tspan>"), "{svg}");
    }
}
