//! Shards that work at the same time.

use crate::workers::Workers;

/// Less work than this (updates or queries) is done by one thread: waking others takes longer.
pub(super) const MIN_WORK: usize = 1 << 13;

/// Does a job for each task, at the same time if there is enough work, and returns the results in order.
pub(super) fn at_once<T: Send, R: Send>(
    runners: &Workers,
    tasks: Vec<T>,
    work: usize,
    job: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    if tasks.len() <= 1 || work < MIN_WORK {
        return tasks.into_iter().map(job).collect();
    }
    runners.map(tasks, |task| Ok(job(task))).expect("no task fails")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_tasks() {
        for work in [0, MIN_WORK] {
            let runners = Workers::new(Some(3)).unwrap();
            let squares = at_once(&runners, (0..7u32).collect(), work, |task| task * task);
            assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36]);
        }
    }
}
