//! The threads that share the work of a call.
//!
//! They are never those of rayon's global pool, and a thread that waits for them does nothing else
//! meanwhile. A rayon worker that waits for work, even of another pool, picks up other tasks of its own
//! pool; if it holds a lock that one of those wants, it waits for itself. So a caller may hold any lock,
//! in any kind of thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::ThreadPool;

use crate::error::Error;

/// Calls with less work than this (entries or queries) stay on the caller's thread: waking another
/// costs more than it saves.
const WORTH_SHARING: usize = 1 << 12;

/// More threads than this are taken for a mistake.
const MOST_THREADS: usize = 1024;

/// Worker threads: those that all dictionaries of the process share, or some for this one alone.
#[derive(Clone)]
pub(crate) struct Workers {
    /// `None` where the caller's thread does everything.
    pool: Option<Arc<ThreadPool>>,
}

impl Workers {
    /// The threads that all dictionaries share, or `threads` threads of one's own.
    pub fn new(threads: Option<usize>) -> Result<Self, Error> {
        let pool = match threads {
            None => Some(shared_pool()?),
            Some(threads) if !(1..=MOST_THREADS).contains(&threads) => {
                let reason = format!("from 1 to {MOST_THREADS} are allowed");
                return Err(Error::Threads { threads, reason });
            }
            Some(1) => None,
            Some(threads) => Some(Arc::new(new_pool(threads)?)),
        };
        Ok(Workers { pool })
    }

    /// How many threads work at a time.
    pub fn most(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Into how many equal parts work of this size is best cut.
    pub fn parts(&self, work: usize) -> usize {
        if work < WORTH_SHARING { 1 } else { self.most() }
    }

    /// How long the pieces of a batch of queries should be: a few for each thread, to even out.
    pub fn piece(&self, queries: usize) -> usize {
        if self.parts(queries) == 1 {
            return queries.max(1);
        }
        queries.div_ceil(self.most() * 8).clamp(512, 1 << 14)
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
        if tasks.len() <= 1 || self.most() == 1 {
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
        let next = AtomicUsize::new(0);
        let work_on = || {
            let indices = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            indices.take_while(|&index| index < count).for_each(work);
        };
        let Some(pool) = &self.pool else { return work_on() };
        if pool.current_thread_index().is_some() {
            return work_on(); // One of the pool's own: it must not wait for the others.
        }
        // The caller works, too. Jobs of the pool never wait for anything: a worker that did would begin jobs
        // of other callers meanwhile, on top of its stack, and finish none before the last.
        let helpers = self.most().min(count) - 1;
        let share = || {
            pool.in_place_scope(|scope| {
                (0..helpers).for_each(|_| scope.spawn(|_| work_on()));
                work_on();
            });
        };
        if rayon::current_thread_index().is_none() {
            return share();
        }
        // A worker of another pool, which would begin that pool's tasks while it waits: it waits for a
        // thread that waits in its place. If there is none to be had, it does all by itself.
        std::thread::scope(|scope| {
            let stand_in = std::thread::Builder::new().spawn_scoped(scope, share);
            match stand_in.map(|stand_in| stand_in.join()) {
                Ok(Ok(())) => {}
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => work_on(),
            }
        });
    }
}

/// The threads that all dictionaries of this process share. After a fork the child starts its own: its
/// parent's did not come along.
fn shared_pool() -> Result<Arc<ThreadPool>, Error> {
    static SHARED: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let process = std::process::id();
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, pool)) = &*shared
        && *of == process
    {
        return Ok(pool.clone());
    }
    let pool = Arc::new(new_pool(usual_threads())?);
    // Nothing may wait for the parent's threads, not even the end of their pool.
    std::mem::forget(shared.replace((process, pool.clone())));
    Ok(pool)
}

/// A thread for each core, or as many as `RAYON_NUM_THREADS` says.
fn usual_threads() -> usize {
    let wanted = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
    wanted.filter(|&threads| threads > 0).unwrap_or_else(cores).min(MOST_THREADS)
}

fn new_pool(threads: usize) -> Result<ThreadPool, Error> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("gpulsm-{index}"))
        .build()
        .map_err(|error| Error::Threads { threads, reason: error.to_string() })
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads", self.most())
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
