//! Rates on a GPU, data on the device, every answer checked; CUB's sort beside the build.

use std::ffi::c_void;
use std::time::Instant;

use bytemuck::Pod;
use gpulsm::cuda::{DeviceVec, Stream};
use gpulsm::{CleanupPolicy, Device, Dictionary, Key, Value};

/// Entries of the dictionaries, and queries asked of them.
const N: u64 = 1 << 24;

/// Times each measurement is made; the median counts.
const REPEATS: usize = 5;

unsafe extern "C" {
    fn rivals_fill(
        width: i32,
        keys: *mut c_void,
        values: *mut c_void,
        first: u64,
        step: u64,
        modulus: u64,
        len: u64,
        stream: *mut c_void,
    ) -> i32;
    fn rivals_widen(
        width: i32,
        lo: *const c_void,
        hi: *mut c_void,
        by: u64,
        len: u64,
        stream: *mut c_void,
    ) -> i32;
    fn rivals_sort(
        width: i32,
        temp: *mut c_void,
        bytes: *mut usize,
        keys: *const c_void,
        keys_out: *mut c_void,
        values: *const c_void,
        values_out: *mut c_void,
        len: u64,
        stream: *mut c_void,
    ) -> i32;
}

/// A number that serves as key and as value.
trait Number: Key + Value + Ord {
    fn mixed(number: u64) -> Self;
    fn of(number: u64) -> Self;
    fn wide(self) -> u64;
    const BITS: u32 = size_of::<Self>() as u32 * 8;
}

impl Number for u32 {
    fn mixed(number: u64) -> Self {
        let mut x = number as u32;
        x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
        x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
        x ^ x >> 16
    }

    fn of(number: u64) -> Self {
        number as u32
    }

    fn wide(self) -> u64 {
        u64::from(self)
    }
}

impl Number for u64 {
    fn mixed(number: u64) -> Self {
        let mut x = number;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn of(number: u64) -> Self {
        number
    }

    fn wide(self) -> u64 {
        self
    }
}

/// Numbers on the GPU: their keys, and themselves as values.
struct Pairs<T> {
    keys: DeviceVec<T>,
    values: DeviceVec<T>,
}

impl<T: Number> Pairs<T> {
    fn new(stream: &Stream, first: u64, step: u64, modulus: u64, len: u64) -> Self {
        let zeroed = || DeviceVec::<T>::zeroed(stream, len as usize).unwrap();
        let (keys, values) = (zeroed(), zeroed());
        // SAFETY: both vectors have `len` elements and are used on their own stream.
        let error = unsafe {
            let (keys, values) =
                (keys.as_ptr().cast_mut().cast(), values.as_ptr().cast_mut().cast());
            rivals_fill(
                size_of::<T>() as i32,
                keys,
                values,
                first,
                step,
                modulus,
                len,
                stream.as_raw(),
            )
        };
        assert_eq!(error, 0);
        Pairs { keys, values }
    }

    /// Keys that lie `width` above these.
    fn ends(&self, stream: &Stream, width: u64) -> DeviceVec<T> {
        let ends = DeviceVec::<T>::zeroed(stream, self.keys.len()).unwrap();
        // SAFETY: as above.
        let error = unsafe {
            let (lo, hi) = (self.keys.as_ptr().cast(), ends.as_ptr().cast_mut().cast());
            rivals_widen(
                size_of::<T>() as i32,
                lo,
                hi,
                width,
                self.keys.len() as u64,
                stream.as_raw(),
            )
        };
        assert_eq!(error, 0);
        ends
    }
}

/// Prints `what` with millions a second, `items` in the median of several runs.
fn report(stream: &Stream, what: &str, items: u64, mut job: impl FnMut()) -> f64 {
    report_with(stream, what, items, || (), |()| job()).0
}

/// The same with something made anew each time, and what the last time left of it; neither making it
/// nor dropping it counts.
fn report_with<S>(
    stream: &Stream,
    what: &str,
    items: u64,
    mut make: impl FnMut() -> S,
    mut job: impl FnMut(&mut S),
) -> (f64, S) {
    let mut timed = || {
        let mut subject = make();
        stream.synchronize().unwrap();
        let start = Instant::now();
        job(&mut subject);
        stream.synchronize().unwrap();
        (start.elapsed().as_secs_f64(), subject)
    };
    let (_, mut subject) = timed(); // to warm up
    let mut seconds = [0.0; REPEATS];
    for second in &mut seconds {
        (*second, subject) = timed();
    }
    seconds.sort_by(f64::total_cmp);
    let rate = items as f64 / seconds[REPEATS / 2] / 1e6;
    let (fastest, slowest) = (seconds[0] * 1e3, seconds[REPEATS - 1] * 1e3);
    println!("| {what} | {rate:.0} | {fastest:.3} to {slowest:.3} |");
    (rate, subject)
}

pub fn run() {
    let device = Device::cuda(0).expect("a GPU");
    match std::env::args().nth(2).as_deref() {
        Some("huge") => huge(&Stream::new(device).unwrap()),
        _ => {
            table::<u32>(&Stream::new(device).unwrap());
            table::<u64>(&Stream::new(device).unwrap());
        }
    }
}

fn dictionary<T: Number>(stream: &Stream, batch_size: u64) -> Dictionary<T, T> {
    let settings = Dictionary::builder().stream(stream).batch_size(batch_size as usize);
    settings.cleanup(CleanupPolicy::Manual).build().unwrap()
}

/// Inserts pairs in batches.
fn insert<T: Number>(d: &mut Dictionary<T, T>, pairs: &Pairs<T>, batch_size: u64) {
    let (len, batch_size) = (pairs.keys.len(), batch_size as usize);
    for start in (0..len).step_by(batch_size) {
        let part = start..len.min(start + batch_size);
        let (keys, values) = (pairs.keys.slice(part.clone()), pairs.values.slice(part));
        d.resident_mut().unwrap().insert(keys, values).unwrap();
    }
}

fn table<T: Number>(stream: &Stream) {
    let name = if T::BITS == 32 { "u32/u32" } else { "u64/u64" };
    println!("\n| {name} | M/s | ms, fastest to slowest |\n| --- | --- | --- |");
    let pairs = Pairs::<T>::new(stream, 0, 1, N, N);
    // Odd steps visit every number once, in an order of no use to anyone.
    let hits = Pairs::<T>::new(stream, 0, 0x9e37_79b1, N, N);
    let misses = Pairs::<T>::new(stream, 1 << 30, 0x9e37_79b1, N, N);
    let hit_numbers = hits.values.to_vec().unwrap();
    let mut sorted: Vec<T> = (0..N).map(T::mixed).collect();
    sorted.sort_unstable();

    for log in [16, 18, 20] {
        let what = format!("insert to 2^24, b = 2^{log}");
        let make = || dictionary::<T>(stream, 1 << log);
        let (_, d) = report_with(stream, &what, N, make, |d| insert(d, &pairs, 1 << log));
        check_lookups(&d, &hits, Some(&hit_numbers));
    }
    let make = || dictionary::<T>(stream, 1 << 16);
    let (build, one) = report_with(stream, "build 2^24", N, make, |d| insert(d, &pairs, N));
    check_lookups(&one, &hits, Some(&hit_numbers));
    let sort = sort_alone(stream, &pairs);
    println!("| build, as a share of the sort | {:.2} | |", build / sort);

    let mut many = dictionary::<T>(stream, 1 << 16);
    let most = Pairs::<T>::new(stream, 0, 1, N, 255 << 16);
    insert(&mut many, &most, 1 << 16);
    assert_eq!(many.stats().unwrap().levels.len(), 8);
    for (d, runs) in [(&one, "one run"), (&many, "8 levels")] {
        queries(stream, d, runs, &hits, &misses, &sorted, &hit_numbers);
    }
    cleanup::<T>(stream, 10);
    cleanup::<T>(stream, 50);
}

/// CUB's sort of the same pairs.
fn sort_alone<T: Number>(stream: &Stream, pairs: &Pairs<T>) -> f64 {
    let out = Pairs::<T>::new(stream, 0, 1, N, N);
    let mut bytes = 0;
    let sort = |temp: *mut c_void, bytes: &mut usize| {
        // SAFETY: all vectors have N elements, and `temp` is null or as large as was asked for.
        let error = unsafe {
            rivals_sort(
                size_of::<T>() as i32,
                temp,
                bytes,
                pairs.keys.as_ptr().cast(),
                out.keys.as_ptr().cast_mut().cast(),
                pairs.values.as_ptr().cast(),
                out.values.as_ptr().cast_mut().cast(),
                N,
                stream.as_raw(),
            )
        };
        assert_eq!(error, 0);
    };
    sort(std::ptr::null_mut(), &mut bytes);
    let temp = DeviceVec::<u8>::zeroed(stream, bytes).unwrap();
    let rate = report(stream, "CUB's sort of 2^24 pairs", N, || {
        sort(temp.as_ptr().cast_mut().cast(), &mut bytes);
    });
    assert!(out.keys.to_vec().unwrap().is_sorted());
    rate
}

/// Looks keys up and checks every answer; `numbers` are the values to find, or there are none.
fn check_lookups<T: Number>(d: &Dictionary<T, T>, queries: &Pairs<T>, numbers: Option<&[T]>) {
    let stream = queries.keys.stream();
    let len = queries.keys.len();
    let (mut values, mut found) = (zeroed::<T>(stream, len), zeroed::<u8>(stream, len));
    d.resident()
        .unwrap()
        .lookup((&queries.keys).into(), (&mut values).into(), (&mut found).into())
        .unwrap();
    let wanted = u8::from(numbers.is_some());
    assert!(found.to_vec().unwrap().iter().all(|&found| found == wanted));
    if let Some(numbers) = numbers {
        assert!(values.to_vec().unwrap() == numbers);
    }
}

fn zeroed<T: Pod>(stream: &Stream, len: usize) -> DeviceVec<T> {
    DeviceVec::zeroed(stream, len).unwrap()
}

/// Every kind of query, over as many keys as there are.
fn queries<T: Number>(
    stream: &Stream,
    d: &Dictionary<T, T>,
    runs: &str,
    hits: &Pairs<T>,
    misses: &Pairs<T>,
    sorted: &[T],
    numbers: &[T],
) {
    let all = runs == "one run";
    // The dictionary of 8 levels lacks the last batch: ask for what it has.
    let len = if all { N } else { 255 << 16 };
    let mine = |hits: &Pairs<T>| {
        if all {
            None
        } else {
            Some(Pairs::<T>::new(stream, 0, 0x9e37_79b1 % len | 1, len, hits.keys.len() as u64))
        }
    };
    let own = mine(hits);
    let hits = own.as_ref().unwrap_or(hits);
    let own_numbers = own.as_ref().map(|own| own.values.to_vec().unwrap());
    let numbers = own_numbers.as_deref().unwrap_or(numbers);
    let own_sorted = (!all).then(|| {
        let mut sorted: Vec<T> = (0..len).map(T::mixed).collect();
        sorted.sort_unstable();
        sorted
    });
    let sorted = own_sorted.as_deref().unwrap_or(sorted);

    let from = d.resident().unwrap();
    let (mut values, mut found) =
        (zeroed::<T>(stream, N as usize), zeroed::<u8>(stream, N as usize));
    for (queries, what) in [(hits, "hits"), (misses, "misses")] {
        report(stream, &format!("lookup, {what}, {runs}"), N, || {
            from.lookup((&queries.keys).into(), (&mut values).into(), (&mut found).into()).unwrap();
        });
        check_lookups(d, queries, (what == "hits").then_some(numbers));
    }

    let mut counts = zeroed::<u64>(stream, N as usize);
    let spacing = ((1u128 << T::BITS) / u128::from(len)) as u64;
    let below = |key: T| sorted.partition_point(|&other| other < key) as u64;
    let up_to = |key: T| sorted.partition_point(|&other| other <= key) as u64;
    let lo = hits.keys.to_vec().unwrap();
    for width in [8, 1024] {
        let ends = hits.ends(stream, width * spacing - 1);
        report(stream, &format!("count, L = {width}, {runs}"), N, || {
            from.count((&hits.keys).into(), (&ends).into(), (&mut counts).into()).unwrap();
        });
        let (counts, hi) = (counts.to_vec().unwrap(), ends.to_vec().unwrap());
        for i in (0..N as usize).step_by(997) {
            assert_eq!(counts[i], up_to(hi[i]) - below(lo[i]));
        }
        ranges(stream, d, runs, hits, &ends, &counts, width);
    }

    report(stream, &format!("rank, {runs}"), N, || {
        from.rank((&hits.keys).into(), (&mut counts).into()).unwrap();
    });
    let ranks = counts.to_vec().unwrap();
    assert!((0..N as usize).step_by(997).all(|i| ranks[i] == below(lo[i])));
    let mut keys = zeroed::<T>(stream, N as usize);
    report(stream, &format!("select, {runs}"), N, || {
        from.select(
            (&counts).into(),
            keys.slice_mut(..),
            values.slice_mut(..),
            found.slice_mut(..),
        )
        .unwrap();
    });
    assert!(keys.to_vec().unwrap() == lo, "the key of a key's rank is the key");
    report(stream, &format!("successor, {runs}"), N, || {
        from.successor(
            (&misses.keys).into(),
            keys.slice_mut(..),
            values.slice_mut(..),
            found.slice_mut(..),
        )
        .unwrap();
    });
    let (next, from_keys) = (keys.to_vec().unwrap(), misses.keys.to_vec().unwrap());
    let found = found.to_vec().unwrap();
    for i in (0..N as usize).step_by(997) {
        let expected = sorted.get(below(from_keys[i]) as usize).copied();
        assert_eq!((found[i] == 1).then_some(next[i]), expected);
    }
}

/// Ranges with their pairs; fewer of the wide ones, for their answers are long.
fn ranges<T: Number>(
    stream: &Stream,
    d: &Dictionary<T, T>,
    runs: &str,
    hits: &Pairs<T>,
    ends: &DeviceVec<T>,
    counts: &[u64],
    width: u64,
) {
    let len = if width == 8 { N as usize } else { 1 << 20 };
    let total = counts[..len].iter().sum::<u64>() as usize;
    let (mut keys, mut values) = (zeroed::<T>(stream, total), zeroed::<T>(stream, total));
    let mut offsets = zeroed::<u64>(stream, len + 1);
    let from = d.resident().unwrap();
    report(stream, &format!("range with pairs, L = {width}, {runs}"), len as u64, || {
        let (lo, hi) = (hits.keys.slice(..len), ends.slice(..len));
        from.range(lo, hi, offsets.slice_mut(..), keys.slice_mut(..), values.slice_mut(..))
            .unwrap();
    });
    let offsets = offsets.to_vec().unwrap();
    assert!((0..len).all(|i| offsets[i + 1] - offsets[i] == counts[i]));
    assert_eq!(offsets[len] as usize, total);
    let (lo, hi) = (hits.keys.slice(..len).to_vec().unwrap(), ends.slice(..len).to_vec().unwrap());
    for i in (0..len).step_by(len / 1000) {
        let answer = offsets[i] as usize..offsets[i + 1] as usize;
        let (keys, values) =
            (keys.slice(answer.clone()).to_vec().unwrap(), values.slice(answer).to_vec().unwrap());
        assert!(keys.is_sorted() && keys.iter().all(|&key| lo[i] <= key && key <= hi[i]));
        assert!(keys.iter().zip(&values).all(|(&key, value)| T::mixed(value.wide()) == key));
    }
}

/// Removes stale entries of 63 full batches of 2^20, so many percent of which replace older ones.
fn cleanup<T: Number>(stream: &Stream, percent: u64) {
    const BATCH: u64 = 1 << 20;
    const BATCHES: u64 = 63;
    let mut d = dictionary::<T>(stream, BATCH);
    // Each batch begins with new numbers and repeats some of the batch before; those of two batches
    // that are merged on the way replace each other there, so more are repeated than stay stale.
    let fresh = BATCH * (100 - percent) / 100;
    for batch in 0..BATCHES {
        let first = (batch * fresh).saturating_sub(if batch == 0 { 0 } else { BATCH - fresh });
        insert(&mut d, &Pairs::<T>::new(stream, first, 1, BATCH, BATCH), BATCH);
    }
    let before = d.stats().unwrap();
    let what = format!(
        "cleanup, {} entries in {} runs, {} % stale",
        before.entries,
        before.levels.len(),
        before.stale * 100 / before.entries
    );
    let clean = |d: &mut Dictionary<T, T>| d.cleanup().unwrap();
    let (_, cleaned) = report_with(stream, &what, before.entries, || d.clone(), clean);
    assert_eq!(cleaned.stats().unwrap().entries, before.live);
    assert_eq!(cleaned.stats().unwrap().stale, 0);
    let numbers: Vec<u64> = (0..before.live).step_by(9973).collect();
    let keys: Vec<T> = numbers.iter().map(|&number| T::mixed(number)).collect();
    let values = cleaned.lookup(&keys).unwrap();
    assert!(values.iter().zip(&numbers).all(|(value, &number)| *value == Some(T::of(number))));
}

/// One run of more than 2^31 pairs.
fn huge(stream: &Stream) {
    let len = (1u64 << 31) + 12_345;
    let pairs = Pairs::<u32>::new(stream, 0, 1, u64::MAX, len);
    stream.synchronize().unwrap();
    let start = Instant::now();
    let mut d = dictionary::<u32>(stream, 1 << 20);
    insert(&mut d, &pairs, len);
    d.synchronize().unwrap();
    println!("{len} pairs built in {:.1?}", start.elapsed());
    assert_eq!(d.len().unwrap() as u64, len);
    assert_eq!(d.stats().unwrap().levels.len(), 1);
    let all = d.count(&[0], &[u32::MAX]).unwrap();
    assert_eq!(all, [len]);
    // Every number below `len` is there with its own value, and none from there on.
    for first in [0, (1 << 31) - 1000, len - (1 << 20)] {
        let some = Pairs::<u32>::new(stream, first, 1, u64::MAX, 1 << 20);
        let numbers = some.values.to_vec().unwrap();
        let (mut values, mut found) =
            (zeroed::<u32>(stream, 1 << 20), zeroed::<u8>(stream, 1 << 20));
        d.resident()
            .unwrap()
            .lookup((&some.keys).into(), (&mut values).into(), (&mut found).into())
            .unwrap();
        for ((&number, value), found) in
            numbers.iter().zip(values.to_vec().unwrap()).zip(found.to_vec().unwrap())
        {
            let there = u64::from(number) < len;
            assert_eq!((found == 1, value), (there, if there { number } else { 0 }));
        }
    }
    // Counts of ranges against ranks, and ranks against the whole.
    let lo: Vec<u32> = (0..1000).map(|i| i * 4_000_000).collect();
    let hi: Vec<u32> = lo.iter().map(|lo| lo + 249_999_999).collect();
    let counts = d.count(&lo, &hi).unwrap();
    let ranks = d.rank(&lo).unwrap();
    let next: Vec<u32> = hi.iter().map(|hi| hi + 1).collect();
    let ends = d.rank(&next).unwrap();
    for i in 0..lo.len() {
        assert_eq!(counts[i], ends[i] - ranks[i]);
    }
    let selected = d.select(&[0, 1 << 31, len - 1, len]).unwrap();
    assert!(selected[..3].iter().all(Option::is_some) && selected[3].is_none());
    let (key, _) = selected[1].unwrap();
    assert_eq!(d.rank(&[key]).unwrap(), [1 << 31]);
    println!("counted, ranked, selected and looked up rightly");
}
