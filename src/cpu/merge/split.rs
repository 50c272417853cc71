//! Splitting sorted lists of keys at the same keys: between threads, or between the steps of an
//! incremental merge. This sees keys only, so it is compiled once per key type, whatever the values.

use std::ops::Range;

use crate::key::OrderedKey;

/// Splits all lists at the same keys into parts of about equal length. Returns, for each part, the
/// range of every list.
pub(crate) fn split<B: OrderedKey>(lists: &[&[B]], parts: usize) -> Vec<Vec<Range<usize>>> {
    let total: usize = lists.iter().map(|keys| keys.len()).sum();
    let mut samples: Vec<B> = Vec::new();
    for keys in lists.iter().filter(|_| parts > 1) {
        samples.extend(keys.iter().step_by(keys.len() / (parts * 64) + 1));
    }
    samples.sort_unstable();
    let mut starts = vec![0; lists.len()];
    (1..=parts)
        .map(|part| {
            let goal = total / parts * part;
            let is_early = |&sample: &B| lower_bounds(lists, sample).iter().sum::<usize>() < goal;
            let ends = match samples.get(samples.partition_point(is_early)) {
                Some(&key) if part < parts => lower_bounds(lists, key),
                _ => lens(lists),
            };
            let starts = std::mem::replace(&mut starts, ends.clone());
            starts.into_iter().zip(ends).map(|(start, end)| start..end).collect()
        })
        .collect()
}

/// Returns the first entries of all lists up to one key: at least `goal` entries in all, or all
/// there are. There may be an eighth more than `goal`, and as many more as have the same key.
pub(crate) fn first_entries<B: OrderedKey>(lists: &[&[B]], goal: usize) -> Vec<Range<usize>> {
    // Before this key there are at least `goal` entries, and at most `goal` of any one list.
    let first = lists.iter().filter_map(|keys| keys.get(goal)).min();
    let mut ends = match first {
        Some(&key) => lower_bounds(lists, key),
        None => lens(lists),
    };
    // A binary search for the key. Before the starts there are always fewer than `goal` entries.
    let mut starts = vec![0; lists.len()];
    while ends.iter().sum::<usize>() > goal.saturating_add(goal / 8) {
        let widest = (0..lists.len()).max_by_key(|&at| ends[at] - starts[at]);
        let widest = widest.expect("there are entries");
        let Some(&pivot) =
            lists[widest][starts[widest]..ends[widest]].get((ends[widest] - starts[widest]) / 2)
        else {
            break; // No key is left between the starts and the ends.
        };
        let positions: Vec<usize> = (0..lists.len())
            .map(|at| {
                let window = &lists[at][starts[at]..ends[at]];
                starts[at] + window.partition_point(|&key| key < pivot)
            })
            .collect();
        if positions.iter().sum::<usize>() >= goal {
            ends = positions;
            continue;
        }
        // The next window begins after the pivot in every list.
        let has_pivot = |at: usize| usize::from(lists[at].get(positions[at]) == Some(&pivot));
        starts = (0..lists.len()).map(|at| positions[at] + has_pivot(at)).collect();
        if starts.iter().sum::<usize>() >= goal {
            ends = starts;
            break;
        }
    }
    ends.into_iter().map(|end| 0..end).collect()
}

/// Returns how many keys of each list are less than `key`.
#[inline]
fn lower_bounds<B: OrderedKey>(lists: &[&[B]], key: B) -> Vec<usize> {
    lists.iter().map(|keys| keys.partition_point(|&other| other < key)).collect()
}

fn lens<B>(lists: &[&[B]]) -> Vec<usize> {
    lists.iter().map(|keys| keys.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entries_are_as_many_as_wanted_and_hardly_more() {
        let long: Vec<u32> = (0..100_000).map(|i| i * 3).collect();
        let late: Vec<u32> = (0..5000).map(|i| 200_000 + i).collect();
        let same: Vec<u32> = (0..100).collect();
        let lists: [&[&[u32]]; 5] = [
            &[&long],
            &[&long, &late],
            &[&same, &same, &same],
            &[&late, &[], &same, &long],
            &[&[7]],
        ];
        for list in lists {
            let total: usize = list.iter().map(|keys| keys.len()).sum();
            for goal in [1, 2, 10, 99, 1000, 30_000, 105_000, usize::MAX / 2] {
                let first = first_entries(list, goal);
                let entries: usize = first.iter().map(|range| range.end).sum();
                assert!(entries >= goal.min(total), "{entries} of {total} for {goal}");
                assert!(entries <= goal + goal / 8 + list.len(), "{entries} for {goal}");
                let ranges = || first.iter().zip(list);
                let last = ranges().filter_map(|(range, keys)| keys[..range.end].last());
                let next = ranges().filter_map(|(range, keys)| keys.get(range.end));
                assert!(last.max() < next.min() || entries == total, "cut at one key");
            }
        }
    }
}
