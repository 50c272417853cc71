//! Counting: two searches and two reads of running sums per run, however wide the range.

use crate::cpu::context::Cpu;
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::value::Value;

/// Queries that go through the runs together.
pub(crate) const GROUP: usize = 128;

/// How many keys are live in all.
pub(crate) fn len<B: OrderedKey, V: Value>(runs: &[Run<B, V>]) -> u64 {
    let sum: i64 = runs.iter().map(|run| run.sum_before(run.len())).sum();
    sum as u64
}

/// How many live keys each closed range has.
pub(crate) fn count<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    lo: &[B],
    hi: &[B],
    out: &mut [u64],
) -> Result<(), Error> {
    let piece = cpu.workers.piece(lo.len());
    let tasks = lo.chunks(piece).zip(hi.chunks(piece)).zip(out.chunks_mut(piece));
    cpu.workers.each(tasks, |((lo, hi), out)| {
        let groups = lo.chunks(GROUP).zip(hi.chunks(GROUP)).zip(out.chunks_mut(GROUP));
        for ((lo, hi), out) in groups {
            let (mut starts, mut ends) = ([0; GROUP], [0; GROUP]);
            let (mut below, mut up_to) = ([0; GROUP], [0; GROUP]);
            for run in runs {
                find_windows(run, lo, hi, &mut starts, &mut ends);
                run.add_sums(&starts[..lo.len()], &mut below);
                run.add_sums(&ends[..lo.len()], &mut up_to);
            }
            for (index, out) in out.iter_mut().enumerate() {
                *out = (up_to[index] - below[index]) as u64;
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Where each of at most [`GROUP`] closed ranges begins and ends in the run. Asks for the marks there.
pub(crate) fn find_windows<B: OrderedKey, V: Value>(
    run: &Run<B, V>,
    lo: &[B],
    hi: &[B],
    starts: &mut [usize; GROUP],
    ends: &mut [usize; GROUP],
) {
    let len = lo.len();
    // The end is where the next key begins; a range the wrong way round ends where it begins.
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

/// How many live keys are less than each key.
pub(crate) fn rank<B: OrderedKey, V: Value>(
    cpu: &Cpu,
    runs: &[Run<B, V>],
    keys: &[B],
    out: &mut [u64],
) -> Result<(), Error> {
    let piece = cpu.workers.piece(keys.len());
    cpu.workers.each(keys.chunks(piece).zip(out.chunks_mut(piece)), |(keys, out)| {
        for (keys, out) in keys.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
            ranks(runs, keys, out);
        }
        Ok(())
    })?;
    Ok(())
}

/// How many live keys are below each of at most [`GROUP`] keys.
fn ranks<B: OrderedKey, V: Value>(runs: &[Run<B, V>], keys: &[B], out: &mut [u64]) {
    let mut places = [0; GROUP];
    let mut sums = [0i64; GROUP];
    for run in runs {
        find_places(run, keys, Bound::Below, &mut places);
        run.add_sums(&places[..keys.len()], &mut sums);
    }
    for (out, &sum) in out.iter_mut().zip(&sums[..keys.len()]) {
        *out = sum as u64;
    }
}

/// Which entries are before a place: those with keys less than one, or those up to and including it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Below,
    UpTo,
}

/// How many of the run's entries are below, or up to, each of at most [`GROUP`] keys. Asks for the
/// marks there.
pub(crate) fn find_places<B: OrderedKey, V: Value>(
    run: &Run<B, V>,
    keys: &[B],
    bound: Bound,
    places: &mut [usize; GROUP],
) {
    let places = &mut places[..keys.len()];
    match bound {
        Bound::Below => run.lower_bounds(keys, places),
        Bound::UpTo => {
            let mut next = [B::default(); GROUP];
            for (next, &key) in next.iter_mut().zip(keys) {
                *next = key.next().unwrap_or(key);
            }
            run.lower_bounds(&next[..keys.len()], places);
            for (place, _) in places.iter_mut().zip(keys).filter(|(_, key)| **key == B::HIGHEST) {
                *place = run.len();
            }
        }
    }
    places.iter().for_each(|&place| run.prefetch_mark(place));
}
