//! The CPU engine: implements [`Engine`] by calling the steps in the other files.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::batch::{Order, Updates};
use crate::budget::{Allowance, Budget};
use crate::combine::Combiner;
use crate::cpu::context::Cpu;
use crate::cpu::merge::incremental::IncrementalMerge;
use crate::cpu::query::{aggregate, count, lookup, nearest, pairs, range, select};
use crate::cpu::run::Run;
use crate::cpu::update::absorb;
use crate::cpu::update::buffer::WriteBuffer;
use crate::engine::{self, DeviceBatch, Engine, KnownLen, MergeProgress};
use crate::error::Error;
use crate::key::OrderedKey;
#[cfg(feature = "testing")]
use crate::mark::Mark;
use crate::query::Query;
use crate::stats::RunStats;
use crate::value::{Value, of_bytes_mut};

/// Merging this many entries takes a few times as long as the rest of a batch of 2^16 updates.
const MAX_MERGE_PER_BATCH: usize = 1 << 20;

/// The CPU engine for keys `B` and values `V`.
pub(crate) struct CpuEngine<B, V> {
    cpu: Cpu,
    types: PhantomData<fn() -> (B, V)>,
}

impl<B, V> CpuEngine<B, V> {
    pub fn new(cpu: Cpu) -> Self {
        CpuEngine { cpu, types: PhantomData }
    }
}

impl<B, V> Clone for CpuEngine<B, V> {
    fn clone(&self) -> Self {
        CpuEngine::new(self.cpu.clone())
    }
}

impl<B: OrderedKey, V: Value> Engine for CpuEngine<B, V> {
    type Key = B;
    type Run = Run<B, V>;
    type Batch<'a> = Updates<'a, B>;
    type Buffer = WriteBuffer<B>;
    type Merge = IncrementalMerge<B, V>;

    const MAX_BUFFERED: usize = 1 << 22;

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

    fn absorb(
        &self,
        batch: &Updates<'_, B>,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error> {
        absorb::absorb(&self.cpu, batch, carried, older)
    }

    fn max_merge_per_batch(&self) -> usize {
        MAX_MERGE_PER_BATCH
    }

    fn pair_bytes(&self) -> u64 {
        (size_of::<B>() + size_of::<V>()) as u64
    }

    fn bytes_to_apply(&self, updates: usize, runs: &[Self::Run]) -> u64 {
        absorb::working_bytes(&self.cpu, updates, runs)
    }

    fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        CpuEngine::new(self.cpu.drawing_on(allowance))
    }

    fn budget(&self) -> &Arc<Budget> {
        self.cpu.memory.budget()
    }

    fn combiner(&self) -> Option<Combiner> {
        self.cpu.combiner()
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
            Query::Lookup { keys, values, found } => {
                let values = values.map(|bytes| of_bytes_mut(bytes, keys.len()));
                lookup::lookup(cpu, runs, keys, values, found)
            }
            Query::Count { lo, hi, counts } => count::count(cpu, runs, lo, hi, counts),
            Query::Rank { keys, ranks } => count::rank(cpu, runs, keys, ranks),
            Query::RangeOffsets { lo, hi, offsets } => {
                range::range_offsets(cpu, runs, lo, hi, offsets)
            }
            Query::Range { lo, hi, offsets, keys, values } => {
                let values = values.map(|bytes| of_bytes_mut(bytes, keys.len()));
                range::range(cpu, runs, (lo, hi), offsets, keys, values)
            }
            Query::Aggregate { lo, hi, fold, answers, counts } => {
                aggregate::aggregate(cpu, runs, (lo, hi), fold, answers, counts)
            }
            Query::Select { indices, mut pairs } => {
                select::select(cpu, runs, indices, pairs.reborrow())?;
                pairs::combine_values(cpu, runs, pairs)
            }
            Query::Nearest { side, keys, mut pairs } => {
                nearest::nearest(cpu, runs, side, keys, pairs.reborrow())?;
                pairs::combine_values(cpu, runs, pairs)
            }
        }
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

    fn order(&self) -> Order {
        self.order
    }
}

impl<B: OrderedKey, V: Value> engine::WriteBuffer<CpuEngine<B, V>> for WriteBuffer<B> {
    fn len(&self) -> usize {
        self.len()
    }

    fn accepts(&self, batch: &Updates<'_, B>) -> bool {
        self.accepts(batch)
    }

    fn append(&mut self, engine: &CpuEngine<B, V>, batch: &Updates<'_, B>) -> Result<(), Error> {
        self.append(&engine.cpu, batch)
    }

    fn batch(&self) -> Updates<'_, B> {
        self.batch()
    }
}

impl<B: OrderedKey, V: Value> engine::IncrementalMerge<CpuEngine<B, V>> for IncrementalMerge<B, V> {
    fn begin(
        engine: &CpuEngine<B, V>,
        runs: &[Run<B, V>],
        older: &[Run<B, V>],
    ) -> Result<Self, Error> {
        IncrementalMerge::new(&engine.cpu, runs, older)
    }

    fn advance(
        self,
        engine: &CpuEngine<B, V>,
        entries: usize,
    ) -> Result<MergeProgress<Self, Run<B, V>>, Error> {
        self.advance(&engine.cpu, entries)
    }

    fn merges(&self, runs: &[Run<B, V>]) -> bool {
        self.merges(runs)
    }
}
