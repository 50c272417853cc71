//! A GPU as a place for experiments: data that stays in its memory, its own clock, and the plain
//! structures of `kernels/baselines.cu`.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;

use gpulsm::cuda::{DeviceSlice, DeviceVec, Stream};
use gpulsm::{Builder, Device, Dictionary, Snapshot};

use super::ffi::*;
use super::numbers::Number;
use super::site::{Ends, Listed, Nearest, Outcome, Pairs, Site};

/// Pairs that a call lists take no more than this part of the GPU's memory.
const LISTED_PART: u64 = 8;

pub struct Cuda {
    stream: Stream,
    /// Bytes of the GPU's memory.
    memory: u64,
    begin: Event,
    end: Event,
}

impl Cuda {
    pub fn new(device: Device) -> Outcome<Self> {
        let stream = Stream::new(device)?;
        // SAFETY: no pointers.
        check(unsafe { bench_use(index(device)) })?;
        let memory = ask(device)?.memory;
        Ok(Cuda { stream, memory, begin: Event::new()?, end: Event::new()? })
    }
}

/// A moment on a stream.
struct Event(*mut c_void);

impl Event {
    fn new() -> Outcome<Self> {
        let mut event = null_mut();
        // SAFETY: the address of a local variable.
        check(unsafe { bench_event_new(&mut event) })?;
        Ok(Event(event))
    }

    fn record(&self, stream: &Stream) -> Outcome<()> {
        // SAFETY: both are alive.
        check(unsafe { bench_event_record(self.0, stream.as_raw()) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is alive, and nobody else knows it.
        unsafe { bench_event_free(self.0) };
    }
}

/// Which GPU it is.
fn index(device: Device) -> c_int {
    let name = device.to_string();
    name.split_once(':').and_then(|(_, index)| index.parse().ok()).unwrap_or(0)
}

/// What a GPU says of itself.
fn ask(device: Device) -> Outcome<Description> {
    let mut of = Description::default();
    // SAFETY: the address of a local variable.
    check(unsafe { bench_describe(index(device), &mut of) })?;
    Ok(of)
}

/// A GPU's name, and what else there is to tell.
pub fn describe(device: Device) -> Outcome<(String, Vec<(String, String)>)> {
    let of = ask(device)?;
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

/// The driver's version, where Linux tells it: the first word with two dots, or one, and digits.
fn driver() -> String {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let is_version = |word: &&str| {
        word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    text.split_whitespace().find(is_version).unwrap_or("version unknown").to_string()
}

/// An error that names CUDA's number for it.
fn check(error: c_int) -> Outcome<()> {
    match error {
        0 => Ok(()),
        _ => Err(format!("CUDA error {error} in what is measured beside the dictionary").into()),
    }
}

/// The address of a vector, for kernels that read or write it.
fn at<T: bytemuck::Pod>(vector: &DeviceVec<T>) -> *mut c_void {
    vector.as_ptr().cast_mut().cast()
}

/// The address of a part of a vector.
fn part_at<T: bytemuck::Pod>(vector: &DeviceVec<T>, part: Range<usize>) -> *mut c_void {
    let slice: DeviceSlice<'_, T> = vector.slice(part);
    slice.as_ptr().cast_mut().cast()
}

fn width<T>() -> c_int {
    size_of::<T>() as c_int
}

/// Room for sorted pairs, and for what CUB's sort needs on the way.
pub struct Sorting<K: Number, V: Number> {
    output: Pairs<Cuda, K, V>,
    room: DeviceVec<u8>,
}

/// Pairs in key order, and room for as many: a batch is sorted, then merged from one into the other.
pub struct Sorted<K, V> {
    keys: [DeviceVec<K>; 2],
    values: [DeviceVec<V>; 2],
    now: usize,
    len: usize,
    batch: (DeviceVec<K>, DeviceVec<V>),
    room: DeviceVec<u8>,
    starts: DeviceVec<u64>,
}

/// A table of slots, four of five of them taken at most.
pub struct Hash<K, V> {
    keys: DeviceVec<K>,
    values: DeviceVec<V>,
}

/// Asks how many bytes of working space a call needs.
fn room_for(call: impl Fn(*mut c_void, &mut usize) -> c_int) -> Outcome<usize> {
    let mut bytes = 0;
    check(call(null_mut(), &mut bytes))?;
    Ok(bytes.max(1))
}

impl<K: Number, V: Number> Sorted<K, V> {
    fn lookup(&self) -> (*mut c_void, *mut c_void, u64) {
        (at(&self.keys[self.now]), at(&self.values[self.now]), self.len as u64)
    }
}

impl Cuda {
    /// Sorts a part of pairs; with no room, says how much it needs.
    fn sort_into<K: Number, V: Number>(
        &self,
        (room, bytes): (*mut c_void, &mut usize),
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
        out: (&DeviceVec<K>, &DeviceVec<V>),
    ) -> c_int {
        // SAFETY: the part lies in both vectors of pairs, as many fit into the output, the room is as
        // large as was asked for, and all are used on the one stream there is.
        unsafe {
            bench_sort(
                width::<K>(),
                width::<V>(),
                room,
                bytes,
                part_at(&pairs.keys, part.clone()),
                at(out.0),
                part_at(&pairs.values, part.clone()),
                at(out.1),
                part.len() as u64,
                self.stream.as_raw(),
            )
        }
    }

    /// Merges a sorted batch of `len` pairs with all of a sorted array; with no room, as above.
    fn merge_into<K: Number, V: Number>(
        &self,
        (room, bytes): (*mut c_void, &mut usize),
        sorted: &Sorted<K, V>,
        len: usize,
    ) -> c_int {
        let (keys, values, there) = sorted.lookup();
        // SAFETY: there are as many pairs as said, their sum fits into the other half, the room is as
        // large as was asked for, and all are used on the one stream there is.
        unsafe {
            bench_merge(
                width::<K>(),
                width::<V>(),
                room,
                bytes,
                keys,
                values,
                there,
                at(&sorted.batch.0),
                at(&sorted.batch.1),
                len as u64,
                at(&sorted.keys[1 - sorted.now]),
                at(&sorted.values[1 - sorted.now]),
                self.stream.as_raw(),
            )
        }
    }
}

impl<K: Number, V: Number> Site<K, V> for Cuda {
    const LISTED: u64 = 64; // That is a million ranges of 1,024 among 2^24 pairs.

    type Array<T: bytemuck::Pod + Send + Sync> = DeviceVec<T>;
    type Found = DeviceVec<u8>;
    type Sorting = Sorting<K, V>;
    type Sorted = Sorted<K, V>;
    type Hash = Hash<K, V>;

    fn build(&self, settings: Builder<K, V>) -> Outcome<Dictionary<K, V>> {
        Ok(settings.stream(&self.stream).build()?)
    }

    fn array<T: bytemuck::Pod + Send + Sync>(&self, data: Vec<T>) -> Outcome<DeviceVec<T>> {
        Ok(DeviceVec::from_slice(&self.stream, &data)?)
    }

    fn zeroed<T: bytemuck::Pod + Send + Sync>(&self, len: usize) -> Outcome<DeviceVec<T>> {
        Ok(DeviceVec::zeroed(&self.stream, len)?)
    }

    fn most_listed(&self) -> u64 {
        self.memory / LISTED_PART / (size_of::<K>() + size_of::<V>()) as u64
    }

    fn found(&self, len: usize) -> Outcome<DeviceVec<u8>> {
        Ok(DeviceVec::zeroed(&self.stream, len)?)
    }

    fn copy<T: bytemuck::Pod + Send + Sync>(
        &self,
        array: &DeviceVec<T>,
        part: Range<usize>,
    ) -> Outcome<Vec<T>> {
        Ok(array.slice(part).to_vec()?)
    }

    fn copy_found(&self, found: &DeviceVec<u8>, part: Range<usize>) -> Outcome<Vec<bool>> {
        Ok(found.slice(part).to_vec()?.into_iter().map(|found| found != 0).collect())
    }

    fn time(&self, job: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
        self.stream.synchronize()?;
        self.begin.record(&self.stream)?;
        job()?;
        self.end.record(&self.stream)?;
        self.stream.synchronize()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive and recorded; the address of a local variable.
        check(unsafe { bench_event_elapsed(self.begin.0, self.end.0, &mut milliseconds) })?;
        Ok(f64::from(milliseconds) / 1e3)
    }

    fn insert(
        &self,
        dictionary: &mut Dictionary<K, V>,
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
    ) -> Outcome<()> {
        let (keys, values) = (pairs.keys.slice(part.clone()), pairs.values.slice(part));
        Ok(dictionary.resident_mut()?.insert(keys, values)?)
    }

    fn update(
        &self,
        dictionary: &mut Dictionary<K, V>,
        (inserts, part): (&Pairs<Self, K, V>, Range<usize>),
        (deletes, deleted): (&DeviceVec<K>, Range<usize>),
    ) -> Outcome<()> {
        let (keys, values) = (inserts.keys.slice(part.clone()), inserts.values.slice(part));
        Ok(dictionary.resident_mut()?.update(keys, values, deletes.slice(deleted))?)
    }

    fn lookup(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &DeviceVec<K>,
        values: &mut DeviceVec<V>,
        found: &mut DeviceVec<u8>,
    ) -> Outcome<()> {
        Ok(dictionary.resident()?.lookup(keys.into(), values.into(), found.into())?)
    }

    fn count(
        &self,
        dictionary: &Snapshot<K, V>,
        ranges: &Ends<Self, K, V>,
        counts: &mut DeviceVec<u64>,
    ) -> Outcome<()> {
        let (lo, hi) = ((&ranges.lo).into(), (&ranges.hi).into());
        Ok(dictionary.resident()?.count(lo, hi, counts.into())?)
    }

    fn range(
        &self,
        dictionary: &Snapshot<K, V>,
        ranges: &Ends<Self, K, V>,
        answers: &mut Listed<Self, K, V>,
    ) -> Outcome<()> {
        let (lo, hi) = ((&ranges.lo).into(), (&ranges.hi).into());
        let Listed { offsets, keys, values } = answers;
        Ok(dictionary.resident()?.range(lo, hi, offsets.into(), keys.into(), values.into())?)
    }

    fn rank(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &DeviceVec<K>,
        ranks: &mut DeviceVec<u64>,
    ) -> Outcome<()> {
        Ok(dictionary.resident()?.rank(keys.into(), ranks.into())?)
    }

    fn successor(
        &self,
        dictionary: &Snapshot<K, V>,
        keys: &DeviceVec<K>,
        answers: &mut Nearest<Self, K, V>,
    ) -> Outcome<()> {
        let Nearest { keys: out, values, found } = answers;
        Ok(dictionary.resident()?.successor(
            keys.into(),
            out.into(),
            values.into(),
            found.into(),
        )?)
    }

    fn select(
        &self,
        dictionary: &Snapshot<K, V>,
        indices: &DeviceVec<u64>,
        answers: &mut Nearest<Self, K, V>,
    ) -> Outcome<()> {
        let Nearest { keys, values, found } = answers;
        Ok(dictionary.resident()?.select(
            indices.into(),
            keys.into(),
            values.into(),
            found.into(),
        )?)
    }

    fn sorting(&self, pairs: &Pairs<Self, K, V>, len: usize) -> Outcome<Sorting<K, V>> {
        let (keys, values) =
            (DeviceVec::zeroed(&self.stream, len)?, DeviceVec::zeroed(&self.stream, len)?);
        let bytes =
            room_for(|room, bytes| self.sort_into((room, bytes), pairs, 0..len, (&keys, &values)))?;
        let room = DeviceVec::zeroed(&self.stream, bytes)?;
        Ok(Sorting { output: Pairs { keys, values }, room })
    }

    fn sort(&self, sorting: &mut Sorting<K, V>, pairs: &Pairs<Self, K, V>) -> Outcome<()> {
        let Pairs { keys, values } = &sorting.output;
        let mut bytes = sorting.room.len();
        check(self.sort_into((at(&sorting.room), &mut bytes), pairs, 0..keys.len(), (keys, values)))
    }

    fn output(sorting: &Sorting<K, V>) -> &Pairs<Self, K, V> {
        &sorting.output
    }

    fn sorted(&self, capacity: usize, batch: usize) -> Outcome<Sorted<K, V>> {
        let stream = &self.stream;
        let keys = |len| DeviceVec::<K>::zeroed(stream, len);
        let values = |len| DeviceVec::<V>::zeroed(stream, len);
        let mut sorted = Sorted {
            keys: [keys(capacity)?, keys(capacity)?],
            values: [values(capacity)?, values(capacity)?],
            now: 0,
            len: capacity - batch,
            batch: (keys(batch)?, values(batch)?),
            room: DeviceVec::zeroed(stream, 1)?,
            starts: DeviceVec::zeroed(stream, 1)?,
        };
        let pairs = Pairs { keys: keys(batch)?, values: values(batch)? };
        let out = (&sorted.batch.0, &sorted.batch.1);
        let sort = room_for(|room, bytes| self.sort_into((room, bytes), &pairs, 0..batch, out))?;
        let merge = room_for(|room, bytes| self.merge_into((room, bytes), &sorted, batch))?;
        sorted.room = DeviceVec::zeroed(stream, sort.max(merge))?;
        sorted.len = 0;
        Ok(sorted)
    }

    fn sorted_insert(
        &self,
        sorted: &mut Sorted<K, V>,
        pairs: &Pairs<Self, K, V>,
        part: Range<usize>,
    ) -> Outcome<()> {
        let (room, mut bytes, len) = (at(&sorted.room), sorted.room.len(), part.len());
        let out = (&sorted.batch.0, &sorted.batch.1);
        check(self.sort_into((room, &mut bytes), pairs, part, out))?;
        check(self.merge_into((room, &mut bytes), sorted, len))?;
        (sorted.now, sorted.len) = (1 - sorted.now, sorted.len + len);
        Ok(())
    }

    fn sorted_lookup(
        &self,
        sorted: &Sorted<K, V>,
        queries: &DeviceVec<K>,
        answers: &mut DeviceVec<V>,
        found: &mut DeviceVec<u8>,
    ) -> Outcome<()> {
        let (keys, values, len) = sorted.lookup();
        // SAFETY: there are `len` pairs, and as much room for answers as there are queries.
        check(unsafe {
            bench_array_lookup(
                width::<K>(),
                width::<V>(),
                keys,
                values,
                len,
                at(queries),
                queries.len() as u64,
                at(answers),
                at(found),
                self.stream.as_raw(),
            )
        })
    }

    fn sorted_count(
        &self,
        sorted: &Sorted<K, V>,
        ranges: &Ends<Self, K, V>,
        counts: &mut DeviceVec<u64>,
    ) -> Outcome<()> {
        let (keys, _, len) = sorted.lookup();
        // SAFETY: there are `len` keys, and `ranges.len` ends of each kind and counts.
        check(unsafe {
            bench_array_count(
                width::<K>(),
                keys,
                len,
                at(&ranges.lo),
                at(&ranges.hi),
                ranges.len as u64,
                at(counts),
                self.stream.as_raw(),
            )
        })
    }

    fn sorted_range(
        &self,
        sorted: &mut Sorted<K, V>,
        ranges: &Ends<Self, K, V>,
        answers: &mut Listed<Self, K, V>,
    ) -> Outcome<()> {
        let (keys, values, len) = sorted.lookup();
        let call = |room: *mut c_void, bytes: &mut usize, starts: *mut c_void| {
            // SAFETY: there are `len` pairs, `ranges.len` ends of each kind and starts, one more offset,
            // and room for as many pairs as the ranges have.
            unsafe {
                bench_array_range(
                    width::<K>(),
                    width::<V>(),
                    room,
                    bytes,
                    keys,
                    values,
                    len,
                    at(&ranges.lo),
                    at(&ranges.hi),
                    ranges.len as u64,
                    starts,
                    at(&answers.offsets),
                    at(&answers.keys),
                    at(&answers.values),
                    self.stream.as_raw(),
                )
            }
        };
        let mut bytes = room_for(|room, bytes| call(room, bytes, null_mut()))?;
        // Made by the first call, which warms up.
        if sorted.room.len() < bytes {
            sorted.room = DeviceVec::zeroed(&self.stream, bytes)?;
        }
        if sorted.starts.len() < ranges.len {
            sorted.starts = DeviceVec::zeroed(&self.stream, ranges.len)?;
        }
        check(call(at(&sorted.room), &mut bytes, at(&sorted.starts)))
    }

    fn hash(&self, capacity: usize) -> Outcome<Hash<K, V>> {
        let slots = capacity * 5 / 4 + 1;
        let keys = DeviceVec::zeroed(&self.stream, slots)?;
        Ok(Hash { keys, values: DeviceVec::zeroed(&self.stream, slots)? })
    }

    fn hash_build(
        &self,
        hash: &mut Hash<K, V>,
        pairs: &Pairs<Self, K, V>,
        len: usize,
    ) -> Outcome<()> {
        // SAFETY: there are `len` pairs, fewer than slots, none with the largest key, which marks a
        // slot that is free.
        check(unsafe {
            bench_hash_build(
                width::<K>(),
                width::<V>(),
                at(&hash.keys),
                at(&hash.values),
                hash.keys.len() as u64,
                at(&pairs.keys),
                at(&pairs.values),
                len as u64,
                self.stream.as_raw(),
            )
        })
    }

    fn hash_lookup(
        &self,
        hash: &Hash<K, V>,
        queries: &DeviceVec<K>,
        answers: &mut DeviceVec<V>,
        found: &mut DeviceVec<u8>,
    ) -> Outcome<()> {
        // SAFETY: as many answers as queries; some slot is free, where a search ends.
        check(unsafe {
            bench_hash_lookup(
                width::<K>(),
                width::<V>(),
                at(&hash.keys),
                at(&hash.values),
                hash.keys.len() as u64,
                at(queries),
                queries.len() as u64,
                at(answers),
                at(found),
                self.stream.as_raw(),
            )
        })
    }
}
