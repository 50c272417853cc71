//! A device's engine and its runs together: taking in batches, cleaning up, and the rules that hold.

use std::collections::BTreeSet;

use crate::batch::Updates;
use crate::cpu::{Cpu, CpuEngine};
use crate::device::{Device, Engine, Mark, Query};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::levels::{Carry, Levels};
use crate::stats::Stats;
use crate::value::Value;

/// When stale entries are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CleanupPolicy {
    /// The dictionary cleans itself when stale entries outnumber live keys by more than a batch:
    /// after a call it holds at most 2·len + b entries. A cleanup moves no more entries than were
    /// updated since the last. (One that finds no memory is put off, not an error.)
    #[default]
    Automatic,
    /// Only [`Dictionary::cleanup`](crate::Dictionary::cleanup) does.
    Manual,
}

/// An engine and its runs. A clone shares the runs.
#[derive(Clone)]
pub(crate) struct Store<E: Engine> {
    pub engine: E,
    pub levels: Levels<E::Run>,
    pub policy: CleanupPolicy,
}

impl<E: Engine> Store<E> {
    pub fn new(engine: E, batch_size: usize, policy: CleanupPolicy) -> Self {
        Store { engine, levels: Levels::new(batch_size), policy }
    }

    /// Every run, newest first.
    pub fn runs(&self) -> &[E::Run] {
        self.levels.runs()
    }

    /// How many entries there are, live or stale, as far as the host knows.
    pub fn entries(&self) -> u64 {
        self.runs().iter().map(|run| self.engine.bound(run) as u64).sum()
    }

    pub fn len(&self) -> Result<u64, Error> {
        self.engine.len(self.runs())
    }

    /// Takes in one batch, whole or not at all.
    pub fn take_in(&mut self, updates: &Updates<'_, E::Key>) -> Result<(), Error> {
        self.take_in_with(updates.len(), |engine, carried, older| {
            engine.absorb(updates, carried, older)
        })
    }

    /// Takes in one batch of `len` updates that `absorb` knows.
    pub fn take_in_with(
        &mut self,
        len: usize,
        absorb: impl FnOnce(&E, &[E::Run], &[E::Run]) -> Result<Option<E::Run>, Error>,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        // A device may find out late that a run has lost all its entries.
        self.levels.retain(|run| self.engine.bound(run) > 0);
        let carry = self.levels.walk(len, |run| self.engine.bound(run));
        let (carried, older) = self.runs().split_at(carry.runs);
        let run = absorb(&self.engine, carried, older)?;
        self.levels.install(&carry, run);
        if self.policy == CleanupPolicy::Automatic && self.is_too_stale().unwrap_or(false) {
            // The batch is in: for want of memory its stale entries stay a while longer.
            self.cleanup().ok();
        }
        Ok(())
    }

    /// Merges everything into one run without stale entries.
    pub fn cleanup(&mut self) -> Result<(), Error> {
        if self.runs().len() <= 1 {
            return Ok(()); // The oldest run never holds a stale entry.
        }
        let run = self.engine.absorb(&Updates::none(), self.runs(), &[])?;
        let entries = run.as_ref().map_or(0, |run| self.engine.bound(run));
        let level = self.levels.ladder().level_for(entries);
        self.levels.install(&Carry { runs: self.runs().len(), level }, run);
        Ok(())
    }

    fn is_too_stale(&self) -> Result<bool, Error> {
        let too_many = |live: u64| {
            let most = live.saturating_mul(2) + self.levels.ladder().batch_size() as u64;
            self.entries() > most
        };
        // What a device knows at once mostly tells; only if it doesn't, wait for all it can know.
        Ok(too_many(self.engine.len_at_least(self.runs())) && too_many(self.len()?))
    }

    /// Checks every rule that runs and levels keep; the text says which one is broken and where.
    pub fn validate(&self) -> Result<(), String> {
        let levels: Vec<usize> = self.levels.placed().map(|(level, _)| level).collect();
        if !levels.is_sorted_by(|lower, upper| lower < upper) {
            return Err(format!("levels out of order: {levels:?}"));
        }
        // Oldest first, so that what was live before each run is known when its shadows are checked.
        let mut live = BTreeSet::new();
        let mut is_oldest = true;
        for (level, run) in self.levels.placed().rev() {
            let at = |what: String| format!("level {level}: {what}");
            self.engine.validate_run(run).map_err(at)?;
            if self.engine.bound(run) == 0 {
                continue; // Gone with the next batch.
            }
            let entries = self.engine.entries(run).map_err(|error| at(error.to_string()))?;
            validate_entries(&entries, self.levels.ladder().capacity(level), &live).map_err(at)?;
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
        let len = self.len().map_err(|error| error.to_string())?;
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

    fn validate(&self) -> Result<(), String>;

    fn fail_after(&self, n: u64);

    /// Waits until all that was begun is done, and says if any of it failed.
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
        self.levels.ladder().batch_size()
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
        self.levels.clear();
    }

    fn answer(&self, query: Query<'_, E::Key>) -> Result<(), Error> {
        self.engine.answer(self.runs(), query)
    }

    fn stats(&self, device: Device) -> Result<Stats, Error> {
        Stats::of(device, self)
    }

    fn validate(&self) -> Result<(), String> {
        self.validate()
    }

    fn fail_after(&self, n: u64) {
        self.engine.fail_after(n);
    }

    fn synchronize(&self) -> Result<(), Error> {
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
    Ok(Box::new(Store::new(engine, settings.batch_size, settings.policy)))
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
    Ok(Box::new(Store::new(CudaEngine::new(cuda), settings.batch_size, settings.policy)))
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
