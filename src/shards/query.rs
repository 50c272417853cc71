//! Queries: each goes to the shards that know the answer, and the answers come back in the order of the questions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::parallel::at_once;
use super::partition::{Partition, shard_of};
use super::pieces::{Pieces, cut_ranges};
use super::store::{Shard, Shards};
use crate::aggregate::Fold;
use crate::error::{Error, try_with_capacity, try_zeroed};
use crate::key::OrderedKey;
use crate::query::{AsOf, KeyColumns, PairsOut, Query, Side};
use crate::store::{AnyStore, select_two};
use crate::value::ValueBuffer;
use crate::workers::cut;

/// A pair at the end of a shard.
struct EndPair<B> {
    key: B,
    value: Vec<u8>,
}

impl<B: OrderedKey> Shards<B> {
    /// Answers a query with each shard at work on its part of it.
    pub(super) fn answer_at_once(&self, query: Query<'_, B>) -> Result<(), Error> {
        match query {
            Query::Lookup { keys, values, found } => self.look_up(keys, values, found),
            Query::Count { lo, hi, counts } => self.count_keys(lo, hi, counts),
            Query::Rank { keys, ranks } => self.rank(keys, ranks),
            Query::RangeOffsets { lo, hi, offsets } => {
                self.count_keys(lo, hi, &mut offsets[1..])?;
                add_up(offsets);
                Ok(())
            }
            Query::Range { lo, hi, offsets, keys, values } => {
                self.list(lo, hi, offsets, keys, values)
            }
            Query::Aggregate { lo, hi, fold, answers, counts } => {
                self.aggregate(lo, hi, fold, answers, counts)
            }
            Query::Select { indices, pairs } => self.select(indices, pairs),
            Query::Nearest { side, keys, pairs } => {
                let asof = AsOf::beside(side, B::BITS, false);
                self.find_nearest(asof, keys, pairs, |keys, pairs| Query::Nearest {
                    side,
                    keys,
                    pairs,
                })
            }
            Query::AsOf { asof, keys, pairs } => {
                self.find_nearest(asof, keys, pairs, |keys, pairs| Query::AsOf {
                    asof,
                    keys,
                    pairs,
                })
            }
            Query::AsOfColumns { asof, columns, values, found } => {
                self.find_in_columns(asof, columns, values, found)
            }
        }
    }

    /// Asks the shards about their parts of a partition, at the same time.
    pub fn ask<T: Send>(
        &self,
        work: usize,
        tasks: impl Iterator<Item = (usize, T)>,
        ask: impl Fn(&dyn AnyStore<B>, T) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let tasks = tasks.map(|(shard, task)| (&self.shards[shard], task)).collect();
        let answered = at_once(&self.runners, tasks, work, |(shard, task): (&Shard<B>, T)| {
            shard.named(ask(&*shard.store, task))
        });
        answered.into_iter().collect()
    }

    fn look_up(
        &self,
        keys: &[B],
        values: Option<&mut [u8]>,
        found: &mut [bool],
    ) -> Result<(), Error> {
        let partition = Partition::new(keys, &self.splitters, &self.workers)?;
        if let Some(only) = partition.only_shard() {
            let shard = &self.shards[only];
            return shard.named(shard.store.answer(Query::Lookup { keys, values, found }));
        }
        let width = if values.is_some() { self.value_width() } else { 0 };
        let grouped_keys = grouped(&partition, keys)?;
        let mut grouped_values = ValueBuffer::new(keys.len(), width)?;
        let mut grouped_found = try_zeroed::<bool>(keys.len())?;
        let parts = cut(grouped_values.bytes_mut(), partition.lens().map(|len| len * width))
            .into_iter()
            .zip(cut(&mut grouped_found, partition.lens()))
            .enumerate();
        let tasks = parts.map(|(shard, (values, found))| {
            (shard, (&grouped_keys[partition.range(shard)], values, found))
        });
        let has_values = values.is_some();
        let nonempty = tasks.filter(|(_, (keys, ..))| !keys.is_empty());
        self.ask(keys.len(), nonempty, |store, (keys, values, found)| {
            store.answer(Query::Lookup { keys, values: has_values.then_some(values), found })
        })?;
        let grouped = (&grouped_found[..], grouped_values.bytes());
        partition.ungroup_pairs(grouped, width, (found, values.unwrap_or_default()))
    }

    fn rank(&self, keys: &[B], ranks: &mut [u64]) -> Result<(), Error> {
        let partition = Partition::new(keys, &self.splitters, &self.workers)?;
        let before = starts(&self.lens()?);
        let grouped_keys = grouped(&partition, keys)?;
        let mut grouped_ranks = try_zeroed::<u64>(keys.len())?;
        let parts = cut(&mut grouped_ranks, partition.lens()).into_iter().enumerate();
        let tasks = parts.map(|(shard, ranks)| {
            (shard, (&grouped_keys[partition.range(shard)], ranks, before[shard]))
        });
        let nonempty = tasks.filter(|(_, (keys, ..))| !keys.is_empty());
        self.ask(keys.len(), nonempty, |store, (keys, ranks, before)| {
            store.answer(Query::Rank { keys, ranks: &mut *ranks })?;
            ranks.iter_mut().for_each(|rank| *rank += before);
            Ok(())
        })?;
        partition.ungroup(&grouped_ranks, ranks)
    }

    fn count_keys(&self, lo: &[B], hi: &[B], counts: &mut [u64]) -> Result<(), Error> {
        let shards = cut_ranges(lo, hi, &self.splitters, &self.workers)?;
        let counted = self.count_pieces(&shards)?;
        add_counts(&shards, &counted, counts);
        Ok(())
    }

    /// Returns how many keys each piece has.
    fn count_pieces(&self, shards: &[Pieces<B>]) -> Result<Vec<Vec<u64>>, Error> {
        let work = shards.iter().map(Pieces::len).sum();
        let mut counted = Vec::new();
        for pieces in shards {
            counted.push(try_zeroed::<u64>(pieces.len())?);
        }
        let tasks = shards.iter().zip(&mut counted).enumerate();
        let nonempty = tasks.filter(|(_, (pieces, _))| pieces.len() > 0);
        self.ask(work, nonempty, |store, (pieces, counts)| {
            store.answer(Query::Count { lo: &pieces.lo, hi: &pieces.hi, counts })
        })?;
        Ok(counted)
    }

    /// Lists the pairs of ranges: in place, if those of each shard are together; otherwise shard by shard, and then in order.
    fn list(
        &self,
        lo: &[B],
        hi: &[B],
        offsets: &mut [u64],
        keys: &mut [B],
        values: Option<&mut [u8]>,
    ) -> Result<(), Error> {
        let shards = cut_ranges(lo, hi, &self.splitters, &self.workers)?;
        let counted = self.count_pieces(&shards)?;
        add_counts(&shards, &counted, &mut offsets[1..]);
        add_up(offsets);
        let total = offsets[lo.len()] as usize;
        if keys.len() < total {
            return Ok(());
        }
        let width = if values.is_some() { self.value_width() } else { 0 };
        let values = values.unwrap_or_default();
        let (keys, values) = (&mut keys[..total], &mut values[..total * width]);
        let lens: Vec<usize> =
            counted.iter().map(|counts| counts.iter().sum::<u64>() as usize).collect();
        let mut nonempty = shards.iter().filter(|pieces| pieces.len() > 0);
        let is_ordered = match nonempty.next() {
            Some(first) => nonempty
                .try_fold(first, |last, next| {
                    (last.ranges.last() <= next.ranges.first()).then_some(next)
                })
                .is_some(),
            None => true,
        };
        if is_ordered {
            return self.list_pieces(&shards, &lens, keys, values, width);
        }
        let mut listed_keys = try_zeroed::<B>(total)?;
        let mut listed_values = ValueBuffer::new(total, width)?;
        self.list_pieces(&shards, &lens, &mut listed_keys, listed_values.bytes_mut(), width)?;
        let mut next = try_with_capacity(lo.len())?;
        next.extend_from_slice(&offsets[..lo.len()]);
        let mut from = 0;
        for (pieces, counts) in shards.iter().zip(&counted) {
            for (&range, &count) in pieces.ranges.iter().zip(counts) {
                let (to, count) = (next[range] as usize, count as usize);
                keys[to..to + count].copy_from_slice(&listed_keys[from..from + count]);
                values[to * width..(to + count) * width]
                    .copy_from_slice(&listed_values.bytes()[from * width..(from + count) * width]);
                next[range] += count as u64;
                from += count;
            }
        }
        Ok(())
    }

    /// Lists the pairs of all pieces of one shard after those of another.
    fn list_pieces(
        &self,
        shards: &[Pieces<B>],
        lens: &[usize],
        keys: &mut [B],
        values: &mut [u8],
        width: usize,
    ) -> Result<(), Error> {
        let work = keys.len();
        let parts = cut(keys, lens.iter().copied())
            .into_iter()
            .zip(cut(values, lens.iter().map(|len| len * width)));
        let tasks = shards.iter().zip(parts).enumerate();
        let nonempty = tasks.filter(|(_, (_, (keys, _)))| !keys.is_empty());
        self.ask(work, nonempty, |store, (pieces, (keys, values))| {
            let mut offsets = try_zeroed(pieces.len() + 1)?;
            store.answer(Query::Range {
                lo: &pieces.lo,
                hi: &pieces.hi,
                offsets: &mut offsets,
                keys,
                values: (width > 0).then_some(values),
            })
        })
    }

    fn aggregate(
        &self,
        lo: &[B],
        hi: &[B],
        fold: Fold,
        answers: &mut [u8],
        counts: &mut [u64],
    ) -> Result<(), Error> {
        let shards = cut_ranges(lo, hi, &self.splitters, &self.workers)?;
        let width = fold.answer_width(self.value_width());
        let mut folded = Vec::new();
        for pieces in &shards {
            folded.push((ValueBuffer::new(pieces.len(), width)?, try_zeroed::<u64>(pieces.len())?));
        }
        let tasks = shards.iter().zip(&mut folded).enumerate();
        let nonempty = tasks.filter(|(_, (pieces, _))| pieces.len() > 0);
        self.ask(lo.len(), nonempty, |store, (pieces, (answers, counts))| {
            let (lo, hi) = (&pieces.lo[..], &pieces.hi[..]);
            store.answer(Query::Aggregate { lo, hi, fold, answers: answers.bytes_mut(), counts })
        })?;
        answers.fill(0);
        counts.fill(0);
        for (pieces, (folded, folded_counts)) in shards.iter().zip(&folded) {
            let folded = folded.bytes().chunks_exact(width.max(1)).zip(folded_counts);
            for (&range, (part, &count)) in pieces.ranges.iter().zip(folded) {
                let answer = &mut answers[range * width..(range + 1) * width];
                match (counts[range], count) {
                    (_, 0) => {}
                    (0, _) => answer.copy_from_slice(part),
                    _ => fold.combine(answer, part),
                }
                counts[range] += count;
            }
        }
        Ok(())
    }

    fn select(&self, indices: &[u64], pairs: PairsOut<'_, B>) -> Result<(), Error> {
        let before = starts(&self.lens()?);
        let partition = Partition::new(indices, &before[1..], &self.workers)?;
        let grouped = grouped(&partition, indices)?;
        self.ask_for_pairs(&partition, pairs, |store, shard, range, pairs| {
            let mut indices = try_with_capacity(range.len())?;
            indices.extend(grouped[range].iter().map(|index| index - before[shard]));
            store.answer(Query::Select { indices: &indices, pairs })
        })
    }

    /// Asks each shard for the pairs that answer the questions of its part of a partition.
    fn ask_for_pairs(
        &self,
        partition: &Partition<'_>,
        pairs: PairsOut<'_, B>,
        ask: impl Fn(&dyn AnyStore<B>, usize, Range<usize>, PairsOut<'_, B>) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let (len, width) = (pairs.found.len(), self.value_width());
        if let Some(only) = partition.only_shard() {
            let shard = &self.shards[only];
            return shard.named(ask(&*shard.store, only, 0..len, pairs));
        }
        let (mut keys, mut found) = (try_zeroed::<B>(len)?, try_zeroed::<bool>(len)?);
        let mut values = ValueBuffer::new(len, width)?;
        let parts = cut(&mut keys, partition.lens())
            .into_iter()
            .zip(cut(values.bytes_mut(), partition.lens().map(|len| len * width)))
            .zip(cut(&mut found, partition.lens()))
            .map(|((keys, values), found)| PairsOut { keys, values, found });
        let tasks = parts.enumerate().map(|(shard, pairs)| (shard, (shard, pairs)));
        let nonempty = tasks.filter(|(_, (_, pairs))| !pairs.found.is_empty());
        self.ask(len, nonempty, |store, (shard, pairs)| {
            ask(store, shard, partition.range(shard), pairs)
        })?;
        let to = (pairs.keys, pairs.values);
        partition.ungroup_pairs((&keys, values.bytes()), width, to)?;
        partition.ungroup(&found, pairs.found)
    }

    /// Finds the pairs nearest to keys: in their own shard, or at the ends of the next ones that are not empty.
    fn find_nearest(
        &self,
        asof: AsOf,
        keys: &[B],
        mut pairs: PairsOut<'_, B>,
        query: impl for<'q> Fn(&'q [B], PairsOut<'q, B>) -> Query<'q, B> + Sync,
    ) -> Result<(), Error> {
        let partition = Partition::new(keys, &self.splitters, &self.workers)?;
        let grouped = grouped(&partition, keys)?;
        self.ask_for_pairs(&partition, pairs.reborrow(), |store, _, range, pairs| {
            store.answer(query(&grouped[range], pairs))
        })?;
        let has_two_sides = asof.includes(Side::Successor) && asof.includes(Side::Predecessor);
        if !has_two_sides && pairs.found.iter().all(|&found| found) {
            return Ok(());
        }
        let ends = self.end_pairs()?;
        let width = self.value_width();
        for (index, &key) in keys.iter().enumerate() {
            if pairs.found[index] && !has_two_sides {
                continue;
            }
            let shard = shard_of(&self.splitters, &key);
            let own = pairs.found[index].then_some(pairs.keys[index]);
            if let Some(pair) = nearer(asof, key, own, &ends, shard) {
                pairs.keys[index] = pair.key;
                pairs.values[index * width..(index + 1) * width].copy_from_slice(&pair.value);
                pairs.found[index] = true;
            }
        }
        Ok(())
    }

    fn find_in_columns(
        &self,
        asof: AsOf,
        columns: &dyn KeyColumns<B>,
        values: &mut [u8],
        found: &mut [bool],
    ) -> Result<(), Error> {
        let rows = 0..found.len();
        let (mut keys, mut answers) = (try_zeroed::<B>(rows.len())?, try_zeroed::<B>(rows.len())?);
        columns.pack_questions(&rows, &mut keys);
        let pairs = PairsOut { keys: &mut answers, values, found: &mut *found };
        self.answer_at_once(Query::AsOf { asof, keys: &keys, pairs })?;
        columns.unpack_answers(&rows, &answers, found);
        Ok(())
    }

    /// Returns the first and the last pair of each shard; `None` for an empty one.
    fn end_pairs(&self) -> Result<Vec<Option<[EndPair<B>; 2]>>, Error> {
        let lens = self.lens()?;
        let ends = self.shards.iter().zip(lens).map(|(shard, len)| {
            if len == 0 {
                return Ok(None);
            }
            let (keys, values) = shard.named(select_two(&*shard.store, [0, len - 1]))?;
            let (first, last) = values.bytes().split_at(self.value_width());
            Ok(Some(
                [(keys[0], first), (keys[1], last)]
                    .map(|(key, value)| EndPair { key, value: value.to_vec() }),
            ))
        });
        ends.collect()
    }
}

/// Returns the pair at the end of another shard that answers a question better than its own shard's answer.
fn nearer<B: OrderedKey>(
    asof: AsOf,
    question: B,
    own: Option<B>,
    ends: &[Option<[EndPair<B>; 2]>],
    shard: usize,
) -> Option<&EndPair<B>> {
    let wide = question.widen();
    let accepts = |pair: &&EndPair<B>| asof.accepts(wide, pair.key.widen());
    // Where the own shard has a key on one side, whether or not it answers, none of another is nearer.
    let is_own =
        |key: B, side: Ordering| key.cmp(&question) == side || key == question && !asof.is_strict;
    let (has_before, has_after) = ends[shard].as_ref().map_or((false, false), |[first, last]| {
        (is_own(first.key, Ordering::Less), is_own(last.key, Ordering::Greater))
    });
    let before = ends[..shard].iter().rev().flatten().map(|[_, last]| last).next();
    let before = before.filter(|_| asof.includes(Side::Predecessor) && !has_before).filter(accepts);
    let after = ends[shard + 1..].iter().flatten().map(|[first, _]| first).next();
    let after = after.filter(|_| asof.includes(Side::Successor) && !has_after).filter(accepts);
    let prefers_after =
        |before: B, after: B| asof.prefers_after(wide, before.widen(), after.widen());
    match own {
        Some(own) if own <= question => after.filter(|after| prefers_after(own, after.key)),
        Some(own) => before.filter(|before| !prefers_after(before.key, own)),
        None => match (before, after) {
            (Some(before), Some(after)) if prefers_after(before.key, after.key) => Some(after),
            (None, after) => after,
            (before, _) => before,
        },
    }
}

/// Returns items, one for each key of a partition, with those of each shard together.
fn grouped<'a, T: Copy + Send + Sync + bytemuck::Zeroable>(
    partition: &Partition<'_>,
    items: &'a [T],
) -> Result<Cow<'a, [T]>, Error> {
    if partition.only_shard().is_some() {
        return Ok(items.into());
    }
    let mut grouped = try_zeroed(items.len())?;
    partition.group(items, &mut grouped)?;
    Ok(grouped.into())
}

/// Returns how many keys there are before each shard.
fn starts(lens: &[u64]) -> Vec<u64> {
    let mut sum = 0;
    let start_of = |len: &u64| {
        sum += len;
        sum - len
    };
    lens.iter().map(start_of).collect()
}

/// Adds up how many keys the pieces of each range have.
fn add_counts<B>(shards: &[Pieces<B>], counted: &[Vec<u64>], counts: &mut [u64]) {
    counts.fill(0);
    for (pieces, piece_counts) in shards.iter().zip(counted) {
        let of_ranges = pieces.ranges.iter().zip(piece_counts);
        of_ranges.for_each(|(&range, count)| counts[range] += count);
    }
}

/// Makes offsets of counts, each at the index after its range's.
fn add_up(offsets: &mut [u64]) {
    offsets[0] = 0;
    for index in 1..offsets.len() {
        offsets[index] += offsets[index - 1];
    }
}
