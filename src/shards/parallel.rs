//! Shards that work at the same time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Less work than this (updates or queries) is done by one thread: starting others takes longer.
pub(super) const MIN_WORK: usize = 1 << 13;

/// Does a job for each task, at the same time if there is enough work, and returns the results in order.
pub(super) fn at_once<T: Send, R: Send>(
    tasks: Vec<T>,
    work: usize,
    job: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    if tasks.len() <= 1 || work < MIN_WORK {
        return tasks.into_iter().map(job).collect();
    }
    let threads = tasks.len();
    let results: Mutex<Vec<Option<R>>> = Mutex::new(tasks.iter().map(|_| None).collect());
    let tasks = Mutex::new(tasks.into_iter().enumerate());
    let take_part = || {
        loop {
            let next = lock(&tasks).next();
            let Some((index, task)) = next else { return };
            let result = job(task);
            lock(&results)[index] = Some(result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without it, the others have more to do.
            thread::Builder::new().spawn_scoped(scope, take_part).ok();
        }
        take_part();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| result.expect("every task is done")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_tasks() {
        for work in [0, MIN_WORK] {
            let squares = at_once((0..7u32).collect(), work, |task| task * task);
            assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36]);
        }
    }
}
