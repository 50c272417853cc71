//! The worker threads that share the work of a call.
//!
//! They are never those of rayon's global pool, and a thread that waits for them does nothing else
//! in the meantime. A rayon worker that waits, even for another pool, runs other tasks of its own
//! pool; if one of those needs a lock that the worker holds, it deadlocks. Here the caller may hold
//! any lock, on any kind of thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::ThreadPool;

use crate::error::Error;

/// Calls with less work than this (entries or queries) stay on the caller's thread: waking another
/// thread costs more than it saves.
pub(crate) const MIN_SHARED_WORK: usize = 2 * MIN_PART;

/// The least work that a thread is woken for.
const MIN_PART: usize = 1 << 11;

/// The most threads that a dictionary may have of its own.
const MAX_THREADS: usize = 1024;

/// Worker threads: those that all dictionaries of the process share, or some that belong to one
/// dictionary and its clones.
#[derive(Clone)]
pub struct Workers {
    /// `None` if the caller's thread does all the work.
    pool: Option<Arc<ThreadPool>>,
}

impl Workers {
    /// Returns the threads that all dictionaries share, or starts this many new ones.
    pub fn new(threads: Option<usize>) -> Result<Self, Error> {
        let pool = match threads {
            None => Some(shared_pool()?),
            Some(threads) if !(1..=MAX_THREADS).contains(&threads) => {
                let reason = format!("from 1 to {MAX_THREADS} are allowed");
                return Err(Error::Threads { threads, reason: reason.into() });
            }
            Some(1) => None,
            Some(threads) => Some(Arc::new(new_pool(threads)?)),
        };
        Ok(Workers { pool })
    }

    /// Starts this many new threads, or as many as there are cores if that is less; without a number, it returns those that all
    /// dictionaries share.
    pub fn at_most(threads: Option<usize>) -> Result<Self, Error> {
        Workers::new(threads.map(|threads| threads.min(default_threads())))
    }

    /// Returns no threads but the caller's.
    pub fn caller_only() -> Self {
        Workers { pool: None }
    }

    /// Returns the number of threads.
    pub fn count(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Returns the number of equal parts that this much work is best divided into: more threads than it is worth to wake
    /// would make a short call longer.
    pub fn parts(&self, work: usize) -> usize {
        (work / MIN_PART).clamp(1, self.count())
    }

    /// Returns how many queries each task should have: several tasks for each thread, so that all
    /// finish at about the same time.
    pub fn chunk_len(&self, queries: usize) -> usize {
        if self.parts(queries) == 1 {
            return queries.max(1);
        }
        queries.div_ceil(self.count() * 8).clamp(512, 1 << 14)
    }

    /// Runs all tasks, in parallel if there are several.
    pub fn each<T>(
        &self,
        tasks: impl IntoIterator<Item = T, IntoIter: Send>,
        work: impl Fn(T) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let tasks = tasks.into_iter();
        let count = tasks.size_hint().1.unwrap_or(usize::MAX);
        let tasks = Mutex::new(tasks.enumerate());
        self.run(count, &|| {
            let (index, task) = lock(&tasks).next()?;
            Some((index, work(task)))
        })
    }

    /// Runs all tasks, in parallel if there are several, and returns their results in order.
    pub fn map<T, R: Send>(
        &self,
        tasks: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator + Send>,
        work: impl Fn(T) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        let tasks = tasks.into_iter();
        let results = Mutex::new(Vec::new());
        lock(&results).resize_with(tasks.len(), || None);
        self.each(tasks.enumerate(), |(index, task)| {
            let result = work(task)?;
            lock(&results)[index] = Some(result);
            Ok(())
        })?;
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(results.into_iter().map(|result| result.expect("every task is done")).collect())
    }

    /// Calls `next_task`, which executes a task and returns its index and result, until no task is
    /// left, on as many threads as there are tasks for. Not generic, so that the use of the pool is
    /// compiled once and not for every kind of task.
    fn run(
        &self,
        count: usize,
        next_task: &(dyn Fn() -> Option<(usize, Result<(), Error>)> + Sync),
    ) -> Result<(), Error> {
        if count <= 1 || self.count() == 1 {
            return std::iter::from_fn(next_task).try_for_each(|(_, result)| result);
        }
        // The error of the first task in order that fails, so that which one it is does not depend
        // on the threads.
        let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        self.share(count, &|| {
            while let Some((index, result)) = next_task() {
                if let Err(error) = result {
                    let mut failed = lock(&failed);
                    if failed.as_ref().is_none_or(|&(first, _)| index < first) {
                        *failed = Some((index, error));
                    }
                }
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Calls `work_on` on the caller's thread and on others, at most `count` in all.
    fn share(&self, count: usize, work_on: &(dyn Fn() + Sync)) {
        let Some(pool) = &self.pool else { return work_on() };
        if pool.current_thread_index().is_some() {
            return work_on(); // A worker of this pool must not wait for the others.
        }
        // The caller works, too. Jobs of the pool never wait for anything: a worker that waits
        // would start jobs of other callers on top of its stack, and could not finish any before
        // the last of them.
        let helpers = self.count().min(count) - 1;
        let share = || {
            pool.in_place_scope(|scope| {
                (0..helpers).for_each(|_| scope.spawn(|_| work_on()));
                work_on();
            });
        };
        if rayon::current_thread_index().is_none() {
            return share();
        }
        // The caller is a worker of another pool, and would start tasks of that pool while it waits
        // for this one. So another thread waits in its place. If none can be started, the caller
        // does all the work itself.
        std::thread::scope(|scope| {
            let waiter = std::thread::Builder::new().spawn_scoped(scope, share);
            match waiter.map(|waiter| waiter.join()) {
                Ok(Ok(())) => {}
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => work_on(),
            }
        });
    }
}

/// Returns the threads that all dictionaries of this process share. After a fork the child starts
/// its own: a fork does not copy threads.
fn shared_pool() -> Result<Arc<ThreadPool>, Error> {
    static SHARED: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let process = std::process::id();
    let mut shared = lock(&SHARED);
    if let Some((owner, pool)) = &*shared
        && *owner == process
    {
        return Ok(pool.clone());
    }
    let pool = Arc::new(new_pool(default_threads())?);
    // The pool of the parent process is leaked: dropping it would wait for its threads, which do
    // not exist here.
    std::mem::forget(shared.replace((process, pool.clone())));
    Ok(pool)
}

/// Returns the number of cores, or the value of `RAYON_NUM_THREADS`.
fn default_threads() -> usize {
    let wanted = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
    wanted.filter(|&threads| threads > 0).unwrap_or_else(cores).min(MAX_THREADS)
}

fn new_pool(threads: usize) -> Result<ThreadPool, Error> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("gpulsm-{index}"))
        .build()
        .map_err(|error| Error::Threads { threads, reason: error.to_string().into() })
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads", self.count())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cuts `slice` into parts of the given lengths.
pub(crate) fn cut<T>(
    mut slice: &mut [T],
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<&mut [T]> {
    lengths
        .into_iter()
        .map(|len| slice.split_off_mut(..len).expect("the lengths add up to at most the slice's"))
        .collect()
}
