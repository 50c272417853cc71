//! Queries on data in a GPU's memory, as stores take them.

use crate::aggregate::Fold;
use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{self, Address, PairsOutput};
use crate::cuda::query::asof::{self, Questions};
use crate::cuda::query::range::{self, PairsRoom, RangeQueries};
use crate::cuda::query::{aggregate, count, lookup, nearest, select};
use crate::cuda::resident::store::CudaStore;
use crate::cuda::run::reading::Reading;
use crate::cuda::run::{Run, resolve};
use crate::error::Error;
use crate::query::{AsOf, Side};

/// A batch of queries of one kind, and where their answers go. Keys are ordered integers.
#[derive(Clone, Copy)]
pub(super) enum DeviceQuery<'q> {
    /// `values` is 0 where they are not wanted.
    Lookup {
        keys: Address,
        len: u64,
        values: Address,
        found: Address,
    },
    Count {
        ranges: RangeQueries,
        counts: Address,
    },
    Rank {
        keys: Address,
        len: u64,
        ranks: Address,
    },
    RangeOffsets {
        ranges: RangeQueries,
        offsets: Address,
    },
    Range {
        ranges: RangeQueries,
        offsets: Address,
        pairs: PairsRoom,
    },
    Aggregate {
        ranges: RangeQueries,
        fold: Fold,
        answers: Address,
        counts: Address,
    },
    Select {
        indices: Address,
        len: u64,
        pairs: PairsOutput,
    },
    Nearest {
        side: Side,
        keys: Address,
        len: u64,
        pairs: PairsOutput,
    },
    AsOf {
        asof: &'q AsOf,
        keys: Address,
        len: u64,
        pairs: PairsOutput,
    },
}

impl DeviceQuery<'_> {
    /// Has one store on the GPU of the data answer.
    pub fn answer(&self, store: &dyn CudaStore, cuda: &EnteredCuda<'_>) -> Result<(), Error> {
        let levels = store.flushed()?;
        if self.needs_marks() {
            resolve::resolve(cuda, levels.runs())?;
        }
        let runs = levels.runs();
        let reading = Reading::begin(cuda, runs.iter())?;
        let view = ffi::View::new(runs.iter().map(Run::view), cuda.raw_combiner());
        self.search(cuda, runs, &view)?;
        reading.end()?;
        if cuda.is_capturing()? {
            store.pin(levels);
        }
        Ok(())
    }

    /// Returns whether it must be known which entries shadow older ones.
    fn needs_marks(&self) -> bool {
        !matches!(self, DeviceQuery::Lookup { .. })
    }

    fn search(&self, cuda: &EnteredCuda<'_>, runs: &[Run], view: &ffi::View) -> Result<(), Error> {
        match *self {
            DeviceQuery::Lookup { keys, len, values, found } => {
                lookup::lookup(cuda, runs, keys, len, values, found)
            }
            DeviceQuery::Count { ranges: RangeQueries { lo, hi, len }, counts } => {
                count::count(cuda, view, (lo, hi), len, counts)
            }
            DeviceQuery::Rank { keys, len, ranks } => count::rank(cuda, view, keys, len, ranks),
            DeviceQuery::RangeOffsets { ranges, offsets } => {
                range::offsets(cuda, view, &ranges, offsets)
            }
            DeviceQuery::Range { ranges, offsets, pairs } => {
                range::range(cuda, view, &ranges, offsets, &pairs)
            }
            DeviceQuery::Aggregate { ranges, fold, answers, counts } => {
                aggregate::aggregate(cuda, view, &ranges, fold, answers, counts)
            }
            DeviceQuery::Select { indices, len, pairs } => {
                select::select(cuda, view, indices, len, &pairs)
            }
            DeviceQuery::Nearest { side, keys, len, pairs } => {
                nearest::nearest(cuda, view, side, keys, len, &pairs)
            }
            DeviceQuery::AsOf { asof, keys, len, pairs } => {
                asof::asof(cuda, view, asof, &Questions { keys, len }, &pairs)
            }
        }
    }
}
