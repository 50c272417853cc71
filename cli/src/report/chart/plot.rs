//! Lines and dots over two axes.

use super::axis::{Axis, Scale};
use super::svg::{Anchor, Svg, text_width};
use crate::report::numbers;

/// A plot: what it shows, and over which axes.
pub struct Plot {
    pub title: String,
    pub x: (&'static str, Scale),
    pub y: (&'static str, Scale),
    pub lines: Vec<Line>,
}

/// One series.
#[derive(Clone)]
pub struct Line {
    pub label: String,
    pub slot: Slot,
    pub drawn: Drawn,
    pub points: Vec<(f64, f64)>,
    /// Between which values the points' means lie, for an area behind the line: (x, low, high).
    pub band: Vec<(f64, f64, f64)>,
}

/// Which colour, dashes and marker a series has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slot {
    Measured(usize),
    Paper(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drawn {
    /// A line with markers.
    Marked,
    /// A line alone.
    Plain,
    Dots,
}

/// How many series can be told apart.
pub const MOST_LINES: usize = 8;

/// A line of more points than this is drawn without dashes, and not all of its points are marked.
const LONG: usize = 24;

const FONT: f64 = 12.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 26.0;
const BOTTOM: f64 = 48.0;
const LEGEND_ROW: f64 = 18.0;
const LEGEND_TOP: f64 = 40.0;

impl Slot {
    pub fn class(self) -> String {
        match self {
            Slot::Measured(number) => format!("s{}", number % MOST_LINES),
            Slot::Paper(number) => format!("p{}", number % 2),
        }
    }

    fn shape(self) -> usize {
        match self {
            Slot::Measured(number) | Slot::Paper(number) => number,
        }
    }
}

impl Line {
    pub fn new(label: impl Into<String>, slot: Slot, points: Vec<(f64, f64)>) -> Self {
        Line { label: label.into(), slot, drawn: Drawn::Marked, points, band: Vec::new() }
    }

    pub fn drawn(self, drawn: Drawn) -> Self {
        Line { drawn, ..self }
    }

    pub fn band(self, band: Vec<(f64, f64, f64)>) -> Self {
        Line { band, ..self }
    }

    /// Dashes make a line of many corners hard to follow: long ones have none, and their markers
    /// tell them apart.
    fn class(&self) -> String {
        let long = if self.points.len() > LONG { " long" } else { "" };
        format!("line {}{long}", self.slot.class())
    }
}

/// The area that the axes span, and the mapping from values to it.
struct Frame {
    x: Axis,
    y: Axis,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.position(value) * self.width
    }

    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.position(value)) * self.height
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn place(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().map(|&(x, y)| (self.x(x), self.y(y))).collect()
    }
}

impl Plot {
    /// Returns how many rows the legend needs in a plot of a width.
    pub fn legend_rows(&self, width: f64) -> usize {
        legend_rows(&self.lines, width).len()
    }

    /// Draws the plot with a width, and with room for this many rows of the legend: plots side by side have
    /// the same.
    pub fn svg(&self, id: &str, width: f64, rows: usize) -> String {
        let legend = legend_rows(&self.lines, width);
        let top = LEGEND_TOP + rows as f64 * LEGEND_ROW;
        let height = top + 280.0 + BOTTOM;
        let frame = self.frame(top, width);
        let mut svg = Svg::new(width, height);
        svg.text("plot-title", Anchor::Start, (LEFT, 18.0), &self.title);
        draw_legend(&mut svg, &legend);
        self.draw_axes(&mut svg, &frame);
        for line in &self.lines {
            draw_band(&mut svg, &frame, line);
        }
        // The first series is the one that matters: it lies on top.
        for line in self.lines.iter().rev() {
            draw_line(&mut svg, &frame, line);
        }
        svg.finish(id, &self.title, &self.describe())
    }

    fn frame(&self, top: f64, width: f64) -> Frame {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let bands = self.lines.iter().flat_map(|line| &line.band);
        let ends = bands.flat_map(|(_, low, high)| [*low, *high]);
        Frame {
            x: Axis::over(self.x.1, points().map(|(x, _)| *x)),
            y: Axis::over(self.y.1, points().map(|(_, y)| *y).chain(ends)),
            top,
            width: width - LEFT - RIGHT,
            height: 280.0,
        }
    }

    fn draw_axes(&self, svg: &mut Svg, frame: &Frame) {
        let (right, bottom) = (LEFT + frame.width, frame.bottom());
        for tick in frame.y.ticks(8) {
            let y = frame.y(tick.at);
            let class = if tick.label.is_empty() { "grid minor" } else { "grid" };
            svg.line(class, (LEFT, y), (right, y));
            svg.text("tick", Anchor::End, (LEFT - 8.0, y + 4.0), &tick.label);
        }
        for tick in frame.x.ticks((frame.width / 52.0) as usize) {
            let x = frame.x(tick.at);
            svg.line("axis", (x, bottom), (x, bottom + 5.0));
            svg.text("tick", Anchor::Middle, (x, bottom + 20.0), &tick.label);
        }
        svg.line("axis", (LEFT, bottom), (right, bottom));
        svg.text("axis-title", Anchor::Middle, (LEFT + frame.width / 2.0, bottom + 40.0), self.x.0);
        svg.upright("axis-title", (15.0, frame.top + frame.height / 2.0), self.y.0);
    }

    /// What there is to see, in words.
    fn describe(&self) -> String {
        let mut text = format!("{} against {}.", self.y.0, self.x.0);
        for line in &self.lines {
            if let (Some(first), Some(last)) = (line.points.first(), line.points.last()) {
                let (first, last) = (numbers::number(first.1), numbers::number(last.1));
                text += &format!(" {}: from {first} to {last}.", line.label);
            }
        }
        text
    }
}

fn draw_band(svg: &mut Svg, frame: &Frame, line: &Line) {
    let low = line.band.iter().map(|&(x, low, _)| (x, low));
    let high = line.band.iter().rev().map(|&(x, _, high)| (x, high));
    let outline: Vec<_> = low.chain(high).collect();
    if !outline.is_empty() && outline.iter().all(|(x, y)| x.is_finite() && y.is_finite()) {
        svg.path(&format!("band {}", line.slot.class()), &frame.place(&outline), true);
    }
}

fn draw_line(svg: &mut Svg, frame: &Frame, line: &Line) {
    let valid = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let points: Vec<_> = frame.place(&line.points).into_iter().filter(valid).collect();
    let class = line.slot.class();
    if line.drawn == Drawn::Dots {
        return svg.dots(&format!("dots {class}"), &points);
    }
    svg.path(&line.class(), &thinned(&points), false);
    if line.drawn == Drawn::Marked {
        for point in marked(&points, frame.width) {
            svg.marker(&format!("marker {class}"), line.slot.shape(), point, 3.6);
        }
    }
}

/// Points to be marked, from the line's end on: no two on each other, and of a long line only some.
fn marked(points: &[(f64, f64)], width: f64) -> Vec<(f64, f64)> {
    let apart = if points.len() > LONG { width / 10.0 } else { 8.0 };
    let mut marked: Vec<(f64, f64)> = Vec::new();
    for point in points.iter().rev() {
        if marked.last().is_none_or(|last| last.0 - point.0 >= apart) {
            marked.push(*point);
        }
    }
    marked
}

/// No more points than can be seen: of every pixel's column the lowest and the highest.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 600 {
        return points.to_vec();
    }
    let mut out = Vec::new();
    for column in points.chunk_by(|one, next| one.0.floor() == next.0.floor()) {
        let by_height = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let low = column.iter().min_by(by_height);
        let high = column.iter().max_by(by_height);
        out.extend(low);
        out.extend(high.filter(|high| Some(*high) != low));
    }
    out
}

/// Breaks the legend's entries into rows that fit: each with its place.
fn legend_rows(lines: &[Line], width: f64) -> Vec<Vec<(f64, &Line)>> {
    let mut rows: Vec<Vec<(f64, &Line)>> = Vec::new();
    let mut x = f64::INFINITY;
    for line in lines {
        let wide = 34.0 + text_width(&line.label, FONT) + 14.0;
        if x + wide > width {
            rows.push(Vec::new());
            x = LEFT;
        }
        rows.last_mut().expect("a row was begun").push((x, line));
        x += wide;
    }
    rows
}

fn draw_legend(svg: &mut Svg, rows: &[Vec<(f64, &Line)>]) {
    for (number, row) in rows.iter().enumerate() {
        let y = LEGEND_TOP - 2.0 + number as f64 * LEGEND_ROW;
        for &(x, line) in row {
            draw_key(svg, (x, y - 4.0), line);
            svg.text("legend", Anchor::Start, (x + 34.0, y), &line.label);
        }
    }
}

fn draw_key(svg: &mut Svg, (x, y): (f64, f64), line: &Line) {
    let class = line.slot.class();
    if line.drawn == Drawn::Dots {
        return svg.dots(&format!("dots {class}"), &[(x + 8.0, y), (x + 14.0, y), (x + 20.0, y)]);
    }
    svg.line(&line.class(), (x, y), (x + 28.0, y));
    if line.drawn == Drawn::Marked {
        svg.marker(&format!("marker {class}"), line.slot.shape(), (x + 14.0, y), 3.6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_axes_lines_and_legend() {
        let line = Line::new("ours & theirs", Slot::Measured(0), vec![(15.0, 58.4), (16.0, 98.0)]);
        let plot = Plot {
            title: "Rates".into(),
            x: ("batch size b", Scale::Powers),
            y: ("M/s", Scale::Log),
            lines: vec![line.band(vec![(15.0, 1.0, 100.0), (16.0, 2.0, 200.0)])],
        };
        let svg = plot.svg("rates", 540.0, 1);
        for part in
            ["<title", "ours &amp; theirs", "class=\"line s0\"", "class=\"band s0\"", ">16</tspan>"]
        {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }

    #[test]
    fn long_lines_keep_their_peaks() {
        let points: Vec<_> =
            (0..4000).map(|i| (f64::from(i) / 8.0, if i == 1234 { 9.0 } else { 1.0 })).collect();
        let thinned = thinned(&points);
        assert!(thinned.len() <= 1000);
        assert!(thinned.contains(&points[1234]));
    }
}
