//! A GPU: data that stays in its memory, and its own clock.

use std::ffi::{CStr, c_int, c_void};
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::ptr::null_mut;

use bytemuck::Pod;
use gpulsm::cuda::{DeviceVec, Stream};
use gpulsm::{Combine, Device, Dictionary, ScalarKey, Sum};

use super::ffi::*;
use super::files::{self, InFolder};
use super::{
    Array, Backend, DeviceArray, Kind, LookupOut, NearestOut, Outcome, Pairs, RangeEnds, RangeOut,
    Upkeep, dictionary, dictionary_mut, numbers, settings, typed, typed_mut,
};
use crate::baselines::cuda::{CubSort, ProbedTable, SortedVecs};
use crate::baselines::{HashTable, Sort, SortedArray};
use crate::dictionary::AnyDictionary;
use crate::numbers::{BenchKey, BenchValue, Numbered};

/// The part of the GPU's memory that the pairs of one call may take.
const LISTED_PART: u64 = 8;

pub struct Cuda<K, V> {
    stream: Stream,
    /// Bytes of the GPU's memory.
    memory: u64,
    begin: Event,
    end: Event,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Cuda<K, V> {
    pub fn new(device: Device) -> Outcome<Self> {
        let stream = Stream::new(device)?;
        // SAFETY: no pointers.
        check(unsafe { bench_use(index(device)) })?;
        let memory = properties(device)?.memory;
        let (begin, end) = (Event::new()?, Event::new()?);
        Ok(Cuda { stream, memory, begin, end, types: PhantomData })
    }
}

/// A moment on a stream.
struct Event(*mut c_void);

impl Event {
    fn new() -> Outcome<Self> {
        let mut event = null_mut();
        // SAFETY: the pointer is to a local variable that outlives the call.
        check(unsafe { bench_event_new(&mut event) })?;
        Ok(Event(event))
    }

    fn record(&self, stream: &Stream) -> Outcome<()> {
        // SAFETY: the event and the stream are alive.
        check(unsafe { bench_event_record(self.0, stream.as_raw()) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is alive, and this is its only owner.
        unsafe { bench_event_free(self.0) };
    }
}

/// Returns the index of a GPU.
fn index(device: Device) -> c_int {
    let name = device.to_string();
    name.split_once(':').and_then(|(_, index)| index.parse().ok()).unwrap_or(0)
}

/// Queries the properties of a GPU.
fn properties(device: Device) -> Outcome<Description> {
    let mut of = Description::default();
    // SAFETY: the pointer is to a local variable that outlives the call.
    check(unsafe { bench_describe(index(device), &mut of) })?;
    Ok(of)
}

/// Returns a GPU's name and its other properties.
pub fn describe(device: Device) -> Outcome<(String, Vec<(String, String)>)> {
    let of = properties(device)?;
    let name = CStr::from_bytes_until_nul(&of.name)?.to_string_lossy().into_owned();
    let version = |number: c_int| format!("{}.{}", number / 1000, number % 1000 / 10);
    let details = [
        ("compute capability", format!("{}.{}", of.major, of.minor)),
        ("multiprocessors", of.multiprocessors.to_string()),
        (
            "clocks",
            format!("{} MHz, memory {} MHz", of.clock_khz / 1000, of.memory_clock_khz / 1000),
        ),
        ("memory", format!("{} GiB, L2 {} MiB", of.memory >> 30, of.l2 >> 20)),
        ("driver", format!("{}, for CUDA {}", driver(), version(of.driver))),
        ("built with", format!("CUDA {}", version(of.runtime))),
    ];
    Ok((name, details.map(|(name, what)| (name.to_string(), what)).to_vec()))
}

/// Returns the driver's version where Linux knows it: the first word of digits and dots.
fn driver() -> String {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let is_version = |word: &&str| {
        word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    text.split_whitespace().find(is_version).unwrap_or("version unknown").to_string()
}

/// Turns CUDA's error number into an error.
pub fn check(error: c_int) -> Outcome<()> {
    match error {
        0 => Ok(()),
        _ => Err(format!("CUDA error {error} in a baseline").into()),
    }
}

impl<T: Numbered + Pod> DeviceArray for DeviceVec<T> {
    fn copy(&self, part: Range<usize>) -> Outcome<Vec<u64>> {
        Ok(self.slice(part).to_vec()?.into_iter().map(|number| number.number()).collect())
    }
}

/// Whether each key was found, a byte each.
pub struct Flags(pub DeviceVec<u8>);

impl DeviceArray for Flags {
    fn copy(&self, part: Range<usize>) -> Outcome<Vec<u64>> {
        Ok(self.0.slice(part).to_vec()?.into_iter().map(|flag| u64::from(flag != 0)).collect())
    }
}

/// Returns the vector of an array.
pub fn vec<T: 'static>(array: &Array) -> &DeviceVec<T> {
    typed(array)
}

pub fn vec_mut<T: 'static>(array: &mut Array) -> &mut DeviceVec<T> {
    typed_mut(array)
}

pub fn flags(array: &mut Array) -> &mut DeviceVec<u8> {
    &mut typed_mut::<Flags>(array).0
}

impl<K: BenchKey + ScalarKey, V: BenchValue> Cuda<K, V> {
    fn collect<T: Numbered + Pod>(
        &self,
        len: usize,
        number: &(dyn Fn(usize) -> u64 + Sync),
    ) -> Outcome<Array> {
        let numbers = numbers::<T>(len, number);
        Ok(Box::new(DeviceVec::from_slice(&self.stream, &numbers)?))
    }
}

impl<K: BenchKey + ScalarKey, V: BenchValue> Backend for Cuda<K, V> {
    fn combining(
        &self,
        batch_size: usize,
        upkeep: Upkeep,
        rule: Combine,
    ) -> Outcome<Box<dyn AnyDictionary>> {
        let settings = settings::<K, V>(batch_size, upkeep, rule);
        Ok(Box::new(settings.stream(&self.stream).build()?))
    }

    fn sharded(&self, batch_size: usize, shards: usize) -> Outcome<Box<dyn AnyDictionary>> {
        let settings = settings::<K, V>(batch_size, Upkeep::Automatic, Combine::Replace);
        Ok(Box::new(settings.devices(&vec![self.stream.device(); shards]).build()?))
    }

    fn array(
        &self,
        kind: Kind,
        len: usize,
        number: &(dyn Fn(usize) -> u64 + Sync),
    ) -> Outcome<Array> {
        match kind {
            Kind::Key => self.collect::<K>(len, number),
            Kind::Value => self.collect::<V>(len, number),
            Kind::Count => self.collect::<u64>(len, number),
            Kind::Flag => {
                let flags: Vec<u8> = (0..len).map(|i| u8::from(number(i) != 0)).collect();
                Ok(Box::new(Flags(DeviceVec::from_slice(&self.stream, &flags)?)))
            }
        }
    }

    fn zeroed(&self, kind: Kind, len: usize) -> Outcome<Array> {
        let stream = &self.stream;
        Ok(match kind {
            Kind::Key => Box::new(DeviceVec::<K>::zeroed(stream, len)?),
            Kind::Value => Box::new(DeviceVec::<V>::zeroed(stream, len)?),
            Kind::Count => Box::new(DeviceVec::<u64>::zeroed(stream, len)?),
            Kind::Flag => Box::new(Flags(DeviceVec::zeroed(stream, len)?)),
        })
    }

    fn max_listed_factor(&self) -> u64 {
        64 // That is a million ranges of 1,024 among 2^24 pairs.
    }

    fn max_listed(&self) -> u64 {
        self.memory / LISTED_PART / (size_of::<K>() + size_of::<V>()) as u64
    }

    fn time(&self, job: &mut dyn FnMut() -> Outcome<()>) -> Outcome<f64> {
        self.stream.synchronize()?;
        self.begin.record(&self.stream)?;
        job()?;
        self.end.record(&self.stream)?;
        self.stream.synchronize()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive and recorded; the pointer is to a local variable that outlives
        // the call.
        check(unsafe { bench_event_elapsed(self.begin.0, self.end.0, &mut milliseconds) })?;
        Ok(f64::from(milliseconds) / 1e3)
    }

    fn insert(
        &self,
        any: &mut dyn AnyDictionary,
        pairs: &Pairs,
        part: Range<usize>,
    ) -> Outcome<()> {
        let (keys, values) = (vec(&pairs.keys).slice(part.clone()), vec(&pairs.values).slice(part));
        Ok(dictionary_mut::<K, V>(any).resident_mut()?.insert(keys, values)?)
    }

    fn update(
        &self,
        any: &mut dyn AnyDictionary,
        (inserts, part): (&Pairs, Range<usize>),
        (deletes, deleted): (&Array, Range<usize>),
    ) -> Outcome<()> {
        let (keys, values) = (vec(&inserts.keys), vec(&inserts.values));
        let (keys, values) = (keys.slice(part.clone()), values.slice(part));
        let deletes = vec(deletes).slice(deleted);
        Ok(dictionary_mut::<K, V>(any).resident_mut()?.update(keys, values, deletes)?)
    }

    fn delete_range(&self, any: &mut dyn AnyDictionary, (lo, hi): (u64, u64)) -> Outcome<()> {
        let dictionary = dictionary_mut::<K, V>(any);
        dictionary.delete_range_one((K::of_number(lo), K::of_number(hi)))?;
        Ok(dictionary.flush()?)
    }

    fn insert_one(&self, any: &mut dyn AnyDictionary, (key, value): (u64, u64)) -> Outcome<()> {
        Ok(dictionary_mut::<K, V>(any).insert_one(K::of_number(key), V::of_number(value))?)
    }

    fn lookup_one(&self, any: &dyn AnyDictionary, key: u64) -> Outcome<Option<u64>> {
        let value = dictionary::<K, V>(any).lookup_one(K::of_number(key))?;
        Ok(value.map(V::number))
    }

    fn lookup(&self, any: &dyn AnyDictionary, keys: &Array, out: &mut LookupOut) -> Outcome<()> {
        let LookupOut { values, found } = out;
        let (values, found) = (vec_mut(values), flags(found));
        Ok(dictionary::<K, V>(any).resident()?.lookup(vec(keys), values, found)?)
    }

    fn count(
        &self,
        any: &dyn AnyDictionary,
        ranges: &RangeEnds,
        counts: &mut Array,
    ) -> Outcome<()> {
        let (lo, hi) = (vec(&ranges.lo), vec(&ranges.hi));
        Ok(dictionary::<K, V>(any).resident()?.count(lo, hi, vec_mut(counts))?)
    }

    fn range(
        &self,
        any: &dyn AnyDictionary,
        ranges: &RangeEnds,
        out: &mut RangeOut,
    ) -> Outcome<()> {
        let (lo, hi) = (vec(&ranges.lo), vec(&ranges.hi));
        let RangeOut { offsets, keys, values } = out;
        let (keys, values) = (vec_mut(keys), vec_mut(values));
        let offsets = vec_mut(offsets);
        Ok(dictionary::<K, V>(any).resident()?.range(lo, hi, offsets, keys, values)?)
    }

    fn sum(
        &self,
        any: &dyn AnyDictionary,
        ranges: &RangeEnds,
        sums: &mut Array,
        counts: &mut Array,
    ) -> Outcome<()> {
        let (lo, hi) = (vec(&ranges.lo), vec(&ranges.hi));
        let resident = dictionary::<K, V>(any).resident()?;
        Ok(resident.aggregate(lo, hi, Sum, vec_mut(sums), vec_mut(counts))?)
    }

    fn rank(&self, any: &dyn AnyDictionary, keys: &Array, ranks: &mut Array) -> Outcome<()> {
        let resident = dictionary::<K, V>(any).resident()?;
        Ok(resident.rank(vec(keys), vec_mut(ranks))?)
    }

    fn successor(
        &self,
        any: &dyn AnyDictionary,
        keys: &Array,
        out: &mut NearestOut,
    ) -> Outcome<()> {
        let NearestOut { keys: near, values, found } = out;
        let (near, values) = (vec_mut(near), vec_mut(values));
        let resident = dictionary::<K, V>(any).resident()?;
        Ok(resident.successor(vec(keys), near, values, flags(found))?)
    }

    fn select(
        &self,
        any: &dyn AnyDictionary,
        indices: &Array,
        out: &mut NearestOut,
    ) -> Outcome<()> {
        let NearestOut { keys, values, found } = out;
        let (keys, values) = (vec_mut(keys), vec_mut(values));
        let resident = dictionary::<K, V>(any).resident()?;
        Ok(resident.select(vec(indices), keys, values, flags(found))?)
    }

    fn save(&self, any: &dyn AnyDictionary, path: &Path) -> Outcome<()> {
        files::save::<K, V>(any, path)
    }

    fn load(&self, path: &Path) -> Outcome<Box<dyn AnyDictionary>> {
        files::load(Dictionary::<K, V>::builder().stream(&self.stream), path)
    }

    fn open(&self, batch_size: usize, folder: InFolder<'_>) -> Outcome<Box<dyn AnyDictionary>> {
        let settings = settings::<K, V>(batch_size, Upkeep::Automatic, Combine::Replace);
        files::open(settings.stream(&self.stream), folder)
    }

    fn pair_bytes(&self) -> usize {
        size_of::<K>() + size_of::<V>()
    }

    fn is_cuda(&self) -> bool {
        true
    }

    fn copy_to_host(&self, pairs: &Pairs, part: Range<usize>) -> Outcome<()> {
        black_box(vec::<K>(&pairs.keys).slice(part.clone()).to_vec()?);
        black_box(vec::<V>(&pairs.values).slice(part).to_vec()?);
        Ok(())
    }

    fn has_baselines(&self) -> bool {
        size_of::<K>() <= 8 // Their kernels know no wider keys.
    }

    fn sort(&self, pairs: &Pairs, len: usize) -> Outcome<Box<dyn Sort>> {
        Ok(Box::new(CubSort::<K, V>::new(&self.stream, pairs, len)?))
    }

    fn sorted_array(&self, capacity: usize, batch: usize) -> Outcome<Box<dyn SortedArray>> {
        Ok(Box::new(SortedVecs::<K, V>::new(&self.stream, capacity, batch)?))
    }

    fn hash_table(&self, capacity: usize) -> Outcome<Box<dyn HashTable>> {
        Ok(Box::new(ProbedTable::<K, V>::new(&self.stream, capacity)?))
    }
}
