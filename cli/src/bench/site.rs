//! Where experiments take place. Each device implements [`Site`] in a file of its own: arrays, clocks, the
//! dictionary's calls on such arrays, and the plain structures beside it.

use std::error::Error;
use std::ops::Range;

use gpulsm::{Builder, CleanupPolicy, Dictionary, Snapshot};

use super::numbers::Number;

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Dictionaries here are cleaned up only when asked to.
fn settings<K: Number, V: Number>(batch_size: usize) -> Builder<K, V> {
    Dictionary::builder().batch_size(batch_size).cleanup(CleanupPolicy::Manual)
}

/// A device with its arrays. `K` and `V` are the types of keys and values.
pub trait Site<K: Number, V: Number>: Sized {
    /// One call lists at most so many times as many pairs as there are.
    const LISTED: u64;

    /// An array in the device's memory.
    type Array<T: bytemuck::Pod + Send + Sync>;

    /// Room for whether each key was found.
    type Found;

    /// Room for pairs that are sorted.
    type Sorting;

    /// The sorted array.
    type Sorted;

    /// The hash table.
    type Hash;

    /// An empty dictionary with these settings, here.
    fn build(&self, settings: Builder<K, V>) -> Outcome<Dictionary<K, V>>;

    /// A dictionary that is cleaned up only when asked to.
    fn dictionary(&self, batch_size: usize) -> Outcome<Dictionary<K, V>> {
        self.build(settings(batch_size))
    }

    /// The same, with the paper's levels after every batch: whatever a batch must merge is merged at once.
    fn levels(&self, batch_size: usize) -> Outcome<Dictionary<K, V>> {
        self.build(settings(batch_size).merged_at_once(usize::MAX))
    }

    fn array<T: bytemuck::Pod + Send + Sync>(&self, data: Vec<T>) -> Outcome<Self::Array<T>>;
    fn zeroed<T: bytemuck::Pod + Send + Sync>(&self, len: usize) -> Outcome<Self::Array<T>>;
    fn found(&self, len: usize) -> Outcome<Self::Found>;

    /// How many pairs one call may list here, and leave memory enough for everything else.
    fn most_listed(&self) -> u64;

    /// A copy of a part of an array, on the host.
    fn copy<T: bytemuck::Pod + Send + Sync>(
        &self,
        array: &Self::Array<T>,
        part: Range<usize>,
    ) -> Outcome<Vec<T>>;
    fn copy_found(&self, found: &Self::Found, part: Range<usize>) -> Outcome<Vec<bool>>;

    /// How many seconds the device takes for something, from when it has nothing else to do until it has
    /// nothing to do again.
    fn time(&self, job: impl FnOnce() -> Outcome<()>) -> Outcome<f64>;

    /// One batch of inserts, which may wait for others.
    fn insert(
        &self,
        dictionary: &mut Dictionary<K, V>,
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
    ) -> Outcome<()>;

    /// One batch of inserts, taken in by itself.
    fn take_in(
        &self,
        dictionary: &mut Dictionary<K, V>,
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
    ) -> Outcome<()> {
        self.insert(dictionary, pairs, part)?;
        Ok(dictionary.settle()?)
    }

    /// One batch of inserts and deletes, which may wait for others.
    fn update(
        &self,
        dictionary: &mut Dictionary<K, V>,
        inserts: (&Pairs<Self, K, V>, Range<usize>),
        deletes: (&Self::Array<K>, Range<usize>),
    ) -> Outcome<()>;

    fn lookup(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &Self::Array<K>,
        values: &mut Self::Array<V>,
        found: &mut Self::Found,
    ) -> Outcome<()>;

    fn count(
        &self,
        dictionary: &Snapshot<K, V>,
        ranges: &Ends<Self, K, V>,
        counts: &mut Self::Array<u64>,
    ) -> Outcome<()>;

    /// The pairs of ranges, of which there are as many as `answers` has room for.
    fn range(
        &self,
        dictionary: &Snapshot<K, V>,
        ranges: &Ends<Self, K, V>,
        answers: &mut Listed<Self, K, V>,
    ) -> Outcome<()>;

    fn rank(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &Self::Array<K>,
        ranks: &mut Self::Array<u64>,
    ) -> Outcome<()>;

    fn successor(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &Self::Array<K>,
        answers: &mut Nearest<Self, K, V>,
    ) -> Outcome<()>;

    fn select(
        &self,
        dictionary: &Snapshot<K, V>,
        indices: &Self::Array<u64>,
        answers: &mut Nearest<Self, K, V>,
    ) -> Outcome<()>;

    /// What a sort of the first `len` pairs needs.
    fn sorting(&self, pairs: &Pairs<Self, K, V>, len: usize) -> Outcome<Self::Sorting>;
    /// Sorts them into others, as a build must.
    fn sort(&self, sorting: &mut Self::Sorting, pairs: &Pairs<Self, K, V>) -> Outcome<()>;
    fn output(sorting: &Self::Sorting) -> &Pairs<Self, K, V>;

    /// A sorted array that will hold so many pairs, from batches of at most so many.
    fn sorted(&self, capacity: usize, batch: usize) -> Outcome<Self::Sorted>;
    fn sorted_insert(
        &self,
        sorted: &mut Self::Sorted,
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
    ) -> Outcome<()>;
    fn sorted_lookup(
        &self,
        sorted: &Self::Sorted,
        keys: &Self::Array<K>,
        values: &mut Self::Array<V>,
        found: &mut Self::Found,
    ) -> Outcome<()>;
    fn sorted_count(
        &self,
        sorted: &Self::Sorted,
        ranges: &Ends<Self, K, V>,
        counts: &mut Self::Array<u64>,
    ) -> Outcome<()>;
    fn sorted_range(
        &self,
        sorted: &mut Self::Sorted,
        ranges: &Ends<Self, K, V>,
        answers: &mut Listed<Self, K, V>,
    ) -> Outcome<()>;

    /// A hash table for so many pairs.
    fn hash(&self, capacity: usize) -> Outcome<Self::Hash>;
    /// Fills it with the first `len` pairs and nothing else.
    fn hash_build(
        &self,
        hash: &mut Self::Hash,
        pairs: &Pairs<Self, K, V>,
        len: usize,
    ) -> Outcome<()>;
    fn hash_lookup(
        &self,
        hash: &Self::Hash,
        keys: &Self::Array<K>,
        values: &mut Self::Array<V>,
        found: &mut Self::Found,
    ) -> Outcome<()>;
}

/// Keys and their values.
pub struct Pairs<S: Site<K, V>, K: Number, V: Number> {
    pub keys: S::Array<K>,
    pub values: S::Array<V>,
}

/// The ends of ranges.
pub struct Ends<S: Site<K, V>, K: Number, V: Number> {
    pub lo: S::Array<K>,
    pub hi: S::Array<K>,
    pub len: usize,
}

/// Room for the pairs of ranges, and where each range's begin.
pub struct Listed<S: Site<K, V>, K: Number, V: Number> {
    pub offsets: S::Array<u64>,
    pub keys: S::Array<K>,
    pub values: S::Array<V>,
}

/// Room for answers of at most one pair each.
pub struct Nearest<S: Site<K, V>, K: Number, V: Number> {
    pub keys: S::Array<K>,
    pub values: S::Array<V>,
    pub found: S::Found,
}
