//! A GPU as a device: each method of [`Engine`], which enters the GPU's context and calls the step.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::{Order, Updates};
use crate::budget::{Allowance, Budget};
use crate::combine::Combiner;
use crate::cuda::context::Cuda;
use crate::cuda::driver::mapped;
use crate::cuda::ffi::View;
use crate::cuda::merge::in_place;
use crate::cuda::merge::incremental::Merge;
use crate::cuda::query::{aggregate, asof, count, lookup, nearest, range, select};
#[cfg(feature = "testing")]
use crate::cuda::run::inspect;
use crate::cuda::run::reading::Reading;
use crate::cuda::run::removal::Bounce;
use crate::cuda::run::shrink::Oversized;
use crate::cuda::run::{Run, resolve};
use crate::cuda::update::absorb::absorb;
use crate::cuda::update::batch::Batch;
use crate::cuda::update::buffer::WriteBuffer;
use crate::cuda::update::plan;
use crate::engine::{self, Counts, DeviceBatch, Engine, KnownLen, MergeProgress, WritePairs};
use crate::error::Error;
use crate::key::OrderedKey;
#[cfg(feature = "testing")]
use crate::mark::Mark;
use crate::query::Query;
use crate::ranges::RangeEnds;
use crate::stats::{Bytes, DeviceMemory, RunStats};
use crate::workers::Workers;

/// Merging this many bytes takes about as long as the rest of a batch of 2^16 updates, on an H200.
const MAX_MERGE_BYTES_PER_BATCH: u64 = 32 << 20;

/// A GPU as a device for keys `B`.
pub(crate) struct CudaEngine<B> {
    pub(super) cuda: Cuda,
    keys: PhantomData<fn() -> B>,
}

impl<B> CudaEngine<B> {
    pub fn new(cuda: Cuda) -> Self {
        CudaEngine { cuda, keys: PhantomData }
    }
}

impl<B> Clone for CudaEngine<B> {
    fn clone(&self) -> Self {
        CudaEngine::new(self.cuda.clone())
    }
}

impl<B: OrderedKey> Engine for CudaEngine<B> {
    type Key = B;
    type Run = Run;
    type Batch<'a> = Batch;
    type Buffer = WriteBuffer;
    type Merge = Merge;

    const MAX_BUFFERED: usize = 1 << 25;

    fn bound(&self, run: &Run) -> usize {
        run.bound() as usize
    }

    fn stage(&self, updates: &Updates<'_, B>) -> Result<Batch, Error> {
        Batch::upload(&self.cuda.enter()?, updates)
    }

    fn stage_range_deletes(
        &self,
        runs: &[Run],
        ranges: &RangeEnds<'_, B>,
    ) -> Result<Option<Batch>, Error> {
        let cuda = &self.cuda.enter()?;
        cuda.refuse_capture()?;
        let all = count::len(cuda, runs)?;
        let reading = Reading::begin(cuda, runs.iter())?;
        let view = View::new(runs.iter().map(Run::view), cuda.raw_combiner());
        let keys = range::live_keys(cuda, &view, (&ranges.lo, &ranges.hi), all)?;
        reading.end()?;
        Ok(keys.map(|(keys, len)| Batch::of_live_deletes(cuda, keys, len)))
    }

    fn absorb(&self, batch: &Batch, carried: &[Run], older: &[Run]) -> Result<Option<Run>, Error> {
        absorb(&self.cuda.enter()?, batch, carried, older)
    }

    fn write_run(&self, len: usize, write: &mut WritePairs<'_, B>) -> Result<Option<Run>, Error> {
        let cuda = self.cuda.enter()?;
        absorb(&cuda, &Batch::upload_parts(&cuda, len, write)?, &[], &[])
    }

    fn merge_in_place(&self, runs: &mut [Run], older: &[Run]) -> Result<Option<Run>, Error> {
        in_place::merge(&self.cuda.enter()?, runs, older)
    }

    fn in_place_bytes(&self, runs: &[Run], _to_come: usize) -> Option<u64> {
        in_place::max_bytes(&self.cuda, runs)
    }

    fn memory_for_removal(&self, run: &Run) -> Result<Box<dyn Any + Send>, Error> {
        Ok(Box::new(Bounce::new(&self.cuda.enter()?, run)?))
    }

    fn remove_entries(
        &self,
        run: &mut Run,
        positions: &[Range<u64>],
        memory: Box<dyn Any + Send>,
    ) -> Result<(), Error> {
        let bounce = memory.downcast().expect("it comes from `memory_for_removal`");
        run.remove_entries(&self.cuda.enter()?, positions, &bounce)
    }

    fn is_unshared(run: &mut Run) -> bool {
        run.is_unshared()
    }

    fn is_shared(run: &Run) -> bool {
        run.is_shared()
    }

    fn merge_bytes(&self, runs: &[Run]) -> u64 {
        plan::working_bytes(&self.cuda, 0, runs)
    }

    fn release_caches(&self, runs: &mut [Run]) -> bool {
        let Ok(entered) = self.cuda.stream.enter() else { return false };
        runs.iter_mut().fold(false, |any, run| any | run.free_caches(&entered))
    }

    fn bytes_for_queries(&self, runs: &[Run], inserts: usize) -> u64 {
        let budget = self.cuda.budget();
        let total = self.cuda.gpu().mapping().total();
        if budget.used() < budget.limit().map_or(total, |limit| limit.min(total)) / 2 {
            return 0;
        }
        resolve::bytes_for_all(&self.cuda, runs, inserts as u64)
    }

    fn memory(&self) -> Option<DeviceMemory> {
        let entered = self.cuda.stream.enter().ok()?;
        let of_gpu = mapped::memory_of(self.cuda.gpu(), &entered);
        [of_gpu, self.cuda.budget().memory()].into_iter().flatten().min_by_key(|memory| memory.free)
    }

    fn available_bytes(&self) -> Option<u64> {
        let entered = self.cuda.stream.enter().ok();
        let of_gpu = entered.and_then(|entered| mapped::available(self.cuda.gpu(), &entered));
        [of_gpu, self.cuda.budget().free()].into_iter().flatten().min()
    }

    fn max_merge_per_batch(&self) -> usize {
        (MAX_MERGE_BYTES_PER_BATCH / self.pair_bytes()) as usize
    }

    fn pair_bytes(&self) -> u64 {
        self.cuda.pair_bytes(1)
    }

    fn bytes_to_apply(&self, updates: usize, runs: &[Run]) -> u64 {
        plan::working_bytes(&self.cuda, updates as u64, runs)
    }

    fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        let account = self.cuda.account.drawing_on(allowance);
        CudaEngine::new(Cuda { account, ..self.cuda.clone() })
    }

    fn combiner(&self) -> Option<Combiner> {
        self.cuda.combiner
    }

    fn budget(&self) -> &Arc<Budget> {
        self.cuda.budget()
    }

    fn workers(&self) -> Result<Workers, Error> {
        Workers::new(None)
    }

    fn len(&self, runs: &[Run]) -> Result<u64, Error> {
        count::len(&self.cuda.enter()?, runs)
    }

    fn known_len(&self, runs: &[Run]) -> KnownLen {
        let at_least = runs.iter().map(Run::least_sum).sum::<i64>().max(0).cast_unsigned();
        let exact = runs.iter().map(Run::sum_if_known).sum::<Option<i64>>();
        KnownLen { at_least, exact: exact.map(i64::cast_unsigned) }
    }

    fn answer(&self, runs: &[Run], query: Query<'_, B>) -> Result<(), Error> {
        let cuda = &self.cuda.enter()?;
        cuda.refuse_capture()?;
        if !matches!(query, Query::Lookup { .. }) {
            resolve::resolve(cuda, runs)?;
        }
        let reading = Reading::begin(cuda, runs.iter())?;
        let view = View::new(runs.iter().map(Run::view), cuda.raw_combiner());
        match query {
            Query::Lookup { keys, values, found } => {
                lookup::answer(cuda, runs, keys, values, found)
            }
            Query::Count { lo, hi, counts } => count::answer(cuda, &view, lo, hi, counts),
            Query::Rank { keys, ranks } => count::answer_rank(cuda, &view, keys, ranks),
            Query::RangeOffsets { lo, hi, offsets } => {
                range::answer_offsets(cuda, &view, lo, hi, offsets).map(drop)
            }
            Query::Range { lo, hi, offsets, keys, values } => {
                range::answer(cuda, &view, (lo, hi), offsets, keys, values)
            }
            Query::Aggregate { lo, hi, fold, answers, counts } => {
                aggregate::answer(cuda, &view, (lo, hi), fold, answers, counts)
            }
            Query::Select { indices, pairs } => select::answer(cuda, &view, indices, pairs),
            Query::Nearest { side, keys, pairs } => nearest::answer(cuda, &view, side, keys, pairs),
            Query::AsOf { asof, keys, pairs } => asof::answer(cuda, &view, &asof, keys, pairs),
            Query::AsOfColumns { asof, columns, values, found } => {
                asof::answer_columns(cuda, &view, &asof, columns, values, found)
            }
        }?;
        reading.end()
    }

    fn run_bytes(&self, run: &Run) -> Bytes {
        run.bytes()
    }

    fn run_stats(&self, run: &Run) -> Result<RunStats, Error> {
        run.stats(self.cuda.enter()?.entered())
    }

    fn shrink_to_fit(&self, run: &Run) -> Option<Run> {
        if run.is_foreign_to(&self.cuda.stream) {
            return None;
        }
        let oversized = Oversized::new(&self.cuda, run)?;
        let cuda = self.cuda.enter().ok()?;
        if oversized.truncate(&cuda) {
            return None;
        }
        oversized.copy(&cuda).ok() // Without memory for it, the run stays as it is.
    }

    #[cfg(feature = "testing")]
    fn checked_entries(&self, run: &Run) -> Result<Vec<(B, Mark)>, String> {
        let cuda = self.cuda.enter().map_err(|error| error.to_string())?;
        inspect::validate::<B>(&cuda, run)?;
        inspect::entries(&cuda, run).map_err(|error| error.to_string())
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.cuda.stream.synchronize()
    }
}

impl DeviceBatch for Batch {
    fn inserts(&self) -> usize {
        self.inserts as usize
    }

    fn deletes(&self) -> usize {
        self.deletes as usize
    }

    fn assigned(&self) -> usize {
        self.assigned as usize
    }

    fn order(&self) -> Order {
        self.order
    }
}

impl<B: OrderedKey> engine::WriteBuffer<CudaEngine<B>> for WriteBuffer {
    fn len(&self) -> usize {
        self.len() as usize
    }

    fn accepts(&self, batch: &Batch) -> bool {
        self.accepts(batch)
    }

    fn append(&mut self, engine: &CudaEngine<B>, batch: &Batch) -> Result<(), Error> {
        self.append(&engine.cuda.enter()?, batch)
    }

    fn remove_last(&mut self, last: Counts) {
        self.remove_last(last);
    }

    fn batch(&self) -> Batch {
        self.batch()
    }
}

impl<B: OrderedKey> engine::IncrementalMerge<CudaEngine<B>> for Merge {
    fn begin(engine: &CudaEngine<B>, runs: &[Run], older: &[Run]) -> Result<Self, Error> {
        Merge::new(&engine.cuda.enter()?, runs, older)
    }

    fn advance(
        self,
        engine: &CudaEngine<B>,
        entries: usize,
    ) -> Result<MergeProgress<Self, Run>, Error> {
        self.advance(&engine.cuda.enter()?, entries)
    }

    fn merges(&self, runs: &[Run]) -> bool {
        self.merges(runs)
    }
}
