//! The CPU: vectors and the monotonic clock.

use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use gpulsm::{Batch, Combine, Device, Dictionary, Sum};

use super::files::{self, InFolder};
use super::{
    Array, Backend, DeviceArray, Kind, LookupOut, NearestOut, Outcome, Pairs, RangeEnds, RangeOut,
    Upkeep, dictionary, dictionary_mut, numbers, settings, typed, typed_mut,
};
use crate::baselines::cpu::{RadixSort, ShardedTable, SortedVecs};
use crate::baselines::{HashTable, Sort, SortedArray};
use crate::dictionary::AnyDictionary;
use crate::numbers::{BenchKey, BenchValue, Numbered};

pub struct Cpu<K, V>(PhantomData<fn() -> (K, V)>);

impl<K, V> Cpu<K, V> {
    pub fn new() -> Self {
        Cpu(PhantomData)
    }
}

impl<T: Numbered> DeviceArray for Vec<T> {
    fn copy(&self, part: Range<usize>) -> Outcome<Vec<u64>> {
        Ok(self[part].iter().map(|number| number.number()).collect())
    }
}

impl DeviceArray for Vec<bool> {
    fn copy(&self, part: Range<usize>) -> Outcome<Vec<u64>> {
        Ok(self[part].iter().map(|&flag| flag.into()).collect())
    }
}

/// Returns the vector of an array.
pub fn vec<T: 'static>(array: &Array) -> &Vec<T> {
    typed(array)
}

pub fn vec_mut<T: 'static>(array: &mut Array) -> &mut Vec<T> {
    typed_mut(array)
}

fn collect<T: Numbered>(len: usize, number: &(dyn Fn(usize) -> u64 + Sync)) -> Array {
    let numbers = numbers::<T>(len, number);
    Box::new(numbers)
}

/// Returns zeros that are written, so that the system maps no memory while the clock runs.
fn zeros<T: Copy>(zero: T, len: usize) -> Vec<T> {
    let mut zeros = Vec::with_capacity(len);
    zeros.resize(len, zero);
    zeros
}

impl<K: BenchKey, V: BenchValue> Backend for Cpu<K, V> {
    fn combining(
        &self,
        batch_size: usize,
        upkeep: Upkeep,
        rule: Combine,
    ) -> Outcome<Box<dyn AnyDictionary>> {
        let settings = settings::<K, V>(batch_size, upkeep, rule);
        Ok(Box::new(settings.device(Device::cpu()).build()?))
    }

    fn sharded(&self, batch_size: usize, shards: usize) -> Outcome<Box<dyn AnyDictionary>> {
        let settings = settings::<K, V>(batch_size, Upkeep::Automatic, Combine::Replace);
        let threads = std::thread::available_parallelism()?.get() / shards;
        let settings = settings.devices(&vec![Device::cpu(); shards]).threads(threads.max(1));
        Ok(Box::new(settings.build()?))
    }

    fn array(
        &self,
        kind: Kind,
        len: usize,
        number: &(dyn Fn(usize) -> u64 + Sync),
    ) -> Outcome<Array> {
        Ok(match kind {
            Kind::Key => collect::<K>(len, number),
            Kind::Value => collect::<V>(len, number),
            Kind::Count => collect::<u64>(len, number),
            Kind::Flag => Box::new((0..len).map(|i| number(i) != 0).collect::<Vec<bool>>()),
        })
    }

    fn zeroed(&self, kind: Kind, len: usize) -> Outcome<Array> {
        Ok(match kind {
            Kind::Key => Box::new(zeros(K::of_number(0), len)),
            Kind::Value => Box::new(zeros(V::of_number(0), len)),
            Kind::Count => Box::new(zeros(0u64, len)),
            Kind::Flag => Box::new(zeros(false, len)),
        })
    }

    fn max_listed_factor(&self) -> u64 {
        8 // More would take minutes.
    }

    fn max_listed(&self) -> u64 {
        u64::MAX // The factor limits it.
    }

    fn time(&self, job: &mut dyn FnMut() -> Outcome<()>) -> Outcome<f64> {
        let start = Instant::now();
        job()?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn insert(
        &self,
        any: &mut dyn AnyDictionary,
        pairs: &Pairs,
        part: Range<usize>,
    ) -> Outcome<()> {
        let (keys, values) = (&vec(&pairs.keys)[part.clone()], &vec(&pairs.values)[part]);
        Ok(dictionary_mut::<K, V>(any).insert(keys, values)?)
    }

    fn update(
        &self,
        any: &mut dyn AnyDictionary,
        (inserts, part): (&Pairs, Range<usize>),
        (deletes, deleted): (&Array, Range<usize>),
    ) -> Outcome<()> {
        let (keys, values) = (&vec(&inserts.keys)[part.clone()], &vec(&inserts.values)[part]);
        let batch = Batch::new().insert(keys, values).delete(&vec(deletes)[deleted]);
        Ok(dictionary_mut::<K, V>(any).update(batch)?)
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
        let (values, found) = (vec_mut(values), vec_mut(found));
        Ok(dictionary::<K, V>(any).lookup_into(vec(keys), values, found)?)
    }

    fn count(
        &self,
        any: &dyn AnyDictionary,
        ranges: &RangeEnds,
        counts: &mut Array,
    ) -> Outcome<()> {
        let (lo, hi) = (vec(&ranges.lo), vec(&ranges.hi));
        Ok(dictionary::<K, V>(any).count_into((lo, hi), vec_mut(counts))?)
    }

    fn range(
        &self,
        any: &dyn AnyDictionary,
        ranges: &RangeEnds,
        out: &mut RangeOut,
    ) -> Outcome<()> {
        let (lo, hi) = (vec(&ranges.lo), vec(&ranges.hi));
        let offsets = bytemuck::cast_slice_mut(vec_mut::<u64>(&mut out.offsets));
        let (keys, values) = (vec_mut(&mut out.keys), vec_mut(&mut out.values));
        dictionary::<K, V>(any).range_into((lo, hi), offsets, keys, values)?;
        Ok(())
    }

    fn sum(
        &self,
        any: &dyn AnyDictionary,
        ranges: &RangeEnds,
        sums: &mut Array,
        counts: &mut Array,
    ) -> Outcome<()> {
        let (ends, counts) = ((vec(&ranges.lo), vec(&ranges.hi)), vec_mut(counts));
        Ok(dictionary::<K, V>(any).aggregate_into(ends, Sum, vec_mut(sums), counts)?)
    }

    fn rank(&self, any: &dyn AnyDictionary, keys: &Array, ranks: &mut Array) -> Outcome<()> {
        Ok(dictionary::<K, V>(any).rank_into(vec(keys), vec_mut(ranks))?)
    }

    fn successor(
        &self,
        any: &dyn AnyDictionary,
        keys: &Array,
        out: &mut NearestOut,
    ) -> Outcome<()> {
        let (near, values) = (vec_mut(&mut out.keys), vec_mut(&mut out.values));
        let found = vec_mut(&mut out.found);
        Ok(dictionary::<K, V>(any).successor_into(vec(keys), near, values, found)?)
    }

    fn select(
        &self,
        any: &dyn AnyDictionary,
        indices: &Array,
        out: &mut NearestOut,
    ) -> Outcome<()> {
        let (keys, values) = (vec_mut(&mut out.keys), vec_mut(&mut out.values));
        let found = vec_mut(&mut out.found);
        Ok(dictionary::<K, V>(any).select_into(vec(indices), keys, values, found)?)
    }

    fn save(&self, any: &dyn AnyDictionary, path: &Path) -> Outcome<()> {
        files::save::<K, V>(any, path)
    }

    fn load(&self, path: &Path) -> Outcome<Box<dyn AnyDictionary>> {
        files::load(Dictionary::<K, V>::builder().device(Device::cpu()), path)
    }

    fn open(&self, batch_size: usize, folder: InFolder<'_>) -> Outcome<Box<dyn AnyDictionary>> {
        let settings = settings::<K, V>(batch_size, Upkeep::Automatic, Combine::Replace);
        files::open(settings.device(Device::cpu()), folder)
    }

    fn pair_bytes(&self) -> usize {
        size_of::<K>() + size_of::<V>()
    }

    fn copy_to_host(&self, pairs: &Pairs, part: Range<usize>) -> Outcome<()> {
        black_box(vec::<K>(&pairs.keys)[part.clone()].to_vec());
        black_box(vec::<V>(&pairs.values)[part].to_vec());
        Ok(())
    }

    fn sort(&self, _: &Pairs, len: usize) -> Outcome<Box<dyn Sort>> {
        let (keys, values) = (self.zeroed(Kind::Key, len)?, self.zeroed(Kind::Value, len)?);
        Ok(Box::new(RadixSort::<K, V>::new(Pairs { keys, values })))
    }

    fn sorted_array(&self, capacity: usize, _batch: usize) -> Outcome<Box<dyn SortedArray>> {
        Ok(Box::new(SortedVecs::<K, V>::with_capacity(capacity)))
    }

    fn hash_table(&self, capacity: usize) -> Outcome<Box<dyn HashTable>> {
        Ok(Box::new(ShardedTable::<K, V>::with_capacity(capacity)))
    }
}
