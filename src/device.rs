//! Which devices there are, and what each must be able to do with runs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::batch::Updates;
use crate::budget::{Allowance, Budget};
use crate::error::Error;
use crate::key::OrderedKey;
#[cfg(feature = "cuda")]
use crate::store::Store;

/// Where a dictionary lives: chosen at run time.
///
/// A device is also made from text (`"best"`, `"cpu"`, `"cuda"`, `"cuda:1"`), as programs take it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device(Kind);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Kind {
    #[default]
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(usize),
}

impl Device {
    /// The fastest device of this machine: a GPU where this build and the machine have one, else
    /// the CPU.
    pub fn best() -> Self {
        Device::cuda(0).unwrap_or_default()
    }

    /// This machine's CPU.
    pub fn cpu() -> Self {
        Device(Kind::Cpu)
    }

    /// NVIDIA GPU number `index`, or an error that says why it can't be used.
    pub fn cuda(index: usize) -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        return crate::cuda::Gpu::open(index).map(Device::of);
        #[cfg(not(feature = "cuda"))]
        Err(Error::BuiltWithoutCuda { index })
    }

    /// Whether this is a GPU.
    pub fn is_cuda(self) -> bool {
        self != Device::cpu()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn of(gpu: &crate::cuda::Gpu) -> Self {
        Device(Kind::Cuda(gpu.index))
    }

    /// The GPU that this is.
    #[cfg(feature = "cuda")]
    pub(crate) fn gpu(self) -> Result<&'static crate::cuda::Gpu, Error> {
        match self.0 {
            Kind::Cuda(index) => crate::cuda::Gpu::open(index),
            Kind::Cpu => Err(Error::NotOnCuda),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Cpu => f.write_str("cpu"),
            #[cfg(feature = "cuda")]
            Kind::Cuda(0) => f.write_str("cuda"),
            #[cfg(feature = "cuda")]
            Kind::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "best" => Ok(Device::best()),
            "cpu" => Ok(Device::cpu()),
            "cuda" => Device::cuda(0),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|index| index.parse().ok())
                .ok_or_else(|| Error::UnknownDevice { text: text.into() })
                .and_then(Device::cuda),
        }
    }
}

/// What a device does with runs. Each device implements it in a folder of its own.
///
/// A *run* is an immutable sorted array of entries with unique keys. Lists of runs are always
/// newest first: for one key, the first run that has it decides.
///
/// Verbs take everything at once, so that a device may fuse steps, and never ask for a run's true
/// length: merging drops entries, so a GPU knows that length before the host does. The host works
/// with [`bound`](Engine::bound). Values are bytes here: an engine knows their width and nothing else.
pub(crate) trait Engine: Clone + Send + Sync + 'static {
    /// Keys as this engine sorts them.
    type Key: OrderedKey;

    /// A run on this device. Cheap to clone: clones share their memory.
    type Run: Clone + Send + Sync;

    /// Batches on this device that wait to be taken in, as they came.
    type Log: Log;

    /// A merge of runs that is done in slices.
    type Merge: Merge<Self::Run>;

    /// The most updates that may wait to be taken in together: from there on, more at a time is hardly
    /// faster.
    const MOST_WAITING: usize;

    /// How many entries the run has at most, as far as the host knows now.
    fn bound(&self, run: &Self::Run) -> usize;

    /// Sorts the batch, finds which of its keys the older runs hold (or leaves that for when it is
    /// needed), and merges it with the carried runs into one run. `carried` and then `older` are all runs there are, newest first;
    /// with nothing older, the output is the oldest run and holds no tombstone.
    ///
    /// With no updates and every run carried, this is a cleanup. `None` where nothing is left.
    fn absorb(
        &self,
        updates: &Updates<'_, Self::Key>,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error>;

    /// Puts a batch behind those that wait; after an error they are as they were.
    fn append(&self, log: &mut Self::Log, updates: &Updates<'_, Self::Key>) -> Result<(), Error>;

    /// [`absorb`](Engine::absorb) of all that waits, as one batch.
    fn absorb_log(
        &self,
        log: &Self::Log,
        carried: &[Self::Run],
        older: &[Self::Run],
    ) -> Result<Option<Self::Run>, Error>;

    /// How many entries are merged at once, if nobody says: with more, a batch would take much longer
    /// than most.
    fn merged_at_once(&self) -> usize;

    /// Whether there is memory for so many entries to be merged while other batches come in.
    fn is_roomy_for_merge(&self, entries: usize) -> bool;

    /// Begins to merge runs that follow each other, on top of the older ones.
    fn begin_merge(&self, runs: &[Self::Run], older: &[Self::Run]) -> Result<Self::Merge, Error>;

    /// Merges about so many entries more.
    fn go_on(
        &self,
        merge: Self::Merge,
        entries: usize,
    ) -> Result<Merged<Self::Merge, Self::Run>, Error>;

    /// Returns the most bytes that applying this many buffered updates on top of these runs may take,
    /// the new run included.
    fn bytes_to_apply(&self, updates: usize, runs: &[Self::Run]) -> u64;

    /// The same engine, whose allocations use up what was set aside before anything else.
    fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self;

    /// Where the memory of this engine and its clones is counted.
    fn budget(&self) -> &Arc<Budget>;

    /// How many keys are live in all.
    fn len(&self, runs: &[Self::Run]) -> Result<u64, Error>;

    /// At least how many keys are live, as far as the host knows now.
    fn len_at_least(&self, runs: &[Self::Run]) -> u64;

    /// How many keys are live, if the host knows it now.
    fn len_if_known(&self, runs: &[Self::Run]) -> Option<u64>;

    /// Writes the answers to a batch of queries where the query says.
    fn answer(&self, runs: &[Self::Run], query: Query<'_, Self::Key>) -> Result<(), Error>;

    /// What the run holds and takes.
    fn run_stats(&self, run: &Self::Run) -> Result<RunStats, Error>;

    /// The same run in no more memory than it needs, if it has much more and the host knows it now.
    fn compacted(&self, _run: &Self::Run) -> Option<Self::Run> {
        None
    }

    /// Every key of the run with its mark: what the rules of [`validate`](crate::store::Store::validate) speak of.
    fn entries(&self, run: &Self::Run) -> Result<Vec<(Self::Key, Mark)>, Error>;

    /// Whether the parts of a run that only this device knows (fences, running counts) agree with
    /// its entries.
    fn validate_run(&self, run: &Self::Run) -> Result<(), String>;

    /// Waits until all that was begun is done, and says if any of it failed.
    fn synchronize(&self) -> Result<(), Error>;

    /// The store as one on a GPU, if it is.
    #[cfg(feature = "cuda")]
    fn cuda_store(_store: &Store<Self>) -> Option<&dyn crate::cuda::CudaStore<Self::Key>> {
        None
    }

    /// The same, to be changed.
    #[cfg(feature = "cuda")]
    fn cuda_store_mut(
        _store: &mut Store<Self>,
    ) -> Option<&mut dyn crate::cuda::CudaStore<Self::Key>> {
        None
    }
}

/// Batches that wait to be taken in as one.
pub(crate) trait Log: Default + Send + Sync {
    /// How many updates wait.
    fn len(&self) -> usize;

    /// Whether so many inserts and deletes may come behind what waits.
    fn accepts(&self, inserts: usize, deletes: usize) -> bool;
}

/// A merge that is done in slices.
pub(crate) trait Merge<R>: Send + Sync {
    /// Whether these are the runs that it merges.
    fn is_of(&self, runs: &[R]) -> bool;
}

/// How far a merge has come.
pub(crate) enum Merged<M, R> {
    /// There is more to merge.
    InPart(M),
    /// This is what came of it; `None` where nothing is left.
    Whole(Option<R>),
}

/// A batch of queries of one kind, and where their answers go.
pub enum Query<'a, B> {
    /// Whether each key is there and, where wanted, its value; 0 where it is not.
    Lookup { keys: &'a [B], values: Option<&'a mut [u8]>, found: &'a mut [bool] },

    /// How many live keys each closed range has.
    Count { lo: &'a [B], hi: &'a [B], counts: &'a mut [u64] },

    /// How many live keys are less than each key.
    Rank { keys: &'a [B], ranks: &'a mut [u64] },

    /// Where the answer to each range begins when all are laid end to end, and where the last ends.
    RangeOffsets { lo: &'a [B], hi: &'a [B], offsets: &'a mut [usize] },

    /// The same offsets and, if `keys` has room for all of them, the pairs of each range at its own.
    Range {
        lo: &'a [B],
        hi: &'a [B],
        offsets: &'a mut [usize],
        keys: &'a mut [B],
        /// As long as `keys`, where they are wanted.
        values: Option<&'a mut [u8]>,
    },

    /// The live pair at each place in key order.
    Select { indices: &'a [u64], pairs: PairsOut<'a, B> },

    /// The live pair nearest to each key, itself included, on one side of it.
    Nearest { side: Side, keys: &'a [B], pairs: PairsOut<'a, B> },
}

/// Which neighbour [`Query::Nearest`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The least key that is not less.
    Successor,
    /// The greatest key that is not greater.
    Predecessor,
}

/// Where answers of at most one pair per query go; 0 where nothing was found.
pub struct PairsOut<'a, B> {
    pub keys: &'a mut [B],
    pub values: &'a mut [u8],
    pub found: &'a mut [bool],
}

/// What an entry means, in two bits. `live − shadow` over all entries of a key telescopes to 1 if
/// the key is there and to 0 if it is not: that is what makes counting two searches per run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// A regular entry rather than a tombstone.
    pub live: bool,
    /// When the entry arrived, its key was live in the older runs.
    pub shadow: bool,
}

/// What one run holds and takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunStats {
    pub entries: u64,
    pub tombstones: u64,
    pub bytes: Bytes,
}

/// Bytes taken, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bytes {
    /// Sorted keys.
    pub keys: u64,
    /// Values.
    pub values: u64,
    /// Marks: which entries are live, which replace or delete an older one, and running counts.
    pub marks: u64,
    /// Fences: the sampled keys that searches start from.
    pub fences: u64,
    /// Filters: made once lookups, or updates that look for what they replace, ask for them; never needed for an answer.
    pub filters: u64,
}

impl Bytes {
    /// All parts together.
    pub fn total(&self) -> u64 {
        self.keys + self.values + self.marks + self.fences + self.filters
    }
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.values += other.values;
        self.marks += other.marks;
        self.fences += other.fences;
        self.filters += other.filters;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_from_text() {
        assert_eq!("cpu".parse(), Ok(Device::cpu()));
        assert_eq!("best".parse(), Ok(Device::best()));
        assert_eq!("cpu".parse::<Device>().unwrap().to_string(), "cpu");
        for text in ["", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1"] {
            assert_eq!(text.parse::<Device>(), Err(Error::UnknownDevice { text: text.into() }));
        }
    }

    #[test]
    fn the_best_device_is_a_gpu_where_there_is_one() {
        match Device::cuda(0) {
            Ok(gpu) => assert_eq!((Device::best(), gpu.to_string()), (gpu, "cuda".into())),
            Err(error) => {
                assert_eq!(Device::best(), Device::cpu());
                assert!(error.to_string().starts_with("no CUDA device 0: "), "{error}");
            }
        }
        assert!(Device::cuda(1000).is_err());
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn cuda_says_that_it_is_not_built_in() {
        assert_eq!("cuda:3".parse::<Device>(), Err(Error::BuiltWithoutCuda { index: 3 }));
        let message = Device::cuda(0).unwrap_err().to_string();
        assert!(message.contains("built without CUDA"), "{message}");
    }
}
