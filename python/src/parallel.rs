//! Work on arrays that is divided among the CPU's cores.

use std::ops::Range;
use std::thread;

/// The fewest elements that are worth a thread of their own.
const MIN_PER_THREAD: usize = 1 << 16;

/// Calls `work` for ranges that make up `0..len`, on as many threads as are worth it.
pub fn each_range(len: usize, work: impl Fn(Range<usize>) + Sync) {
    let threads = match len / MIN_PER_THREAD {
        0 | 1 => return work(0..len),
        most => thread::available_parallelism().map_or(1, usize::from).min(most),
    };
    let share = len.div_ceil(threads);
    let range = |index: usize| (index * share).min(len)..((index + 1) * share).min(len);
    let (work, range) = (&work, &range);
    thread::scope(|scope| {
        for index in 1..threads {
            let helper = move || work(range(index));
            // The caller does what no thread can be started for.
            if thread::Builder::new().spawn_scoped(scope, helper).is_err() {
                work(range(index));
            }
        }
        work(range(0));
    });
}
