//! Counting: two searches and two reads of running sums per run, however wide the range.

use crate::cpu::context::Cpu;
use crate::cpu::query::bounds::{Bound, GROUP, find_bounds, find_windows};
use crate::cpu::run::Run;
use crate::error::Error;
use crate::key::OrderedKey;

/// Returns the number of live keys.
#[inline]
pub(crate) fn len<B: OrderedKey>(runs: &[Run<B>]) -> u64 {
    rank_at(runs, runs.iter().map(Run::len))
}

/// Returns how many live keys lie before these positions, one in each run; all must be positions of
/// the same key.
#[inline]
pub(crate) fn rank_at<B: OrderedKey>(
    runs: &[Run<B>],
    positions: impl Iterator<Item = usize>,
) -> u64 {
    let sums = runs.iter().zip(positions).map(|(run, position)| run.sum_before(position));
    sums.sum::<i64>().cast_unsigned()
}

/// Counts the live keys of each closed range.
pub(crate) fn count<B: OrderedKey>(
    cpu: &Cpu,
    runs: &[Run<B>],
    lo: &[B],
    hi: &[B],
    counts: &mut [u64],
) -> Result<(), Error> {
    let chunk = cpu.workers.chunk_len(lo.len());
    let tasks = lo.chunks(chunk).zip(hi.chunks(chunk)).zip(counts.chunks_mut(chunk));
    cpu.workers.each(tasks, |((lo, hi), counts)| {
        let groups = lo.chunks(GROUP).zip(hi.chunks(GROUP)).zip(counts.chunks_mut(GROUP));
        for ((lo, hi), counts) in groups {
            count_group(runs, lo, hi, counts, |_, _, _| {});
        }
        Ok(())
    })
}

/// Counts the live keys of at most [`GROUP`] closed ranges. Calls `visit` for each run, with its
/// index and where the ranges begin and end in it.
#[inline]
pub(crate) fn count_group<B: OrderedKey>(
    runs: &[Run<B>],
    lo: &[B],
    hi: &[B],
    counts: &mut [u64],
    mut visit: impl FnMut(usize, &[usize], &[usize]),
) {
    let (mut starts, mut ends) = ([0; GROUP], [0; GROUP]);
    let (mut below, mut up_to) = ([0; GROUP], [0; GROUP]);
    for (index, run) in runs.iter().enumerate() {
        find_windows(run, lo, hi, &mut starts, &mut ends);
        visit(index, &starts[..lo.len()], &ends[..lo.len()]);
        run.add_sums(&starts[..lo.len()], &mut below);
        run.add_sums(&ends[..lo.len()], &mut up_to);
    }
    for (count, (below, up_to)) in counts.iter_mut().zip(below.iter().zip(&up_to)) {
        *count = (up_to - below) as u64;
    }
}

/// Counts the live keys less than each key.
pub(crate) fn rank<B: OrderedKey>(
    cpu: &Cpu,
    runs: &[Run<B>],
    keys: &[B],
    ranks: &mut [u64],
) -> Result<(), Error> {
    let chunk = cpu.workers.chunk_len(keys.len());
    cpu.workers.each(keys.chunks(chunk).zip(ranks.chunks_mut(chunk)), |(keys, ranks)| {
        for (keys, ranks) in keys.chunks(GROUP).zip(ranks.chunks_mut(GROUP)) {
            rank_group(runs, keys, ranks);
        }
        Ok(())
    })
}

/// Counts the live keys less than each of at most [`GROUP`] keys.
fn rank_group<B: OrderedKey>(runs: &[Run<B>], keys: &[B], ranks: &mut [u64]) {
    let mut positions = [0; GROUP];
    let mut sums = [0i64; GROUP];
    for run in runs {
        find_bounds(run, keys, Bound::Below, &mut positions);
        run.add_sums(&positions[..keys.len()], &mut sums);
    }
    for (rank, &sum) in ranks.iter_mut().zip(&sums) {
        *rank = sum as u64;
    }
}
