//! As-of queries: the nearest pair whose key agrees with the question in all parts but the last.

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, AsOfQuery, PairsOutput, View, check};
use crate::cuda::query::nearest::nearest;
use crate::cuda::query::pairs::PairsBuffers;
use crate::error::{Error, try_zeroed};
use crate::key::{Distance, OrderedKey};
use crate::query::{AsOf, Direction, KeyColumns, PairsOut, Side};

/// Questions in columns that are packed and answered at a time: their integers stay in the host's caches, and they
/// are enough for the GPU.
const BLOCK: usize = 1 << 20;

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

/// Finds the pair that answers each of the host's questions.
pub(crate) fn answer<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    query: &AsOf,
    keys: &[B],
    out: PairsOut<'_, B>,
) -> Result<(), Error> {
    let uploaded = cuda.upload(keys)?;
    let pairs = PairsBuffers::new(cuda, keys.len())?;
    let questions = Questions { keys: uploaded.address(), len: keys.len() as u64 };
    asof(cuda, view, query, &questions, &pairs.addresses())?;
    pairs.download(cuda, out)
}

/// Finds the pair that answers each of the host's questions, whose keys are in columns.
pub(crate) fn answer_columns<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    view: &View,
    query: &AsOf,
    columns: &dyn KeyColumns<B>,
    values: &mut [u8],
    found: &mut [bool],
) -> Result<(), Error> {
    let block = BLOCK.min(found.len());
    let (mut questions, mut keys) = (try_zeroed::<B>(block)?, try_zeroed::<B>(block)?);
    for (index, found) in found.chunks_mut(BLOCK).enumerate() {
        let rows = index * BLOCK..index * BLOCK + found.len();
        let (questions, keys) = (&mut questions[..rows.len()], &mut keys[..rows.len()]);
        let width = cuda.value_width as usize;
        let values = &mut values[rows.start * width..rows.end * width];
        columns.pack_questions(&rows, questions);
        answer(cuda, view, query, questions, PairsOut { keys, values, found })?;
        columns.unpack_answers(&rows, keys, found);
    }
    Ok(())
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
    let raw = AsOfQuery::from(query);
    // SAFETY: there are `len` questions, and as many pairs in each of the outputs that has any, used in the order
    // of this stream.
    check("choosing answers", unsafe {
        let (widths, stream) = ((cuda.key_width, cuda.value_width), cuda.raw_stream());
        ffi::gpulsm_choose(widths.0, widths.1, &raw, keys, len, pairs, others, stream)
    })
}

impl From<&AsOf> for AsOfQuery {
    fn from(query: &AsOf) -> Self {
        let tolerance = query.tolerance.map(|most| match most {
            Distance::Integer(most) => most,
            Distance::Single(most) => f64::from(most).to_bits().into(),
            Distance::Double(most) => most.to_bits().into(),
        });
        AsOfQuery {
            tolerance: tolerance.unwrap_or(0),
            encoding: query.on.encoding,
            bits: query.on.bits as i32,
            is_forward: query.direction == Direction::Forward,
            is_strict: query.is_strict,
            has_tolerance: tolerance.is_some(),
        }
    }
}
