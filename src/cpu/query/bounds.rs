//! Where the bounds of queries lie in a run.

use crate::cpu::run::Run;
use crate::key::OrderedKey;

/// Queries that are searched for together.
pub(crate) const GROUP: usize = 128;

/// Which entries lie before a bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Those with a key less than the given one.
    Below,
    /// Those with a key less than or equal to the given one.
    UpTo,
}

/// Finds, for each of at most [`GROUP`] keys, the number of the run's entries before its bound, and
/// prefetches the marks there.
pub(crate) fn find_bounds<B: OrderedKey>(
    run: &Run<B>,
    keys: &[B],
    bound: Bound,
    positions: &mut [usize; GROUP],
) {
    let positions = &mut positions[..keys.len()];
    match bound {
        Bound::Below => run.lower_bounds(keys, positions),
        Bound::UpTo => {
            let mut next = [B::default(); GROUP];
            for (next, &key) in next.iter_mut().zip(keys) {
                *next = key.next().unwrap_or(key);
            }
            run.lower_bounds(&next[..keys.len()], positions);
            for (position, &key) in positions.iter_mut().zip(keys) {
                if key == B::HIGHEST {
                    *position = run.len();
                }
            }
        }
    }
    positions.iter().for_each(|&position| run.prefetch_mark(position));
}

/// Finds where each of at most [`GROUP`] closed ranges begins and ends in the run, and prefetches
/// the marks there. A range with `lo > hi` is empty.
pub(crate) fn find_windows<B: OrderedKey>(
    run: &Run<B>,
    lo: &[B],
    hi: &[B],
    starts: &mut [usize; GROUP],
    ends: &mut [usize; GROUP],
) {
    let len = lo.len();
    // A range ends where the key after `hi` begins.
    let mut past = [B::default(); GROUP];
    for (past, (&lo, &hi)) in past.iter_mut().zip(lo.iter().zip(hi)) {
        *past = hi.next().unwrap_or(hi).max(lo);
    }
    run.bounds_of_ranges((lo, &past[..len]), &mut starts[..len], &mut ends[..len]);
    for (index, &hi) in hi.iter().enumerate() {
        if hi == B::HIGHEST {
            ends[index] = run.len();
        }
        run.prefetch_mark(starts[index]);
        run.prefetch_mark(ends[index]);
    }
}
