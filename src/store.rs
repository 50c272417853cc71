//! A device's engine and its runs together: taking in batches, cleaning up, and the rules that hold.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::batch::{Order, Updates};
use crate::budget::Allowance;
use crate::cpu::{Cpu, CpuEngine};
use crate::device::{Device, Engine, Log, Mark, Query};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::levels::{Carry, Levels};
use crate::slices::Slices;
use crate::stats::{Glance, Stats};
use crate::value::Value;

/// When stale entries are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CleanupPolicy {
    /// The dictionary cleans itself when stale entries outnumber live keys by more than a batch:
    /// whoever asks for its `stats` sees at most 2·len + b entries, and there are never more than half
    /// as many again. A cleanup moves no more entries than were updated since the last. (One that finds no memory is put off, not an error.)
    #[default]
    Automatic,
    /// Only [`Dictionary::cleanup`](crate::Dictionary::cleanup) does.
    Manual,
}

/// So many batches' worth of updates may always wait to be taken in together…
const BATCHES_WAITING: usize = 16;

/// …and more if they are at most this part of all entries; but no more than
/// [`Engine::MOST_WAITING`] ever.
const PART_WAITING: u64 = 4;

/// An engine, its runs, and the batches that wait to become part of them. A clone shares the runs.
///
/// A batch that comes when nothing was asked since the one before need not be sorted and merged by
/// itself: it waits in a log, and all that waits is taken in as one batch when someone asks, or when
/// it is much. Who asks after every batch never meets a log.
pub(crate) struct Store<E: Engine> {
    pub engine: E,
    policy: CleanupPolicy,
    batch_size: usize,
    held: Mutex<Held<E>>,
    /// Locked by the thread that applies the buffered batches.
    settling: Mutex<()>,
    pub slices: Slices<E>,
    /// Whether anything was asked since the last batch.
    asked: AtomicBool,
    /// Levels that somebody has the addresses of for as long as this lives.
    #[cfg(feature = "cuda")]
    pinned: Mutex<Vec<Arc<Levels<E::Run>>>>,
}

struct Held<E: Engine> {
    levels: Arc<Levels<E::Run>>,
    /// Newer than all levels.
    waiting: Option<Waiting<E>>,
    /// Updates that were taken in since stale entries were last counted.
    uncounted: usize,
    /// After a self-cleanup that found no memory: updates until the next attempt.
    cleanup_delay: usize,
}

/// Buffered batches, and the memory that applying them will need: clones that share a memory limit could
/// otherwise use it up.
struct Waiting<E: Engine> {
    log: Arc<E::Log>,
    allowance: Arc<Allowance>,
}

impl<E: Engine> Clone for Waiting<E> {
    fn clone(&self) -> Self {
        Waiting { log: self.log.clone(), allowance: self.allowance.clone() }
    }
}

impl<E: Engine> Clone for Held<E> {
    fn clone(&self) -> Self {
        let Held { levels, waiting, uncounted, cleanup_delay } = self;
        let (levels, waiting) = (levels.clone(), waiting.clone());
        Held { levels, waiting, uncounted: *uncounted, cleanup_delay: *cleanup_delay }
    }
}

impl<E: Engine> Held<E> {
    fn new(levels: Levels<E::Run>) -> Self {
        Held { levels: Arc::new(levels), waiting: None, uncounted: 0, cleanup_delay: 0 }
    }

    /// Counts updates that were applied.
    fn count_updates(&mut self, len: usize) {
        self.uncounted = self.uncounted.saturating_add(len);
        self.cleanup_delay = self.cleanup_delay.saturating_sub(len);
    }
}

impl<E: Engine> Clone for Store<E> {
    fn clone(&self) -> Self {
        // One takes in for all what waits. If it can't, each will have to try again.
        self.settled().ok();
        Store {
            engine: self.engine.clone(),
            policy: self.policy,
            batch_size: self.batch_size,
            held: Mutex::new(self.held().clone()),
            settling: Mutex::default(),
            slices: Slices::new(self.slices.most()),
            asked: AtomicBool::new(true),
            #[cfg(feature = "cuda")]
            pinned: Mutex::default(),
        }
    }
}

/// Whether stale entries must be counted now, or when enough came since the last time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    Now,
    WhenDue,
}

/// One batch, wherever it lies.
pub(crate) trait Incoming<E: Engine> {
    fn inserts(&self) -> usize;

    fn deletes(&self) -> usize;

    fn order(&self) -> Order;

    /// See [`Engine::absorb`].
    fn absorb(
        &self,
        engine: &E,
        carried: &[E::Run],
        older: &[E::Run],
    ) -> Result<Option<E::Run>, Error>;

    /// See [`Engine::append`].
    fn append(&self, engine: &E, log: &mut E::Log) -> Result<(), Error>;

    fn len(&self) -> usize {
        self.inserts() + self.deletes()
    }
}

impl<E: Engine> Incoming<E> for Updates<'_, E::Key> {
    fn inserts(&self) -> usize {
        self.keys.len()
    }

    fn deletes(&self) -> usize {
        self.deletes.len()
    }

    fn order(&self) -> Order {
        self.order
    }

    fn absorb(
        &self,
        engine: &E,
        carried: &[E::Run],
        older: &[E::Run],
    ) -> Result<Option<E::Run>, Error> {
        engine.absorb(self, carried, older)
    }

    fn append(&self, engine: &E, log: &mut E::Log) -> Result<(), Error> {
        engine.append(log, self)
    }
}

impl<E: Engine> Store<E> {
    pub fn new(engine: E, settings: &Settings) -> Self {
        let Settings { batch_size, policy, merged_at_once, .. } = *settings;
        Store {
            slices: Slices::new(merged_at_once.unwrap_or_else(|| engine.merged_at_once())),
            engine,
            policy,
            batch_size,
            held: Mutex::new(Held::new(Levels::new(batch_size))),
            settling: Mutex::default(),
            asked: AtomicBool::new(true),
            #[cfg(feature = "cuda")]
            pinned: Mutex::default(),
        }
    }

    /// Keeps these levels for as long as this lives.
    #[cfg(feature = "cuda")]
    pub fn pin(&self, levels: Arc<Levels<E::Run>>) {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if !pinned.iter().any(|other| Arc::ptr_eq(other, &levels)) {
            pinned.push(levels);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held<E>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_mut(&mut self) -> &mut Held<E> {
        self.held.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every level, with nothing left that waits: what to ask.
    pub fn settled(&self) -> Result<Arc<Levels<E::Run>>, Error> {
        self.asked.store(true, Ordering::Relaxed);
        self.settle()
    }

    /// The same levels with every run in no more memory than it needs, as far as that is known, if any has
    /// much more.
    fn compacted(&self, levels: &Levels<E::Run>) -> Option<Levels<E::Run>> {
        let mut compact = levels.clone();
        compact.replace(|run| self.engine.compacted(run)).then_some(compact)
    }

    /// Takes in what waits. Answers stay the same, also after an error.
    fn settle(&self) -> Result<Arc<Levels<E::Run>>, Error> {
        let held = self.held();
        if held.waiting.is_none() {
            return Ok(held.levels.clone());
        }
        drop(held);
        // One at a time: what is set aside suffices for one.
        let _settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let Held { levels, waiting, .. } = self.held().clone();
        let Some(Waiting { log, allowance }) = waiting else {
            return Ok(levels); // Another thread was faster.
        };
        let mut settled = Levels::clone(&levels);
        drop(levels);
        let engine = self.engine.drawing_on(&allowance);
        let merged = self.install(&mut settled, log.len(), |carried, older| {
            engine.absorb_log(&log, carried, older)
        })?;
        let mut held = self.held();
        (held.levels, held.waiting) = (Arc::new(settled), None);
        held.count_updates(log.len());
        drop((held, allowance));
        let levels = self.tidied(Count::WhenDue);
        let further = self.slices.after_batch(&self.engine, &levels, log.len(), merged);
        Ok(self.keep(levels, further))
    }

    /// Puts levels that answer the same in the place of others, if those are still there. Returns what
    /// is there then.
    fn keep(&self, old: Arc<Levels<E::Run>>, new: Option<Levels<E::Run>>) -> Arc<Levels<E::Run>> {
        let mut held = self.held();
        if let Some(new) = new
            && Arc::ptr_eq(&held.levels, &old)
        {
            held.levels = Arc::new(new);
        }
        held.levels.clone()
    }

    /// Every level, settled, as tidy as the policy wants it, merged, and in no more memory than it needs:
    /// what to tell of.
    pub fn settled_and_tidied(&self) -> Result<Arc<Levels<E::Run>>, Error> {
        self.settled()?;
        let levels = self.tidied(Count::Now);
        let merged = self.slices.finish(&self.engine, &levels);
        let levels = self.keep(levels, merged);
        self.engine.len(levels.runs())?; // Then it is known how much memory each run needs.
        let compact = self.compacted(&levels);
        Ok(self.keep(levels, compact))
    }

    /// Every level, once what is found to be too stale is cleaned up.
    fn tidied(&self, count: Count) -> Arc<Levels<E::Run>> {
        let Held { levels, uncounted, cleanup_delay, .. } = self.held().clone();
        if self.policy == CleanupPolicy::Manual || (count == Count::WhenDue && cleanup_delay > 0) {
            return levels;
        }
        // Counting may have to wait for the device, so nobody does after every batch. It takes no longer
        // than taking in what came since did.
        let usual = self.batch_size.saturating_mul(BATCHES_WAITING) as u64;
        let is_due = uncounted as u64 >= usual.max(self.entries(&levels) / 2);
        let must = count == Count::Now || is_due;
        let clean = match self.is_too_stale(&levels, must) {
            Ok(true) => self.cleaned(&levels).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        // The batch is applied: for want of memory its stale entries stay a while longer. An attempt may have
        // merged everything before it failed, so the next one waits for an eighth as many updates.
        let Ok(clean) = clean else {
            let delay = (self.entries(&levels) / 8) as usize;
            self.held().cleanup_delay = delay.max(self.batch_size);
            return levels;
        };
        if must {
            self.held().uncounted = 0;
        }
        if clean.is_some() {
            self.slices.forget();
        }
        self.keep(levels, clean)
    }

    pub fn len(&self) -> Result<u64, Error> {
        self.engine.len(self.settled()?.runs())
    }

    /// Takes in one batch, whole or not at all.
    pub fn take_in(&mut self, batch: &impl Incoming<E>) -> Result<(), Error> {
        if batch.len() == 0 {
            return Ok(());
        }
        let levels = self.held_mut().levels.clone();
        let compact = self.compacted(&levels);
        self.keep(levels, compact);
        let asked = std::mem::replace(self.asked.get_mut(), false);
        if self.let_wait(batch, asked)? {
            return Ok(());
        }
        self.settle()?;
        let mut levels = Levels::clone(&self.held_mut().levels);
        let merged = self.install(&mut levels, batch.len(), |carried, older| {
            batch.absorb(&self.engine, carried, older)
        })?;
        let held = self.held_mut();
        held.levels = Arc::new(levels);
        held.count_updates(batch.len());
        let levels = self.tidied(Count::WhenDue);
        let further = self.slices.after_batch(&self.engine, &levels, batch.len(), merged);
        self.keep(levels, further);
        Ok(())
    }

    /// Puts a batch behind those that wait, if that is better than taking it in now.
    fn let_wait(&mut self, batch: &impl Incoming<E>, asked: bool) -> Result<bool, Error> {
        let most = self.most_waiting();
        let held = self.held_mut();
        let waiting = held.waiting.as_ref().map_or(0, |waiting| waiting.log.len());
        if (asked && waiting == 0) || batch.len() > most / 2 || batch.order() == Order::Sorted {
            return Ok(false);
        }
        let fits = held.waiting.as_ref().is_none_or(|Waiting { log, .. }| {
            waiting + batch.len() <= most && log.accepts(batch.inserts(), batch.deletes())
        });
        // What a clone waits with too must stay as it is.
        let is_shared = |waiting: &mut Waiting<E>| Arc::get_mut(&mut waiting.log).is_none();
        if !fits || held.waiting.as_mut().is_some_and(is_shared) {
            self.settle()?;
        }
        let engine = &self.engine;
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Waiting { mut log, allowance } = held.waiting.take().unwrap_or_else(|| Waiting {
            log: Arc::default(),
            allowance: Allowance::new(engine.budget()),
        });
        // Where there is no room for what waits, there may be for the batch.
        let to_apply = engine.bytes_to_apply(log.len() + batch.len(), held.levels.runs());
        let waits = allowance.grow_to(to_apply)
            && batch.append(engine, Arc::get_mut(&mut log).expect("nobody else has it")).is_ok();
        held.waiting = (log.len() > 0).then_some(Waiting { log, allowance });
        Ok(waits)
    }

    /// How many updates may wait.
    fn most_waiting(&self) -> usize {
        let entries = self.entries(&self.held().levels);
        let usual = self.batch_size.saturating_mul(BATCHES_WAITING);
        usual.max((entries / PART_WAITING) as usize).min(E::MOST_WAITING)
    }

    /// How many entries there are, live or stale, as far as the host knows.
    fn entries(&self, levels: &Levels<E::Run>) -> u64 {
        levels.runs().iter().map(|run| self.engine.bound(run) as u64).sum()
    }

    /// Puts the run that `absorb` makes of `len` new entries where it belongs, and returns how many
    /// entries were merged for that. After an error the levels are as they were.
    fn install(
        &self,
        levels: &mut Levels<E::Run>,
        len: usize,
        absorb: impl Fn(&[E::Run], &[E::Run]) -> Result<Option<E::Run>, Error>,
    ) -> Result<usize, Error> {
        // A device may find out late that a run has lost all its entries.
        levels.retain(|run| self.engine.bound(run) > 0);
        let carry = levels.walk(len, |run| self.engine.bound(run));
        let (carried, older) = levels.runs().split_at(carry.runs);
        let entries = carried.iter().map(|run| self.engine.bound(run)).sum::<usize>() + len;
        self.slices.forget_if_among(levels, carry.runs);
        if carry.runs > 0 && self.slices.puts_off(&self.engine, levels, len, entries) {
            let run = self.with_memory(|| absorb(&[], levels.runs()))?;
            levels.gather(&carry, run);
            return Ok(0);
        }
        let run = self.with_memory(|| absorb(carried, older))?;
        levels.install(&carry, run);
        Ok(entries)
    }

    /// Does something; if there is no memory for it, once more without a merge that has come so far.
    fn with_memory<T>(&self, job: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match job() {
            Err(Error::OutOfMemory { .. }) if self.slices.forget() => job(),
            done => done,
        }
    }

    /// Merges everything into one run without stale entries.
    pub fn cleanup(&mut self) -> Result<(), Error> {
        let levels = self.settled()?;
        self.slices.forget();
        self.held_mut().levels = Arc::new(self.cleaned(&levels)?);
        Ok(())
    }

    fn cleaned(&self, levels: &Levels<E::Run>) -> Result<Levels<E::Run>, Error> {
        let mut levels = levels.clone();
        if levels.runs().len() <= 1 {
            return Ok(levels); // The oldest run never holds a stale entry.
        }
        let run = self.engine.absorb(&Updates::none(), levels.runs(), &[])?;
        let entries = run.as_ref().map_or(0, |run| self.engine.bound(run));
        let level = levels.ladder().level_for(entries);
        levels.install(&Carry { runs: levels.runs().len(), level }, run);
        Ok(levels)
    }

    /// Whether there are so many stale entries that they should go; no, if that is not known and need
    /// not be.
    fn is_too_stale(&self, levels: &Levels<E::Run>, must: bool) -> Result<bool, Error> {
        let too_many =
            |live: u64| self.entries(levels) > live.saturating_mul(2) + self.batch_size as u64;
        // What a device knows at once mostly tells.
        let runs = levels.runs();
        if !too_many(self.engine.len_at_least(runs)) {
            return Ok(false);
        }
        match self.engine.len_if_known(runs) {
            Some(live) => Ok(too_many(live)),
            None => Ok(must && too_many(self.engine.len(runs)?)),
        }
    }

    /// Checks every rule that runs and levels keep; the text says which one is broken and where.
    pub fn validate(&self) -> Result<(), String> {
        // The length first: a device may find out only now what it needs to know for that.
        self.settled().map_err(|error| error.to_string())?;
        let levels = self.tidied(Count::Now);
        let len = self.engine.len(levels.runs()).map_err(|error| error.to_string())?;
        let places: Vec<usize> = levels.placed().map(|(level, _)| level).collect();
        if !places.is_sorted() {
            return Err(format!("levels out of order: {places:?}"));
        }
        for &level in &places {
            let in_level = levels.placed().filter(|&(place, _)| place == level);
            let entries: usize = in_level.map(|(_, run)| self.engine.bound(run)).sum();
            let capacity = levels.ladder().capacity(level);
            if entries > capacity {
                return Err(format!("level {level}: {entries} entries where {capacity} may be"));
            }
        }
        // Oldest first, so that what was live before each run is known when its shadows are checked.
        let mut live = BTreeSet::new();
        let mut is_oldest = true;
        for (level, run) in levels.placed().rev() {
            let at = |what: String| format!("level {level}: {what}");
            self.engine.validate_run(run).map_err(at)?;
            if self.engine.bound(run) == 0 {
                continue; // Gone with the next batch.
            }
            let entries = self.engine.entries(run).map_err(|error| at(error.to_string()))?;
            validate_entries(&entries, levels.ladder().capacity(level), &live).map_err(at)?;
            if is_oldest && entries.iter().any(|(_, mark)| !mark.live || mark.shadow) {
                return Err(at("the oldest run has a stale entry".into()));
            }
            is_oldest = false;
            for (key, mark) in entries {
                if mark.live {
                    live.insert(key)
                } else {
                    live.remove(&key)
                };
            }
        }
        if len != live.len() as u64 {
            return Err(format!("the length says {len} but {} keys are live", live.len()));
        }
        Ok(())
    }
}

/// A store whose device and width of values were chosen at run time: what dictionaries are made on.
///
/// Behind it stand few types of store, all compiled once, here; a dictionary of any types is a thin
/// layer on top that maps keys and counts bytes.
pub trait AnyStore<B: OrderedKey>: Send + Sync {
    /// A store that shares every run with this one.
    fn share(&self) -> Box<dyn AnyStore<B>>;

    fn batch_size(&self) -> usize;

    fn policy(&self) -> CleanupPolicy;

    fn len(&self) -> Result<u64, Error>;

    /// Takes in one batch, whole or not at all.
    fn take_in(&mut self, updates: &Updates<'_, B>) -> Result<(), Error>;

    /// Merges everything into one run without stale entries.
    fn cleanup(&mut self) -> Result<(), Error>;

    fn clear(&mut self);

    fn answer(&self, query: Query<'_, B>) -> Result<(), Error>;

    fn stats(&self, device: Device) -> Result<Stats, Error>;

    /// What can be told at once; `None` while another thread is changing it.
    fn glance(&self) -> Option<Glance>;

    fn validate(&self) -> Result<(), String>;

    fn fail_after(&self, n: u64);

    /// Takes in the batches that wait.
    fn settle(&self) -> Result<(), Error>;

    /// Takes in the batches that wait, waits until all that was begun is done, and says if any of it
    /// failed.
    fn synchronize(&self) -> Result<(), Error>;

    /// This store as one on a GPU, if it is.
    #[cfg(feature = "cuda")]
    fn on_cuda(&self) -> Option<&dyn crate::cuda::CudaStore<B>>;

    /// The same, to be changed.
    #[cfg(feature = "cuda")]
    fn on_cuda_mut(&mut self) -> Option<&mut dyn crate::cuda::CudaStore<B>>;
}

impl<B: OrderedKey> Clone for Box<dyn AnyStore<B>> {
    fn clone(&self) -> Self {
        self.share()
    }
}

impl<E: Engine> AnyStore<E::Key> for Store<E> {
    fn share(&self) -> Box<dyn AnyStore<E::Key>> {
        Box::new(self.clone())
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn policy(&self) -> CleanupPolicy {
        self.policy
    }

    fn len(&self) -> Result<u64, Error> {
        self.len()
    }

    fn take_in(&mut self, updates: &Updates<'_, E::Key>) -> Result<(), Error> {
        self.take_in(updates)
    }

    fn cleanup(&mut self) -> Result<(), Error> {
        self.cleanup()
    }

    fn clear(&mut self) {
        *self.held_mut() = Held::new(Levels::new(self.batch_size));
        self.slices.forget();
    }

    fn answer(&self, query: Query<'_, E::Key>) -> Result<(), Error> {
        self.engine.answer(self.settled()?.runs(), query)
    }

    fn stats(&self, device: Device) -> Result<Stats, Error> {
        Stats::of(device, self)
    }

    fn glance(&self) -> Option<Glance> {
        let held = match self.held.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let waiting = held.waiting.as_ref().map_or(0, |waiting| waiting.log.len());
        Some(Glance::of(&self.engine, &held.levels, waiting))
    }

    fn validate(&self) -> Result<(), String> {
        self.validate()
    }

    fn fail_after(&self, n: u64) {
        self.engine.budget().fail_after(n);
    }

    fn settle(&self) -> Result<(), Error> {
        self.settled().map(drop)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.settled()?;
        self.engine.synchronize()
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self) -> Option<&dyn crate::cuda::CudaStore<E::Key>> {
        E::cuda_store(self)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda_mut(&mut self) -> Option<&mut dyn crate::cuda::CudaStore<E::Key>> {
        E::cuda_store_mut(self)
    }
}

/// How a store is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    pub batch_size: usize,
    pub policy: CleanupPolicy,
    pub threads: Option<usize>,
    pub memory_limit: Option<u64>,
    pub merged_at_once: Option<usize>,
    #[cfg(feature = "cuda")]
    pub stream: Option<crate::cuda::Stream>,
}

/// Keys that there are stores for.
pub trait Open: Sized {
    /// An empty store on a device for values of `width` bytes.
    fn open(
        device: Device,
        settings: &Settings,
        width: usize,
    ) -> Result<Box<dyn AnyStore<Self>>, Error>
    where
        Self: OrderedKey;
}

macro_rules! open {
    ($key:ty) => {
        impl Open for $key {
            // Not generic: every store is compiled with this crate, not again with its users.
            fn open(
                device: Device,
                settings: &Settings,
                width: usize,
            ) -> Result<Box<dyn AnyStore<Self>>, Error> {
                #[cfg(feature = "cuda")]
                if device.is_cuda() {
                    return open_cuda::<Self>(device, settings, width);
                }
                debug_assert!(!device.is_cuda());
                match width {
                    0 => open_cpu::<Self, [u8; 0]>(settings),
                    4 => open_cpu::<Self, [u8; 4]>(settings),
                    8 => open_cpu::<Self, [u8; 8]>(settings),
                    16 => open_cpu::<Self, [u8; 16]>(settings),
                    _ => unreachable!("`Value::WIDTH` lets no other width compile"),
                }
            }
        }
    };
}

open!(u32);
open!(u64);

fn open_cpu<B: OrderedKey, V: Value>(settings: &Settings) -> Result<Box<dyn AnyStore<B>>, Error> {
    let engine = CpuEngine::<B, V>::new(Cpu::new(settings.memory_limit, settings.threads)?);
    Ok(Box::new(Store::new(engine, settings)))
}

#[cfg(feature = "cuda")]
fn open_cuda<B: OrderedKey>(
    device: Device,
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    use crate::cuda::{Cuda, CudaEngine, Stream};

    let stream = match &settings.stream {
        Some(stream) => stream.clone(),
        None => Stream::new(device)?,
    };
    let cuda = Cuda::new(stream, settings.memory_limit, size_of::<B>(), width);
    Ok(Box::new(Store::new(CudaEngine::new(cuda), settings)))
}

/// Whether one run is sorted, fits its level, and is marked rightly over the `live` older keys.
fn validate_entries<B: Ord + std::fmt::Display>(
    entries: &[(B, Mark)],
    capacity: usize,
    live: &BTreeSet<B>,
) -> Result<(), String> {
    if entries.is_empty() || entries.len() > capacity {
        return Err(format!("{} entries where 1 to {capacity} may be", entries.len()));
    }
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("key {} is followed by {}", pair[0].0, pair[1].0));
    }
    for (key, mark) in entries {
        if mark.shadow != live.contains(key) {
            return Err(format!("key {key} has shadow {}, older runs disagree", mark.shadow));
        }
        if !mark.live && !mark.shadow {
            return Err(format!("key {key} has a tombstone that hides nothing"));
        }
    }
    Ok(())
}
