//! The threads that share the work of a call.

use std::sync::{Arc, Mutex, OnceLock};

use rayon::ThreadPool;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::error::Error;

/// Calls with less work than this (entries or queries) stay on the caller's thread: waking another
/// costs more than it saves.
const WORTH_SHARING: usize = 1 << 12;

/// More threads than this are taken for a mistake.
const MOST_THREADS: usize = 1024;

/// Worker threads: the process's own pool, or one for this dictionary alone.
#[derive(Clone)]
pub(crate) struct Workers {
    pool: Option<Arc<ThreadPool>>,
    threads: usize,
}

impl Workers {
    /// The process's pool, or `threads` threads of one's own.
    pub fn new(threads: Option<usize>) -> Result<Self, Error> {
        match threads {
            None => Ok(Workers { pool: None, threads: rayon::current_num_threads() }),
            Some(threads) if !(1..=MOST_THREADS).contains(&threads) => {
                let reason = format!("from 1 to {MOST_THREADS} are allowed");
                Err(Error::Threads { threads, reason })
            }
            Some(1) => Ok(Workers { pool: None, threads: 1 }),
            Some(threads) => {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .thread_name(|index| format!("gpulsm-{index}"))
                    .build()
                    .map_err(|error| Error::Threads { threads, reason: error.to_string() })?;
                Ok(Workers { pool: Some(Arc::new(pool)), threads })
            }
        }
    }

    /// Into how many equal parts work of this size is best cut.
    pub fn parts(&self, work: usize) -> usize {
        if work < WORTH_SHARING { 1 } else { self.threads }
    }

    /// How long the pieces of a batch of queries should be: a few for each thread, to even out.
    pub fn piece(&self, queries: usize) -> usize {
        if self.parts(queries) == 1 {
            return queries.max(1);
        }
        queries.div_ceil(self.threads * 8).clamp(512, 1 << 14)
    }

    /// Does every task, side by side if there is more than one; the results are in order.
    pub fn each<T, R>(
        &self,
        tasks: impl IntoIterator<Item = T>,
        work: impl Fn(T) -> Result<R, Error> + Sync + Send,
    ) -> Result<Vec<R>, Error>
    where
        T: Send,
        R: Send + Sync,
    {
        let tasks: Vec<T> = tasks.into_iter().collect();
        if tasks.len() <= 1 || self.threads == 1 {
            return tasks.into_iter().map(work).collect();
        }
        let tasks: Vec<Mutex<Option<T>>> =
            tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
        let results: Vec<OnceLock<Result<R, Error>>> =
            tasks.iter().map(|_| OnceLock::new()).collect();
        self.share(tasks.len(), &|index| {
            // Each index comes once: no lock is ever waited for, no result set twice.
            let task = tasks[index].lock().expect("nobody panics with a lock held").take();
            results[index].get_or_init(|| work(task.expect("each index comes once")));
        });
        results.into_iter().map(|result| result.into_inner().expect("every task is done")).collect()
    }

    /// Calls `work` with every index below `count`, side by side. Not generic, so that the pool's
    /// machinery is compiled once and not for every step of every type.
    fn share(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let share = || (0..count).into_par_iter().with_max_len(1).for_each(work);
        match &self.pool {
            Some(pool) => pool.install(share),
            None => share(),
        }
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads", self.threads)
    }
}

/// Cuts `slice` into pieces of the given lengths.
pub(crate) fn cut<T>(
    mut slice: &mut [T],
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<&mut [T]> {
    lengths
        .into_iter()
        .map(|len| slice.split_off_mut(..len).expect("lengths add up to at most the slice's"))
        .collect()
}
