//! Keys of several parts: columns in and out, integers to the dictionary.

use std::ops::Range;

#[cfg(feature = "cuda")]
use gpulsm::private::columns::{self, Column};
use gpulsm::private::{Encoding, KeyColumns, Layout, PackedKey, Part};
use gpulsm::{Device, Error};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::guard::detached;
use crate::parallel::each_range;
use crate::span::{Place, Span};
use crate::typed::Ranges;

/// The GPU that memory is on, by its number, and the stream in whose order it is used; without these, the host's.
type OnGpu = Option<(usize, usize)>;

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

    /// Packs columns, one for each part, into integers. A column has an element for each key; on a GPU it may be
    /// one element, on the host, for all of them, which is said beside it.
    fn pack(
        &self,
        py: Python<'_>,
        columns: Vec<(Span, bool)>,
        packed: Span,
        on_gpu: OnGpu,
    ) -> PyResult<()> {
        self.call(py, on_gpu, |at| match at {
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                let columns: Vec<_> = columns
                    .iter()
                    .zip(self.0.parts())
                    .map(|(&(column, is_one), part)| match (is_one, column.bytes(part.width())) {
                        (true, element) => Column::All(element.host()),
                        (false, elements) => Column::Each(elements.gpu(on)),
                    })
                    .collect();
                columns::pack(&self.0, &columns, &packed.bytes(self.0.width()).gpu_mut(on))
            }
            Place::Host => {
                let columns: Vec<Span> = columns.iter().map(|&(column, _)| column).collect();
                self.pack_columns(&columns, packed);
                Ok(())
            }
        })
    }

    /// Unpacks integers into columns; where there are booleans and one is false, into zeros.
    fn unpack(
        &self,
        py: Python<'_>,
        packed: Span,
        found: Option<Span>,
        columns: Vec<Span>,
        on_gpu: OnGpu,
    ) -> PyResult<()> {
        self.call(py, on_gpu, |at| match at {
            #[cfg(feature = "cuda")]
            Place::Gpu(on) => {
                let columns: Vec<_> = self
                    .columns(&columns)
                    .map(|(column, width)| column.bytes(width).gpu_mut(on))
                    .collect();
                let found = found.map(|found| found.gpu(on));
                columns::unpack(&self.0, packed.bytes(self.0.width()).gpu(on), found, &columns)
            }
            Place::Host => {
                self.unpack_columns(packed, found, &columns);
                Ok(())
            }
        })
    }

    /// Moves the ends of ranges that are excluded to the next integer inside. A range without any becomes one
    /// whose ends are in the wrong order.
    fn exclude_ends(
        &self,
        py: Python<'_>,
        ranges: Ranges,
        excludes: (bool, bool),
        on_gpu: OnGpu,
    ) -> PyResult<()> {
        self.call(py, on_gpu, |at| match (at, self.0.width()) {
            #[cfg(feature = "cuda")]
            (Place::Gpu(on), width) => {
                let Ranges(lo, hi) = ranges;
                let ends = [lo, hi].map(|end| end.bytes(width).gpu_mut(on));
                columns::exclude_ends(&self.0, &ends[0], &ends[1], excludes)
            }
            (Place::Host, 4) => self.exclude_ends_as::<u32>(ranges, excludes),
            (Place::Host, 8) => self.exclude_ends_as::<u64>(ranges, excludes),
            (Place::Host, _) => self.exclude_ends_as::<u128>(ranges, excludes),
        })
    }
}

impl PyLayout {
    /// Makes a call without the GIL.
    fn call(
        &self,
        py: Python<'_>,
        on_gpu: OnGpu,
        make: impl FnOnce(&Place) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        detached(py, || match on_gpu {
            None => make(&Place::Host),
            Some((gpu, stream)) => make(&Place::new(Device::cuda(gpu)?, Some(stream))?),
        })?
        .map_err(raise)
    }

    fn pack_columns(&self, columns: &[Span], packed: Span) {
        match self.0.width() {
            4 => self.pack_as::<u32>(columns, packed),
            8 => self.pack_as::<u64>(columns, packed),
            _ => self.pack_as::<u128>(columns, packed),
        }
    }

    fn unpack_columns(&self, packed: Span, found: Option<Span>, columns: &[Span]) {
        match self.0.width() {
            4 => self.unpack_as::<u32>(packed, found, columns),
            8 => self.unpack_as::<u64>(packed, found, columns),
            _ => self.unpack_as::<u128>(packed, found, columns),
        }
    }

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

    fn exclude_ends_as<P: PackedKey>(
        &self,
        Ranges(lo, hi): Ranges,
        excludes: (bool, bool),
    ) -> Result<(), Error> {
        let highest = P::narrow(u128::MAX >> (u128::BITS - self.0.bits()));
        for (lo, hi) in lo.host_mut::<P>().iter_mut().zip(hi.host_mut::<P>()) {
            let first =
                if excludes.0 { lo.next().filter(|&key| key <= highest) } else { Some(*lo) };
            let last = if excludes.1 { hi.previous() } else { Some(*hi) };
            (*lo, *hi) = first.zip(last).unwrap_or((highest, P::default()));
        }
        Ok(())
    }

    /// The columns, each with how many bytes its elements have.
    fn columns(&self, columns: &[Span]) -> impl Iterator<Item = (Span, usize)> {
        columns.iter().copied().zip(self.0.parts().iter().map(|part| part.width()))
    }
}

/// Questions of a query whose keys have parts in columns, and the columns of the answers' keys.
pub struct QuestionColumns<'a> {
    pub layout: &'a PyLayout,
    pub questions: &'a [Span],
    pub answers: &'a [Span],
}

impl QuestionColumns<'_> {
    /// Some rows of columns.
    fn rows(&self, columns: &[Span], rows: &Range<usize>) -> Vec<Span> {
        self.layout.columns(columns).map(|(column, width)| column.part(rows, width)).collect()
    }
}

impl<B> KeyColumns<B> for QuestionColumns<'_> {
    fn pack_questions(&self, rows: &Range<usize>, keys: &mut [B]) {
        self.layout.pack_columns(&self.rows(self.questions, rows), Span::of_mut(keys));
    }

    fn unpack_answers(&self, rows: &Range<usize>, keys: &[B], found: &[bool]) {
        let (keys, found) = (Span::of(keys), Span::of(found));
        self.layout.unpack_columns(keys, Some(found), &self.rows(self.answers, rows));
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
