//! One change of a store: what a call of the dictionary amounts to, and what a log records.

use crate::batch::Updates;
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;
use crate::query::Query;
use crate::ranges::RangeEnds;
use crate::store::AnyStore;
use crate::value::ValueBuffer;

/// A change that is applied as a whole or not at all.
pub(crate) enum Change<'a, B: OrderedKey> {
    /// Inserts and deletes.
    Batch(&'a Updates<'a, B>),
    /// Deletes every key of these ranges.
    DeleteRanges(&'a RangeEnds<'a, B>),
    /// Deletes everything.
    Clear,
}

impl<B: OrderedKey> Change<'_, B> {
    /// Returns whether it changes nothing, whatever the store contains.
    pub fn is_empty(&self) -> bool {
        match self {
            Change::Batch(updates) => updates.len() == 0,
            Change::DeleteRanges(ranges) => ranges.len() == 0,
            Change::Clear => false,
        }
    }

    /// Changes a store.
    pub fn apply(&self, store: &mut dyn AnyStore<B>) -> Result<(), Error> {
        match self {
            Change::Batch(updates) => store.apply(updates),
            Change::DeleteRanges(ranges) => delete_all(store, ranges),
            Change::Clear => {
                store.clear();
                Ok(())
            }
        }
    }
}

/// Deletes every key of these ranges. If there is no memory for the deletes, but more pairs go than stay, those
/// that stay are stored anew.
fn delete_all<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    ranges: &RangeEnds<'_, B>,
) -> Result<(), Error> {
    let doomed = union(&ranges.lo, &ranges.hi);
    match store.delete_ranges(&doomed) {
        Err(error @ Error::OutOfMemory { .. }) => {
            keep(store, &complement(&doomed)).and_then(|kept| kept.then_some(()).ok_or(error))
        }
        outcome => outcome,
    }
}

/// Keeps only the pairs of these ranges, which are in ascending order, if they are at most half of all;
/// returns whether they are.
fn keep<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    ranges: &RangeEnds<'_, B>,
) -> Result<bool, Error> {
    let (lo, hi) = (&*ranges.lo, &*ranges.hi);
    let mut offsets = try_zeroed(lo.len() + 1)?;
    store.answer(Query::RangeOffsets { lo, hi, offsets: &mut offsets })?;
    let kept = offsets[lo.len()];
    if kept > store.len()? / 2 {
        return Ok(false);
    }
    let mut keys = try_zeroed(kept as usize)?;
    let mut values = ValueBuffer::new(kept as usize, store.value_width())?;
    let pairs = Query::Range {
        lo,
        hi,
        offsets: &mut offsets,
        keys: &mut keys,
        values: Some(values.bytes_mut()),
    };
    store.answer(pairs)?;
    store.replace(&Updates::sorted(keys.into(), values.bytes()))?;
    Ok(true)
}

/// Returns the union of closed ranges as ranges in ascending order that do not touch each other.
fn union<B: OrderedKey>(lo: &[B], hi: &[B]) -> RangeEnds<'static, B> {
    let mut ranges: Vec<(B, B)> = lo.iter().copied().zip(hi.iter().copied()).collect();
    ranges.retain(|(lo, hi)| lo <= hi);
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let meet = next.0 <= last.1;
        last.1 = if meet { last.1.max(next.1) } else { last.1 };
        meet
    });
    let (lo, hi): (Vec<B>, Vec<B>) = ranges.into_iter().unzip();
    RangeEnds { lo: lo.into(), hi: hi.into() }
}

/// Returns the closed ranges between ranges that are in ascending order and do not touch each other.
fn complement<B: OrderedKey>(ranges: &RangeEnds<'_, B>) -> RangeEnds<'static, B> {
    let (mut lo, mut hi) = (vec![B::LOWEST], Vec::new());
    for (&first, &last) in ranges.lo.iter().zip(ranges.hi.iter()) {
        match first.previous() {
            Some(previous) => hi.push(previous),
            None => {
                lo.pop();
            }
        }
        lo.extend(last.next());
    }
    hi.resize(lo.len(), B::HIGHEST);
    RangeEnds { lo: lo.into(), hi: hi.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_to_delete_are_united_before_anything_is_gathered() {
        let lo = [5u32, 0, 9, 20, 21, 30];
        let hi = [7, 4, 3, 25, 22, u32::MAX];
        let united = union(&lo, &hi);
        assert_eq!((&*united.lo, &*united.hi), (&[0, 5, 20, 30][..], &[4, 7, 25, u32::MAX][..]));
        let between = complement(&united);
        assert_eq!((&*between.lo, &*between.hi), (&[5, 8, 26][..], &[4, 19, 29][..]));
    }

    #[test]
    fn what_is_not_deleted_is_kept() {
        let max = u32::MAX;
        for (lo, hi, kept) in [
            (vec![], vec![], vec![(0, max)]),
            (vec![0], vec![max], vec![]),
            (vec![0], vec![9], vec![(10, max)]),
            (vec![9], vec![max], vec![(0, 8)]),
            (vec![0, 5], vec![2, 6], vec![(3, 4), (7, max)]),
        ] {
            let between = complement(&union(&lo, &hi));
            let between: Vec<(u32, u32)> =
                between.lo.iter().copied().zip(between.hi.iter().copied()).collect();
            assert_eq!(between, kept);
        }
    }
}
