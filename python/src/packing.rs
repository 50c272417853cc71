//! Keys of several parts: columns in and out, integers to the dictionary.

use gpulsm::private::{Encoding, Layout, PackedKey, Part};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::guard::detached;
use crate::parallel::each_range;
use crate::span::Span;
use crate::typed::Ranges;

/// The parts of a key, the most significant one first.
#[pyclass(frozen, name = "Layout", module = "gpulsm._native")]
pub struct PyLayout(Layout);

#[pymethods]
impl PyLayout {
    /// A layout of parts, each of a kind (`unsigned`, `signed`, `float` or `bytes`) and of a number of bytes.
    #[new]
    fn new(parts: Vec<(String, usize)>) -> PyResult<Self> {
        let parts: PyResult<_> = parts.iter().map(|(kind, width)| part_of(kind, *width)).collect();
        let layout = Layout::new(parts?);
        layout.map(PyLayout).ok_or_else(|| PyTypeError::new_err("no key has such parts"))
    }

    /// How many bytes an integer has that holds all parts.
    #[getter]
    fn width(&self) -> usize {
        self.0.width()
    }

    /// How many of its bits the parts take.
    #[getter]
    fn bits(&self) -> u32 {
        self.0.bits()
    }

    /// Packs columns, one for each part and of as many elements, into integers.
    fn pack(&self, py: Python<'_>, columns: Vec<Span>, packed: Span) -> PyResult<()> {
        detached(py, || match self.0.width() {
            4 => self.pack_as::<u32>(&columns, packed),
            8 => self.pack_as::<u64>(&columns, packed),
            _ => self.pack_as::<u128>(&columns, packed),
        })
    }

    /// Unpacks integers into columns; where there are booleans and one is false, into zeros.
    fn unpack(
        &self,
        py: Python<'_>,
        packed: Span,
        found: Option<Span>,
        columns: Vec<Span>,
    ) -> PyResult<()> {
        detached(py, || match self.0.width() {
            4 => self.unpack_as::<u32>(packed, found, &columns),
            8 => self.unpack_as::<u64>(packed, found, &columns),
            _ => self.unpack_as::<u128>(packed, found, &columns),
        })
    }

    /// Moves the ends of ranges that are excluded to the next integer inside. A range without any becomes one
    /// whose ends are in the wrong order.
    fn exclude_ends(
        &self,
        py: Python<'_>,
        ranges: Ranges,
        excludes_lo: bool,
        excludes_hi: bool,
    ) -> PyResult<()> {
        let excludes = (excludes_lo, excludes_hi);
        detached(py, || match self.0.width() {
            4 => self.exclude_ends_as::<u32>(ranges, excludes),
            8 => self.exclude_ends_as::<u64>(ranges, excludes),
            _ => self.exclude_ends_as::<u128>(ranges, excludes),
        })
    }
}

impl PyLayout {
    fn pack_as<P: PackedKey>(&self, columns: &[Span], packed: Span) {
        each_range(packed.len(), |range| {
            let columns: Vec<&[u8]> = self
                .columns(columns)
                .map(|(column, width)| column.part(&range, width).bytes(width).host())
                .collect();
            self.0.pack(&columns, packed.part(&range, size_of::<P>()).host_mut::<P>());
        });
    }

    fn unpack_as<P: PackedKey>(&self, packed: Span, found: Option<Span>, columns: &[Span]) {
        each_range(packed.len(), |range| {
            let mut columns: Vec<&mut [u8]> = self
                .columns(columns)
                .map(|(column, width)| column.part(&range, width).bytes(width).host_mut())
                .collect();
            let found = found.map(|found| found.part(&range, 1).host());
            self.0.unpack::<P>(packed.part(&range, size_of::<P>()).host(), found, &mut columns);
        });
    }

    fn exclude_ends_as<P: PackedKey>(&self, Ranges(lo, hi): Ranges, excludes: (bool, bool)) {
        let highest = P::narrow(u128::MAX >> (u128::BITS - self.0.bits()));
        for (lo, hi) in lo.host_mut::<P>().iter_mut().zip(hi.host_mut::<P>()) {
            let first =
                if excludes.0 { lo.next().filter(|&key| key <= highest) } else { Some(*lo) };
            let last = if excludes.1 { hi.previous() } else { Some(*hi) };
            (*lo, *hi) = first.zip(last).unwrap_or((highest, P::default()));
        }
    }

    /// The columns, each with how many bytes its elements have.
    fn columns(&self, columns: &[Span]) -> impl Iterator<Item = (Span, usize)> {
        columns.iter().copied().zip(self.0.parts().iter().map(|part| part.width()))
    }
}

/// The part of this kind and of this width, in bytes.
pub fn part_of(kind: &str, width: usize) -> PyResult<Part> {
    Ok(match kind {
        "unsigned" => Part::Number(Encoding::Unsigned, width),
        "signed" => Part::Number(Encoding::Signed, width),
        "float" => Part::Number(Encoding::Float, width),
        "bytes" => Part::Bytes(width),
        _ => return Err(PyTypeError::new_err(format!("{kind} is no kind of part"))),
    })
}
