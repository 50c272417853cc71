//! Charts, drawn by hand as SVG: line plots and bars.

mod axis;
mod bars;
mod plot;
mod svg;

pub use axis::Scale;
pub use bars::{Bar, Bars, Group};
pub use plot::{Drawn, Line, MOST_LINES, Plot, Slot};
pub use svg::escape;
