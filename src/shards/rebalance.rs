//! Rebalancing: pairs at the border between two shards move from one to the other, no more than the update that it
//! follows has, or a batch.

use super::store::{Shard, Shards};
use crate::batch::Updates;
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;
use crate::query::Query;
use crate::ranges::RangeEnds;
use crate::store::{AnyStore, select_two};
use crate::value::ValueBuffer;

/// A shard with this many keys more than the others have on average is never too long.
const SLACK: u64 = 16;

/// Tenths of the average that a shard may have before pairs are moved…
const UNEVEN: u64 = 14;

/// …before they are counted, if entries are all that is known without…
const NEARLY_EVEN: u64 = 12;

/// …and afterwards.
const EVEN: u64 = 11;

/// Returns whether one of these is more than as many tenths of their average.
fn is_uneven(lens: &[u64], tenths: u64) -> bool {
    let mean = lens.iter().sum::<u64>() / lens.len() as u64;
    let most = lens.iter().copied().max().unwrap_or(0);
    most > mean + SLACK && most.saturating_mul(10) > mean.saturating_mul(tenths)
}

impl<B: OrderedKey> Shards<B> {
    /// Moves pairs between shards, if one has over 1.4 times as many as they have on average, until none has over 1.1 times:
    /// then none has over 1.5 times before they are compared again. One call moves at most as many over each border as it updates, or
    /// a batch if that is more. Without memory, nothing moves.
    pub(super) fn rebalance(&mut self, inserts: usize, deletes: usize) {
        self.balance.note(inserts, deletes);
        if !self.balance.is_due(self.batch_size, self.shards.len()) {
            return;
        }
        self.balance.unchecked = 0;
        if self.balance.must_count(self.batch_size, self.shards.len())
            || !self.have_about_as_many_entries()
        {
            self.balance.uncounted = 0;
            let step = (inserts + deletes).max(self.batch_size) as u64;
            self.balance.is_moving = self.try_rebalance(step).unwrap_or(false);
        }
    }

    /// Returns whether no shard has many more keys than others or, where it would have to wait to count them, entries, live
    /// or stale.
    fn have_about_as_many_entries(&self) -> bool {
        let entries = |shard: &Shard<B>| {
            let stats = shard.store.quick_stats()?;
            Some(stats.live.unwrap_or_else(|| stats.entries() + stats.buffered as u64))
        };
        let entries: Option<Vec<u64>> = self.shards.iter().map(entries).collect();
        entries.is_some_and(|entries| !is_uneven(&entries, NEARLY_EVEN))
    }

    /// Returns whether there is more to move.
    fn try_rebalance(&mut self, step: u64) -> Result<bool, Error> {
        let mut lens = self.lens()?;
        let (total, shards) = (lens.iter().sum::<u64>(), lens.len() as u64);
        self.balance.total = total;
        if !is_uneven(&lens, if self.balance.is_moving { EVEN } else { UNEVEN }) {
            return Ok(false);
        }
        let mut before = 0;
        for border in 1..lens.len() {
            before += lens[border - 1];
            let wanted = (u128::from(total) * border as u128 / u128::from(shards)) as u64;
            let count = before.abs_diff(wanted).min(step);
            let moved = self.move_over(border, &mut lens, count, before > wanted)?;
            before = if before > wanted { before - moved } else { before + moved };
        }
        Ok(true)
    }

    /// Moves up to `count` pairs over the border below a shard: upwards, or down from there.
    /// Returns how many.
    fn move_over(
        &mut self,
        border: usize,
        lens: &mut [u64],
        count: u64,
        is_upwards: bool,
    ) -> Result<u64, Error> {
        let (from, to) = if is_upwards { (border - 1, border) } else { (border, border - 1) };
        // The last key stays where others go down: it is the next splitter.
        let most = if is_upwards { lens[from] } else { lens[from].saturating_sub(1) };
        let count = count.min(most);
        if count == 0 {
            return Ok(0);
        }
        let keys_at = |indices| Ok(select_two(&*self.shards[from].store, indices)?.0);
        let (lo, hi, splitter) = match is_upwards {
            true => {
                let [lo, hi] = keys_at([lens[from] - count, lens[from] - 1])?;
                (lo, hi, lo)
            }
            false => {
                let [lo, splitter] = keys_at([0, count])?;
                (lo, splitter.previous().expect("it is not the least key"), splitter)
            }
        };
        self.move_pairs(from, to, (lo, hi), count as usize)?;
        self.splitters[border - 1] = splitter;
        lens[from] -= count;
        lens[to] += count;
        Ok(count)
    }

    /// Moves the pairs of a closed range, of which there are this many, from one shard to another, or fails and moves
    /// none.
    fn move_pairs(
        &mut self,
        from: usize,
        to: usize,
        (lo, hi): (B, B),
        count: usize,
    ) -> Result<(), Error> {
        let mut keys = try_zeroed(count)?;
        let mut values = ValueBuffer::new(count, self.value_width())?;
        let values_out = Some(values.bytes_mut());
        let (lo, hi) = (&[lo][..], &[hi][..]);
        let offsets = &mut [0; 2];
        let source = &self.shards[from].store;
        source.answer(Query::Range { lo, hi, offsets, keys: &mut keys, values: values_out })?;
        let inserted =
            self.shards[to].store.prepare(&Updates::sorted(keys.into(), values.bytes()))?;
        let ranges = RangeEnds { lo: lo.into(), hi: hi.into() };
        match self.shards[from].store.prepare_range_deletes(&ranges) {
            Ok(deleted) => {
                self.shards[to].store.commit(inserted);
                self.shards[from].store.commit(deleted);
                Ok(())
            }
            Err(error) => {
                self.shards[to].store.undo(inserted);
                Err(error)
            }
        }
    }
}
