//! Bars beside each other, from left to right: for what has names instead of an axis.

use super::axis::{Axis, Scale};
use super::plot::Slot;
use super::svg::{Anchor, Svg, text_width};

/// Groups of bars.
pub struct Bars {
    pub title: String,
    pub axis: &'static str,
    pub groups: Vec<Group>,
    /// A value to compare the bars with, and its label.
    pub mark: Option<(f64, String)>,
}

/// Bars that belong together.
pub struct Group {
    pub label: String,
    pub bars: Vec<Bar>,
}

pub struct Bar {
    pub label: String,
    pub slot: Slot,
    pub value: f64,
    /// The value as it is written at the bar's end.
    pub written: String,
}

const ROW: f64 = 22.0;
const GAP: f64 = 12.0;
const TOP: f64 = 36.0;
const FONT: f64 = 12.0;

impl Bars {
    /// Draws the bars with a width.
    pub fn svg(&self, id: &str, width: f64) -> String {
        let left = self.label_width();
        let span = (width - left - self.written_width()).max(60.0);
        let axis = Axis::over(Scale::Linear, self.values());
        let top = if self.mark.is_some() { TOP + 18.0 } else { TOP };
        let bottom = top + self.groups.iter().map(Group::height).sum::<f64>();
        let mut svg = Svg::new(width, bottom + 44.0);
        svg.text("plot-title", Anchor::Start, (8.0, 18.0), &self.title);
        for tick in axis.ticks((span / 70.0) as usize) {
            let x = left + axis.position(tick.at) * span;
            svg.line("grid", (x, top), (x, bottom));
            svg.text("tick", Anchor::Middle, (x, bottom + 16.0), &tick.label);
        }
        svg.text("axis-title", Anchor::Middle, (left + span / 2.0, bottom + 36.0), self.axis);
        self.draw_bars(&mut svg, (left, top), |value| axis.position(value) * span);
        if let Some((value, label)) = &self.mark {
            let x = left + axis.position(*value) * span;
            svg.line("mark", (x, top - 4.0), (x, bottom));
            svg.text("legend", Anchor::Middle, (x, top - 8.0), label);
        }
        svg.finish(id, &self.title, &self.describe())
    }

    fn draw_bars(&self, svg: &mut Svg, (left, top): (f64, f64), length: impl Fn(f64) -> f64) {
        let mut y = top;
        for group in &self.groups {
            let middle = y + GAP / 2.0 + ROW * group.bars.len() as f64 / 2.0;
            if group.named() {
                svg.text("tick", Anchor::Start, (8.0, middle + 4.0), &group.label);
            }
            let finite = group.bars.iter().filter(|bar| bar.value.is_finite());
            for (number, bar) in finite.enumerate() {
                let y = y + GAP / 2.0 + ROW * number as f64;
                let end = left + length(bar.value).max(0.0);
                let label = if group.named() { &bar.label } else { &group.label };
                svg.text("tick", Anchor::End, (left - 8.0, y + 15.0), label);
                svg.rect(
                    &format!("bar {}", bar.slot.class()),
                    (left, y + 3.0),
                    (end - left, ROW - 6.0),
                );
                svg.text("tick", Anchor::Start, (end + 6.0, y + 15.0), &bar.written);
            }
            y += group.height();
        }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let bars = self.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value);
        bars.chain(self.mark.iter().map(|(value, _)| *value))
    }

    fn label_width(&self) -> f64 {
        let widest = |label: &str| text_width(label, FONT);
        let groups = self.groups.iter().map(|group| widest(&group.label)).fold(0.0, f64::max);
        let named = self.groups.iter().filter(|group| group.named()).flat_map(|group| &group.bars);
        let bars = named.map(|bar| widest(&bar.label)).fold(0.0, f64::max);
        8.0 + groups + 8.0 + if bars > 0.0 { bars + 10.0 } else { 0.0 }
    }

    fn written_width(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        bars.map(|bar| text_width(&bar.written, FONT)).fold(0.0, f64::max) + 14.0
    }

    fn describe(&self) -> String {
        let mut text = format!("{}.", self.axis);
        for group in &self.groups {
            for bar in &group.bars {
                let name = if group.named() {
                    format!("{}, {}", group.label, bar.label)
                } else {
                    group.label.clone()
                };
                text += &format!(" {name}: {}.", bar.written);
            }
        }
        text
    }
}

impl Group {
    fn height(&self) -> f64 {
        GAP + ROW * self.bars.len() as f64
    }

    /// Whether its bars need names of their own.
    fn named(&self) -> bool {
        self.bars.iter().any(|bar| !bar.label.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_say_their_names_and_values() {
        let bar = |label: &str, value: f64| Bar {
            label: label.into(),
            slot: Slot::Measured(0),
            value,
            written: format!("{value} ×"),
        };
        let groups = vec![
            Group { label: "random".into(), bars: vec![bar("", 1.0)] },
            Group { label: "zipf".into(), bars: vec![bar("old", 1.5), bar("new", 2.5)] },
        ];
        let bars = Bars {
            title: "Keys".into(),
            axis: "ratio",
            groups,
            mark: Some((1.0, "as random".into())),
        };
        let svg = bars.svg("keys", 400.0);
        for part in ["random: 1 ×.", "zipf, new: 2.5 ×.", "class=\"bar s0\"", "as random"] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }
}
