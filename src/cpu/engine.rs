//! The CPU engine: implements [`Engine`] by calling the steps in the other files.

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::{Order, Updates};
use crate::budget::{Allowance, Budget};
use crate::combine::Combiner;
use crate::cpu::context::Cpu;
use crate::cpu::merge::in_place;
use crate::cpu::merge::incremental::{AnyIncrementalMerge, IncrementalMerge};
use crate::cpu::query::{aggregate, asof, count, lookup, nearest, pairs, range, select};
use crate::cpu::run::Run;
use crate::cpu::update::absorb;
use crate::cpu::update::buffer::WriteBuffer;
use crate::cpu::update::sort::SortedBatch;
use crate::engine::{self, Counts, DeviceBatch, Engine, KnownLen, MergeProgress, WritePairs};
use crate::error::Error;
use crate::key::OrderedKey;
#[cfg(feature = "testing")]
use crate::mark::Mark;
use crate::query::Query;
use crate::ranges::RangeEnds;
use crate::stats::{Bytes, RunStats};
use crate::value::{of_bytes_mut, to_bytes_mut};
use crate::workers::Workers;

/// Merging this many entries takes a few times as long as the rest of a batch of 2^16 updates.
const MAX_MERGE_PER_BATCH: usize = 1 << 20;

/// The CPU engine for keys `B`.
pub(crate) struct CpuEngine<B> {
    cpu: Cpu,
    /// The number of bytes of a value.
    value_width: usize,
    keys: PhantomData<fn() -> B>,
}

impl<B> CpuEngine<B> {
    pub fn new(cpu: Cpu, value_width: usize) -> Self {
        CpuEngine { cpu, value_width, keys: PhantomData }
    }
}

impl<B> Clone for CpuEngine<B> {
    fn clone(&self) -> Self {
        CpuEngine::new(self.cpu.clone(), self.value_width)
    }
}

/// Evaluates an expression with `$V` as the type of values of a width. Only what reads or writes values is
/// compiled for each width.
macro_rules! with_values {
    ($width:expr, $V:ident => $value:expr) => {
        match $width {
            0 => {
                type $V = ();
                $value
            }
            4 => {
                type $V = [u8; 4];
                $value
            }
            8 => {
                type $V = [u8; 8];
                $value
            }
            16 => {
                type $V = [u8; 16];
                $value
            }
            _ => unreachable!("no other width compiles"),
        }
    };
}

impl<B: OrderedKey> Engine for CpuEngine<B> {
    type Key = B;
    type Run = Run<B>;
    type Batch<'a> = Updates<'a, B>;
    type Buffer = WriteBuffer<B>;
    type Merge = Box<dyn AnyIncrementalMerge<B>>;

    const MAX_BUFFERED: usize = 1 << 22;

    // It takes no longer than reading a number.
    const MIN_BYTES_TO_ASK: u64 = 0;

    fn bound(&self, run: &Self::Run) -> usize {
        run.len()
    }

    fn stage<'a>(&self, updates: &'a Updates<'_, B>) -> Result<Updates<'a, B>, Error> {
        Ok(Updates {
            keys: Cow::Borrowed(&updates.keys),
            values: updates.values,
            assigned: updates.assigned,
            deletes: Cow::Borrowed(&updates.deletes),
            order: updates.order,
        })
    }

    fn stage_range_deletes(
        &self,
        runs: &[Self::Run],
        ranges: &RangeEnds<'_, B>,
    ) -> Result<Option<Updates<'static, B>>, Error> {
        let ends = (&*ranges.lo, &*ranges.hi);
        let keys = with_values!(self.value_width, V => {
            range::live_keys::<B, V>(&self.cpu, runs, ends, count::len(runs))
        })?;
        Ok(keys.map(Updates::live_deletes))
    }

    fn absorb(
        &self,
        batch: &Updates<'_, B>,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error> {
        with_values!(self.value_width, V => absorb::absorb::<B, V>(&self.cpu, batch, carried, older))
    }

    fn write_run(
        &self,
        len: usize,
        write: &mut WritePairs<'_, B>,
    ) -> Result<Option<Self::Run>, Error> {
        with_values!(self.value_width, V => {
            let mut batch = SortedBatch::<B, V>::zeroed(&self.cpu, len)?;
            write(0, &mut batch.keys[..len], to_bytes_mut(&mut batch.values[..len]))?;
            Run::build(&self.cpu, batch.keys, batch.values, None, len)
        })
    }

    fn merge_in_place(
        &self,
        runs: &mut [Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error> {
        with_values!(self.value_width, V => in_place::merge_in_place::<B, V>(&self.cpu, runs, older))
    }

    fn in_place_bytes(&self, runs: &[Self::Run], to_come: usize) -> Option<u64> {
        with_values!(self.value_width, V => {
            in_place::in_place_bytes::<B, V>(&self.cpu, runs, to_come)
        })
    }

    /// It takes none.
    fn memory_for_removal(&self, _run: &Self::Run) -> Result<Box<dyn Any + Send>, Error> {
        Ok(Box::new(()))
    }

    fn remove_entries(
        &self,
        run: &mut Self::Run,
        positions: &[Range<u64>],
        _memory: Box<dyn Any + Send>,
    ) -> Result<(), Error> {
        run.remove_entries(&self.cpu, positions)
    }

    fn is_unshared(run: &mut Self::Run) -> bool {
        run.is_unshared()
    }

    fn is_shared(run: &Self::Run) -> bool {
        run.is_shared()
    }

    fn merge_bytes(&self, runs: &[Self::Run]) -> u64 {
        with_values!(self.value_width, V => absorb::merge_bytes::<B, V>(&self.cpu, runs))
    }

    fn release_caches(&self, runs: &mut [Self::Run]) -> bool {
        runs.iter_mut().map(Run::free_filter).fold(false, |any, freed| any | freed)
    }

    fn max_merge_per_batch(&self) -> usize {
        MAX_MERGE_PER_BATCH
    }

    fn pair_bytes(&self) -> u64 {
        (size_of::<B>() + self.value_width) as u64
    }

    fn bytes_to_apply(&self, updates: usize, runs: &[Self::Run]) -> u64 {
        with_values!(self.value_width, V => absorb::working_bytes::<B, V>(&self.cpu, updates, runs))
    }

    fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        CpuEngine::new(self.cpu.drawing_on(allowance), self.value_width)
    }

    fn budget(&self) -> &Arc<Budget> {
        self.cpu.memory.budget()
    }

    fn combiner(&self) -> Option<Combiner> {
        self.cpu.combiner()
    }

    fn workers(&self) -> Result<Workers, Error> {
        Ok(self.cpu.workers.clone())
    }

    fn len(&self, runs: &[Self::Run]) -> Result<u64, Error> {
        Ok(count::len(runs))
    }

    fn known_len(&self, runs: &[Self::Run]) -> KnownLen {
        let len = count::len(runs);
        KnownLen { at_least: len, exact: Some(len) }
    }

    fn answer(&self, runs: &[Self::Run], query: Query<'_, B>) -> Result<(), Error> {
        let cpu = &self.cpu;
        match query {
            Query::Lookup { keys, values: None, found } => lookup::contains(cpu, runs, keys, found),
            Query::Lookup { keys, values: Some(values), found } => {
                with_values!(self.value_width, V => {
                    let values = of_bytes_mut::<V>(values, keys.len());
                    lookup::lookup(cpu, runs, keys, values, found)
                })
            }
            Query::Count { lo, hi, counts } => count::count(cpu, runs, lo, hi, counts),
            Query::Rank { keys, ranks } => count::rank(cpu, runs, keys, ranks),
            Query::RangeOffsets { lo, hi, offsets } => {
                range::range_offsets(cpu, runs, lo, hi, offsets)
            }
            Query::Range { lo, hi, offsets, keys, values } => {
                with_values!(self.value_width, V => {
                    let values = values.map(|bytes| of_bytes_mut::<V>(bytes, keys.len()));
                    range::range(cpu, runs, (lo, hi), offsets, keys, values)
                })
            }
            Query::Aggregate { lo, hi, fold, answers, counts } => {
                with_values!(self.value_width, V => {
                    aggregate::aggregate::<B, V>(cpu, runs, (lo, hi), fold, answers, counts)
                })
            }
            Query::Select { indices, mut pairs } => {
                with_values!(self.value_width, V => {
                    select::select::<B, V>(cpu, runs, indices, pairs.reborrow())?;
                    pairs::combine_values::<B, V>(cpu, runs, pairs)
                })
            }
            Query::Nearest { side, keys, mut pairs } => {
                with_values!(self.value_width, V => {
                    nearest::nearest::<B, V>(cpu, runs, side, keys, pairs.reborrow())?;
                    pairs::combine_values::<B, V>(cpu, runs, pairs)
                })
            }
            Query::AsOf { asof, keys, mut pairs } => {
                with_values!(self.value_width, V => {
                    asof::asof::<B, V>(cpu, runs, &asof, keys, pairs.reborrow())?;
                    pairs::combine_values::<B, V>(cpu, runs, pairs)
                })
            }
            Query::AsOfColumns { asof, columns, values, found } => {
                with_values!(self.value_width, V => {
                    let values = of_bytes_mut::<V>(values, found.len());
                    asof::asof_columns(cpu, runs, &asof, columns, values, found)
                })
            }
        }
    }

    fn run_bytes(&self, run: &Self::Run) -> Bytes {
        run.stats().bytes
    }

    fn run_stats(&self, run: &Self::Run) -> Result<RunStats, Error> {
        Ok(run.stats())
    }

    #[cfg(feature = "testing")]
    fn checked_entries(&self, run: &Self::Run) -> Result<Vec<(B, Mark)>, String> {
        run.validate()?;
        Ok(run.keys().iter().enumerate().map(|(at, &key)| (key, run.mark(at))).collect())
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl<B: OrderedKey> DeviceBatch for Updates<'_, B> {
    fn inserts(&self) -> usize {
        self.keys.len()
    }

    fn deletes(&self) -> usize {
        self.deletes.len()
    }

    fn assigned(&self) -> usize {
        self.assigned
    }

    fn order(&self) -> Order {
        self.order
    }
}

impl<B: OrderedKey> engine::WriteBuffer<CpuEngine<B>> for WriteBuffer<B> {
    fn len(&self) -> usize {
        self.len()
    }

    fn accepts(&self, batch: &Updates<'_, B>) -> bool {
        self.accepts(batch)
    }

    fn append(&mut self, engine: &CpuEngine<B>, batch: &Updates<'_, B>) -> Result<(), Error> {
        self.append(&engine.cpu, batch)
    }

    fn remove_last(&mut self, last: Counts) {
        self.remove_last(last);
    }

    fn batch(&self) -> Updates<'_, B> {
        self.batch()
    }
}

impl<B: OrderedKey> engine::IncrementalMerge<CpuEngine<B>> for Box<dyn AnyIncrementalMerge<B>> {
    fn begin(engine: &CpuEngine<B>, runs: &[Run<B>], older: &[Run<B>]) -> Result<Self, Error> {
        with_values!(engine.value_width, V => {
            Ok(Box::new(IncrementalMerge::<B, V>::new(&engine.cpu, runs, older)?))
        })
    }

    fn advance(
        self,
        engine: &CpuEngine<B>,
        entries: usize,
    ) -> Result<MergeProgress<Self, Run<B>>, Error> {
        AnyIncrementalMerge::advance(self, &engine.cpu, entries)
    }

    fn merges(&self, runs: &[Run<B>]) -> bool {
        (**self).merges(runs)
    }
}
