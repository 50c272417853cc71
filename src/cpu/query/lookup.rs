//! Looking keys up: newest run first, until one holds the key or, if the dictionary combines values, until
//! one holds an entry that combines with nothing older.

use crate::cpu::context::Cpu;
use crate::cpu::query::bounds::GROUP;
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::mark::Mark;
use crate::value::Value;

/// Finds whether each key is live.
pub(crate) fn contains<B: OrderedKey>(
    cpu: &Cpu,
    runs: &[Run<B>],
    keys: &[B],
    found: &mut [bool],
) -> Result<(), Error> {
    runs.iter().for_each(|run| run.build_filter_if_worth_it(cpu));
    let chunk = cpu.workers.chunk_len(keys.len());
    cpu.workers.each(keys.chunks(chunk).zip(found.chunks_mut(chunk)), |(keys, found)| {
        found.fill(false);
        find(runs, keys, |index, run, position| {
            found[index] = run.mark(position).is_live();
            true
        });
        Ok(())
    })
}

/// Finds whether each key is live, and its value, or 0 if it is not.
pub(crate) fn lookup<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B>],
    keys: &[B],
    values: &mut [V],
    found: &mut [bool],
) -> Result<(), Error> {
    runs.iter().for_each(|run| run.build_filter_if_worth_it(cpu));
    let chunk = cpu.workers.chunk_len(keys.len());
    let outputs = values.chunks_mut(chunk).zip(found.chunks_mut(chunk));
    let combine = cpu.combine_fn::<V>();
    cpu.workers.each(keys.chunks(chunk).zip(outputs), |(keys, (values, found))| {
        found.fill(false);
        values.fill(V::zeroed());
        match combine {
            None => {
                find(runs, keys, |index, run, position| {
                    found[index] = run.mark(position).is_live();
                    if found[index] {
                        values[index] = run.values()[position];
                    }
                    true
                });
            }
            Some(combine) => {
                find(runs, keys, |index, run, position| {
                    let mark = run.mark(position);
                    if mark.is_live() {
                        let value = run.values()[position];
                        let newer = std::mem::replace(&mut values[index], value);
                        if std::mem::replace(&mut found[index], true) {
                            values[index] = combine(value, newer);
                        }
                    }
                    mark != Mark::REPLACEMENT
                });
            }
        }
        Ok(())
    })
}

/// Calls `hit`, for every key that any run holds, with the key's index, the newest run that holds
/// it, and the position of the entry; and, as long as `hit` returns `false`, with the next older run that
/// holds the key.
fn find<'r, B: OrderedKey>(
    runs: &'r [Run<B>],
    keys: &[B],
    mut hit: impl FnMut(usize, &'r Run<B>, usize) -> bool,
) {
    let mut search = GroupSearch::default();
    for (group, keys) in keys.chunks(GROUP).enumerate() {
        search.start(keys, group * GROUP);
        for run in runs {
            search.search(run, &mut hit);
        }
    }
}

/// A search for a group of keys, run by run.
struct GroupSearch<B> {
    /// The first `left` are the keys that are still searched for.
    keys: [B; GROUP],
    /// The index of each key in the query.
    indices: [usize; GROUP],
    left: usize,
    positions: [usize; GROUP],
    /// Each key that the current run holds, with its index in the query and its position in the run.
    hits: [(B, usize, usize); GROUP],
}

impl<B: OrderedKey> Default for GroupSearch<B> {
    fn default() -> Self {
        GroupSearch {
            keys: [B::default(); GROUP],
            indices: [0; GROUP],
            left: 0,
            positions: [0; GROUP],
            hits: [(B::default(), 0, 0); GROUP],
        }
    }
}

impl<B: OrderedKey> GroupSearch<B> {
    /// Starts a search for at most [`GROUP`] keys, the first of which has this index in the query.
    fn start(&mut self, keys: &[B], first: usize) {
        self.keys[..keys.len()].copy_from_slice(keys);
        self.indices.iter_mut().enumerate().for_each(|(at, index)| *index = first + at);
        self.left = keys.len();
    }

    /// Searches the next run for the keys that are left.
    #[inline]
    fn search<'r>(
        &mut self,
        run: &'r Run<B>,
        hit: &mut impl FnMut(usize, &'r Run<B>, usize) -> bool,
    ) {
        let GroupSearch { keys, indices, left, positions, hits } = self;
        let searched = match run.filter() {
            Some(filter) => filter.partition(&mut keys[..*left], &mut indices[..*left]),
            None => *left,
        };
        run.lower_bounds(&keys[..searched], &mut positions[..searched]);
        // Separates hits from misses without a branch: misses remain at the front of `keys`.
        let (mut missed, mut found) = (0, 0);
        for at in 0..searched {
            let (key, index, position) = (keys[at], indices[at], positions[at]);
            let is_hit = run.has_key_at(position, key);
            if is_hit {
                run.prefetch_entry(position);
            }
            hits[found] = (key, index, position);
            found += usize::from(is_hit);
            (keys[missed], indices[missed]) = (key, index);
            missed += usize::from(!is_hit);
        }
        if run.filter().is_none() {
            run.add_misses(missed);
        }
        for &(key, index, position) in &hits[..found] {
            if !hit(index, run, position) {
                (keys[missed], indices[missed]) = (key, index);
                missed += 1;
            }
        }
        // Those that the filter rejected follow those that are still searched for.
        keys.copy_within(searched..*left, missed);
        indices.copy_within(searched..*left, missed);
        *left -= searched - missed;
    }
}
