//! As-of queries: the nearest pair whose key agrees with the question in all parts but the last.

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, AsOfQuery, PairsOutput, View, check};
use crate::cuda::query::nearest::nearest;
use crate::cuda::query::pairs::PairsBuffers;
use crate::error::Error;
use crate::key::Encoding;
use crate::query::{Direction, Side};

/// An as-of query of keys whose parts are known at run time only.
#[derive(Clone, Copy, Debug)]
pub struct AsOf {
    /// What the last part of keys is, a number, and how many bytes it has.
    pub on: (Encoding, usize),
    /// Where the answers are, seen from their questions.
    pub direction: Direction,
    /// How far they may be.
    pub tolerance: Option<Tolerance>,
    /// Whether a pair with the question's own key is no answer.
    pub is_strict: bool,
}

/// How far the last part of an answer may be from that of its question.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// Of integers and times.
    Integer(u64),
    /// Of floats.
    Float(f64),
}

impl Tolerance {
    /// Returns it as kernels take it: of floats, the bits of what their own type makes of it.
    fn bits(self, (encoding, width): (Encoding, usize)) -> u64 {
        match (self, encoding, width) {
            (Tolerance::Integer(most), Encoding::Float, 4) => f64::from(most as f32).to_bits(),
            (Tolerance::Integer(most), Encoding::Float, _) => (most as f64).to_bits(),
            (Tolerance::Float(most), Encoding::Float, 4) => f64::from(most as f32).to_bits(),
            (Tolerance::Float(most), Encoding::Float, _) => most.to_bits(),
            (Tolerance::Integer(most), ..) => most,
            (Tolerance::Float(most), ..) => most as u64,
        }
    }
}

/// Keys that are asked about, as ordered integers.
pub(crate) struct Questions {
    pub keys: Address,
    pub len: u64,
}

/// Finds the pair that answers each question, on data on the GPU.
pub(crate) fn asof(
    cuda: &EnteredCuda<'_>,
    view: &View,
    query: &AsOf,
    questions: &Questions,
    pairs: &PairsOutput,
) -> Result<(), Error> {
    let is_forward = query.direction == Direction::Forward;
    let first = if is_forward { Side::Successor } else { Side::Predecessor };
    find(cuda, view, query, first, questions, pairs)?;
    if query.direction != Direction::Nearest {
        return choose(cuda, query, questions, pairs, &PairsOutput::default());
    }
    let buffers = PairsBuffers::new(cuda, questions.len as usize)?;
    let after = buffers.addresses();
    find(cuda, view, query, Side::Successor, questions, &after)?;
    choose(cuda, query, questions, pairs, &after)
}

/// Finds the nearest pair on one side of each question, whether it answers it or not.
fn find(
    cuda: &EnteredCuda<'_>,
    view: &View,
    query: &AsOf,
    side: Side,
    questions: &Questions,
    pairs: &PairsOutput,
) -> Result<(), Error> {
    let &Questions { keys, len } = questions;
    if !query.is_strict || len == 0 {
        return nearest(cuda, view, side, keys, len, pairs);
    }
    let beside = cuda.alloc_uncounted(len * cuda.key_width as u64)?;
    // SAFETY: there are `len` keys and room for as many, used in the order of this stream.
    check("moving questions", unsafe {
        let (to, stream) = (beside.address(), cuda.raw_stream());
        ffi::gpulsm_beside(cuda.key_width, side == Side::Successor, keys, len, to, stream)
    })?;
    nearest(cuda, view, side, beside.address(), len, pairs)
}

/// Keeps those of the pairs found that answer their questions; `others` are those after the questions, if there are
/// any.
fn choose(
    cuda: &EnteredCuda<'_>,
    query: &AsOf,
    questions: &Questions,
    pairs: &PairsOutput,
    others: &PairsOutput,
) -> Result<(), Error> {
    let &Questions { keys, len } = questions;
    if len == 0 {
        return Ok(());
    }
    let raw = AsOfQuery {
        tolerance: query.tolerance.map_or(0, |most| most.bits(query.on)),
        encoding: query.on.0,
        width: query.on.1 as i32,
        is_forward: query.direction == Direction::Forward,
        is_strict: query.is_strict,
        has_tolerance: query.tolerance.is_some(),
    };
    // SAFETY: there are `len` questions, and as many pairs in each of the outputs that has any, used in the order
    // of this stream.
    check("choosing answers", unsafe {
        let (widths, stream) = ((cuda.key_width, cuda.value_width), cuda.raw_stream());
        ffi::gpulsm_choose(widths.0, widths.1, &raw, keys, len, pairs, others, stream)
    })
}
