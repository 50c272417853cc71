//! As-of queries, as Python's half asks them.

use gpulsm::Direction;
use gpulsm::private::{AsOf, Distance, Encoding, On, Part};
use pyo3::FromPyObject;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::packing::part_of;

/// What is asked, as Python's half says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    /// The last part of keys: its kind, and how many bytes it has.
    on: (String, usize),
    direction: String,
    tolerance: Option<Tolerance>,
    allows_exact_matches: bool,
}

/// How far the last part of an answer may be from that of its question.
#[derive(Clone, Copy, FromPyObject)]
pub enum Tolerance {
    Integer(u64),
    Float(f64),
}

impl TryFrom<Asked> for AsOf {
    type Error = PyErr;

    fn try_from(asked: Asked) -> PyResult<Self> {
        let direction = match &*asked.direction {
            "backward" => Direction::Backward,
            "forward" => Direction::Forward,
            "nearest" => Direction::Nearest,
            other => return Err(PyTypeError::new_err(format!("{other} is no direction"))),
        };
        let Part::Number(encoding, width) = part_of(&asked.on.0, asked.on.1)? else {
            return Err(PyTypeError::new_err("bytes have no distances"));
        };
        let tolerance = asked.tolerance.map(|most| distance_of(most, encoding, width));
        let on = On { encoding, bits: 8 * width as u32 };
        Ok(AsOf { on, direction, tolerance, is_strict: !asked.allows_exact_matches })
    }
}

/// A tolerance as a distance between parts of this kind and width.
fn distance_of(tolerance: Tolerance, encoding: Encoding, width: usize) -> Distance {
    match (encoding, width, tolerance) {
        (Encoding::Float, 4, Tolerance::Float(most)) => Distance::Single(most as f32),
        (Encoding::Float, 4, Tolerance::Integer(most)) => Distance::Single(most as f32),
        (Encoding::Float, _, Tolerance::Float(most)) => Distance::Double(most),
        (Encoding::Float, _, Tolerance::Integer(most)) => Distance::Double(most as f64),
        (_, _, Tolerance::Integer(most)) => Distance::Integer(most.into()),
        (_, _, Tolerance::Float(most)) => Distance::Integer(most as u128),
    }
}
