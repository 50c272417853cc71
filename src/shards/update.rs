//! Updates: divided by key, prepared on every shard, and committed on all or none.

use super::parallel::{MIN_WORK, at_once};
use super::partition::Partition;
use super::pieces::cut_ranges;
use super::store::{Shard, Shards};
use crate::batch::Updates;
use crate::engine::{PAIRS_PER_PART, WritePairs};
use crate::error::{Error, try_with_capacity, try_zeroed};
use crate::key::OrderedKey;
use crate::ranges::RangeEnds;
use crate::store::{AnyStore, PreparedChange};
use crate::value::ValueBuffer;

/// Splitters come from at most this many keys for each shard, so that the lengths of shards differ by a twentieth.
const SAMPLE: usize = 512;

/// What shards have prepared, in their order, of a change of this many updates.
pub(super) struct Prepared {
    work: usize,
    changes: Vec<(usize, PreparedChange)>,
}

/// Prepares the deletes of ranges on one store.
type PrepareRanges<B> =
    dyn Fn(&mut dyn AnyStore<B>, &RangeEnds<'_, B>) -> Result<PreparedChange, Error> + Sync;

/// A batch, divided by shard.
pub(super) struct Divided<B> {
    /// The keys and values, those of each shard together, unless they were already.
    grouped: Option<(Vec<B>, ValueBuffer, Vec<B>)>,
    /// Where the inserts of each shard begin, and where the last end.
    inserts: Vec<usize>,
    /// How many of them assign their values.
    assigned: Vec<usize>,
    /// Where the deletes of each shard begin, and where the last end.
    deletes: Vec<usize>,
    value_width: usize,
}

impl<B: OrderedKey> Divided<B> {
    /// Returns the part of each shard of the batch that was divided.
    pub fn parts<'a>(&'a self, updates: &'a Updates<'_, B>) -> Vec<Updates<'a, B>> {
        let (keys, values, deletes) = match &self.grouped {
            Some((keys, values, deletes)) => (&keys[..], values.bytes(), &deletes[..]),
            None => (&*updates.keys, updates.values, &*updates.deletes),
        };
        let width = self.value_width;
        let bounds = self.inserts.windows(2).zip(self.deletes.windows(2));
        let part = |((inserts, bounds), &assigned): ((&[usize], &[usize]), &usize)| Updates {
            keys: keys[inserts[0]..inserts[1]].into(),
            values: &values[inserts[0] * width..inserts[1] * width],
            assigned,
            deletes: deletes[bounds[0]..bounds[1]].into(),
            order: updates.order,
        };
        bounds.zip(&self.assigned).map(part).collect()
    }
}

impl<B: OrderedKey> Shards<B> {
    /// Prepares a batch on every shard, or on none.
    pub(super) fn prepare_batch(&mut self, updates: &Updates<'_, B>) -> Result<Prepared, Error> {
        self.choose_splitters(updates)?;
        let divided = self.divided(updates)?;
        let parts = divided.parts(updates);
        let must_apply = self.is_a_buffer_full(&parts);
        let parts = parts.into_iter().map(|part| (part.len() > 0).then_some(part)).collect();
        self.prepare_parts(updates.len(), parts, |store, part| {
            if must_apply {
                // All shards at the same time; otherwise each would soon wait for another. Without memory, one whose buffer
                // is not full applies it later.
                store.apply_buffered().ok();
            }
            store.prepare(&part)
        })
    }

    /// Returns whether a shard must apply what it has buffered before it can buffer its part of a batch.
    fn is_a_buffer_full(&self, parts: &[Updates<'_, B>]) -> bool {
        // After few updates it is not worth a look at every shard.
        parts.iter().map(Updates::len).sum::<usize>() >= MIN_WORK
            && self.shards.iter().zip(parts).any(|(shard, part)| {
                let stats = shard.store.quick_stats();
                stats.is_some_and(|stats| stats.buffered + part.len() > stats.max_buffered)
            })
    }

    /// Prepares the deletes of ranges, which are in ascending order and do not meet, on every shard, or on none.
    pub(super) fn prepare_ranges(
        &mut self,
        ranges: &RangeEnds<'_, B>,
        prepare: &PrepareRanges<B>,
    ) -> Result<Prepared, Error> {
        let parts = cut_ranges(&ranges.lo, &ranges.hi, &self.splitters, &self.workers)?;
        let parts = parts.into_iter().map(|pieces| (pieces.len() > 0).then_some(pieces)).collect();
        // A few ranges may have many keys.
        self.prepare_parts(usize::MAX, parts, |store, pieces| {
            prepare(store, &RangeEnds { lo: pieces.lo.into(), hi: pieces.hi.into() })
        })
    }

    /// Prepares a part of a change on each shard that has one, at the same time. After an error the others are undone.
    fn prepare_parts<P: Send>(
        &mut self,
        work: usize,
        parts: Vec<Option<P>>,
        prepare: impl Fn(&mut dyn AnyStore<B>, P) -> Result<PreparedChange, Error> + Sync,
    ) -> Result<Prepared, Error> {
        let runners = self.runners_for_change();
        let shards = self.shards.iter_mut().enumerate().zip(parts);
        let tasks = shards.filter_map(|(shard, part)| part.map(|part| (shard, part))).collect();
        let job = |((index, shard), part): ((usize, &mut Shard<B>), P)| {
            let prepared = prepare(&mut *shard.store, part);
            shard.named(prepared).map(|change| (index, change))
        };
        let (mut changes, mut failed) = (Vec::new(), None);
        for outcome in at_once(&runners, tasks, work, job) {
            match outcome {
                Ok(change) => changes.push(change),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let prepared = Prepared { work, changes };
        match failed {
            None => Ok(prepared),
            Some(error) => {
                self.undo_on_all(prepared);
                Err(self.explain(error))
            }
        }
    }

    /// Applies a change of this many inserts and deletes, of which shards have parts, as a whole or not at all. `work`
    /// updates of it are still to be prepared.
    #[cfg(feature = "cuda")]
    pub fn apply_parts<P: Send>(
        &mut self,
        (inserts, deletes): (usize, usize),
        work: usize,
        parts: Vec<Option<P>>,
        prepare: impl Fn(&mut dyn AnyStore<B>, P) -> Result<PreparedChange, Error> + Sync,
    ) -> Result<(), Error> {
        let prepared = self.prepare_parts(work, parts, prepare)?;
        self.commit_on_all(prepared);
        self.rebalance(inserts, deletes);
        Ok(())
    }

    /// Commits what was prepared, on all shards at the same time.
    pub(super) fn commit_on_all(&mut self, Prepared { work, changes }: Prepared) {
        let runners = self.runners_for_change();
        let mut changes = changes.into_iter().peekable();
        let mut tasks = Vec::new();
        for (index, shard) in self.shards.iter_mut().enumerate() {
            let change = changes.next_if(|(of, _)| *of == index);
            tasks.extend(change.map(|(_, change)| (shard, change)));
        }
        at_once(&runners, tasks, work, |(shard, change): (&mut Shard<B>, _)| {
            shard.store.commit(change);
        });
    }

    pub(super) fn undo_on_all(&mut self, prepared: Prepared) {
        for (shard, change) in prepared.changes {
            self.shards[shard].store.undo(change);
        }
    }

    /// Chooses splitters such that every shard gets as many of the first keys as any other.
    pub(super) fn choose_splitters(&mut self, updates: &Updates<'_, B>) -> Result<(), Error> {
        if updates.keys.is_empty() {
            return Ok(());
        }
        self.choose_splitters_of(|most| {
            let step = updates.keys.len().div_ceil(most);
            let mut sample = try_with_capacity::<B>(updates.keys.len() / step + 1)?;
            sample.extend(updates.keys.iter().step_by(step));
            Ok(sample)
        })
    }

    /// Chooses splitters, unless there are some, of a sample: some of the first keys, at least one and about as many as
    /// it is called with.
    pub fn choose_splitters_of(
        &mut self,
        sample: impl FnOnce(usize) -> Result<Vec<B>, Error>,
    ) -> Result<(), Error> {
        if self.balance.has_splitters {
            return Ok(());
        }
        let shards = self.count();
        let mut sample = sample(shards * SAMPLE)?;
        sample.sort_unstable();
        for (index, splitter) in self.splitters.iter_mut().enumerate() {
            *splitter = sample[sample.len() * (index + 1) / shards];
        }
        self.balance.has_splitters = true;
        Ok(())
    }

    /// Divides a batch by shard.
    pub(super) fn divided(&self, updates: &Updates<'_, B>) -> Result<Divided<B>, Error> {
        let (keys, deletes, width) = (&*updates.keys, &*updates.deletes, self.value_width());
        if updates.order.is_sorted() {
            let (inserts, deletes) = (self.bounds(keys), self.bounds(deletes));
            let assigned = self.assigned(updates, &inserts);
            return Ok(Divided { grouped: None, inserts, assigned, deletes, value_width: width });
        }
        let by_insert = Partition::new(keys, &self.splitters, &self.workers)?;
        let by_delete = Partition::new(deletes, &self.splitters, &self.workers)?;
        let is_grouped = by_insert.only_shard().is_some() && by_delete.only_shard().is_some();
        let grouped = match is_grouped {
            true => None,
            false => {
                let mut grouped = (
                    try_zeroed(keys.len())?,
                    ValueBuffer::new(keys.len(), width)?,
                    try_zeroed(deletes.len())?,
                );
                let to = (&mut grouped.0[..], grouped.1.bytes_mut());
                by_insert.group_pairs((keys, updates.values), width, to)?;
                by_delete.group(deletes, &mut grouped.2)?;
                Some(grouped)
            }
        };
        let mut assigned = vec![0; self.count()];
        (keys.len() - updates.assigned..keys.len())
            .for_each(|index| assigned[by_insert.shard(index)] += 1);
        let [inserts, deletes] = [by_insert, by_delete].map(Partition::into_bounds);
        Ok(Divided { grouped, inserts, assigned, deletes, value_width: width })
    }

    /// Returns where the keys of each shard begin among ascending ones, and where the last end.
    fn bounds(&self, keys: &[B]) -> Vec<usize> {
        let inner =
            self.splitters.iter().map(|splitter| keys.partition_point(|key| key < splitter));
        [0].into_iter().chain(inner).chain([keys.len()]).collect()
    }

    /// Returns how many of the inserts of each shard, which begin at these bounds, assign their values.
    fn assigned(&self, updates: &Updates<'_, B>, bounds: &[usize]) -> Vec<usize> {
        let first = updates.keys.len() - updates.assigned;
        bounds.windows(2).map(|pair| pair[1].saturating_sub(pair[0].max(first))).collect()
    }

    /// Fills the shards, which hold nothing, with as many pairs each.
    pub(super) fn fill_evenly(
        &mut self,
        len: usize,
        write: &mut WritePairs<'_, B>,
    ) -> Result<(), Error> {
        let shards = self.count();
        if len == 0 {
            return Ok(());
        }
        self.balance.has_splitters = true;
        // Parts begin at certain multiples: only many of them can be divided evenly.
        if len >= 4 * shards * PAIRS_PER_PART {
            return self.fill_in_parts(len, write);
        }
        let width = self.value_width();
        let (mut keys, mut values) = (try_zeroed::<B>(len)?, ValueBuffer::new(len, width)?);
        for start in (0..len).step_by(PAIRS_PER_PART) {
            let end = len.min(start + PAIRS_PER_PART);
            write(
                start,
                &mut keys[start..end],
                &mut values.bytes_mut()[start * width..end * width],
            )?;
        }
        for index in 0..shards {
            let (first, end) = (len * index / shards, len * (index + 1) / shards);
            if index > 0 {
                self.splitters[index - 1] = keys[first];
            }
            let shard = &mut self.shards[index];
            let filled = shard.store.fill(end - first, &mut |start, some, bytes| {
                let start = first + start;
                some.copy_from_slice(&keys[start..start + some.len()]);
                let from = start * width;
                bytes.copy_from_slice(&values.bytes()[from..from + bytes.len()]);
                Ok(())
            });
            shard.named(filled)?;
        }
        Ok(())
    }

    fn fill_in_parts(&mut self, len: usize, write: &mut WritePairs<'_, B>) -> Result<(), Error> {
        let shards = self.count();
        let bound = |index: usize| match index == shards {
            true => len,
            false => len / shards * index / PAIRS_PER_PART * PAIRS_PER_PART,
        };
        for index in 0..shards {
            let (base, shard) = (bound(index), &mut self.shards[index]);
            let mut first = None;
            let filled = shard.store.fill(bound(index + 1) - base, &mut |start, keys, values| {
                write(base + start, keys, values)?;
                first = first.or(keys.first().copied());
                Ok(())
            });
            shard.named(filled)?;
            if index > 0 {
                self.splitters[index - 1] = first.expect("every shard has some of many parts");
            }
        }
        Ok(())
    }
}
