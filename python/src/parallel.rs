//! Work on arrays that is divided among the CPU's cores.

use std::ops::Range;
use std::thread;

/// The fewest elements that are worth a thread of their own.
const MIN_PER_THREAD: usize = 1 << 16;

/// Ranges that make up `0..len`, as many as are worth a thread each.
pub fn ranges(len: usize) -> Vec<Range<usize>> {
    let threads = match len / MIN_PER_THREAD {
        0 | 1 => 1,
        most => thread::available_parallelism().map_or(1, usize::from).min(most),
    };
    let share = len.div_ceil(threads);
    let range = |index: usize| (index * share).min(len)..((index + 1) * share).min(len);
    (0..threads).map(range).collect()
}

/// Calls `work` for each number below `count`, on a thread each.
pub fn each(count: usize, work: impl Fn(usize) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for number in 1..count {
            // The caller does what no thread can be started for.
            if thread::Builder::new().spawn_scoped(scope, move || work(number)).is_err() {
                work(number);
            }
        }
        work(0);
    });
}

/// Calls `work` for ranges that make up `0..len`, on as many threads as are worth it.
pub fn each_range(len: usize, work: impl Fn(Range<usize>) + Sync) {
    let ranges = ranges(len);
    each(ranges.len(), |number| work(ranges[number].clone()));
}
