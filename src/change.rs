//! One change of a store: what a call of the dictionary amounts to, and what a log records.

use crate::batch::Updates;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::ranges::RangeEnds;
use crate::store::AnyStore;

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
            Change::Batch(updates) => store.apply(updates).or_else(|error| {
                let keys = &updates.deletes;
                match updates.keys.is_empty() {
                    true => remove(store, &union(keys, keys), error),
                    false => Err(error),
                }
            }),
            Change::DeleteRanges(ranges) => {
                let doomed = union(&ranges.lo, &ranges.hi);
                store.delete_ranges(&doomed).or_else(|error| remove(store, &doomed, error))
            }
            Change::Clear => {
                store.clear();
                Ok(())
            }
        }
    }
}

/// Deletes every key of these ranges, where an error says that there is no memory for that: without tombstones.
fn remove<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    doomed: &RangeEnds<'_, B>,
    error: Error,
) -> Result<(), Error> {
    let Error::OutOfMemory { .. } = error else { return Err(error) };
    match store.prepare_removal(doomed) {
        Ok(change) => {
            store.commit(change);
            Ok(())
        }
        Err(Error::OutOfMemory { .. }) => Err(error),
        Err(other) => Err(other),
    }
}

/// Returns the union of closed ranges as ranges in ascending order that do not touch each other.
pub(crate) fn union<B: OrderedKey>(lo: &[B], hi: &[B]) -> RangeEnds<'static, B> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_to_delete_are_united_before_anything_is_gathered() {
        let lo = [5u32, 0, 9, 20, 21, 30];
        let hi = [7, 4, 3, 25, 22, u32::MAX];
        let united = union(&lo, &hi);
        assert_eq!((&*united.lo, &*united.hi), (&[0, 5, 20, 30][..], &[4, 7, 25, u32::MAX][..]));
    }
}
