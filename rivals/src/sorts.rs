//! Which parallel sort? From pairs in any order to sorted unique keys and their values, the last
//! insert of a key winning: with the sorts of other crates, and as `Dictionary::bulk_build` does it
//! (which lays the fences too). Every result is checked against the standard library's sort.

use std::time::Instant;

use gpulsm::{Dictionary, OrderedKey, Value};
use rayon::prelude::*;
use rdst::{RadixKey, RadixSort as _};
use voracious_radix_sort::{RadixSort as _, Radixable};

/// A key and the place of its pair in the input.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Record<B> {
    key: B,
    index: u32,
}

impl<B: OrderedKey> RadixKey for Record<B> {
    const LEVELS: usize = size_of::<B>();

    fn get_level(&self, level: usize) -> u8 {
        (self.key.widen() >> (level * 8)) as u8
    }
}

impl Radixable<u32> for Record<u32> {
    type Key = u32;

    fn key(&self) -> u32 {
        self.key
    }
}

impl Radixable<u64> for Record<u64> {
    type Key = u64;

    fn key(&self) -> u64 {
        self.key
    }
}

type Pairs<B> = (Vec<B>, Vec<B>);

/// Sorts records with `sort`, and makes unique keys and values of them.
fn with_records<B: OrderedKey>(
    (keys, values): &Pairs<B>,
    sort: impl Fn(&mut [Record<B>]),
) -> Sorted<B> {
    let record = |(index, &key): (usize, &B)| Record { key, index: index as u32 };
    let mut records: Vec<Record<B>> = keys.par_iter().enumerate().map(record).collect();
    sort(&mut records);
    records.dedup_by(|next, kept| {
        let same = next.key == kept.key;
        kept.index = if same { kept.index.max(next.index) } else { kept.index };
        same
    });
    let sorted = records.par_iter().map(|r| (r.key, values[r.index as usize])).unzip();
    Box::new(|| sorted)
}

/// Sorted pairs, or how to read them back: that is not part of the sort.
type Sorted<B> = Box<dyn FnOnce() -> Pairs<B>>;

/// The median rate of five runs, in million pairs a second.
fn rate<B: OrderedKey>(
    pairs: &Pairs<B>,
    expected: &Pairs<B>,
    job: &dyn Fn(&Pairs<B>) -> Sorted<B>,
) -> f64 {
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            let sorted = job(pairs);
            let time = start.elapsed().as_secs_f64();
            assert!(sorted() == *expected, "a sort went wrong");
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    pairs.0.len() as f64 / times[2] / 1e6
}

fn bulk_build<B: OrderedKey + Value>((keys, values): &Pairs<B>) -> Sorted<B> {
    let dictionary = Dictionary::bulk_build(keys, values).expect("memory for the pairs");
    Box::new(move || dictionary.to_vecs().expect("memory for the pairs"))
}

fn compare<B: OrderedKey + Value>(
    name: &str,
    len: usize,
    voracious: impl Fn(&mut [Record<B>]),
    key: fn(u64) -> B,
) {
    let keys: Vec<B> = (1..=len as u64).map(|i| key(mix(i))).collect();
    let values: Vec<B> = (0..len as u64).map(key).collect();
    let pairs = (keys, values);
    let expected = with_records(&pairs, |records| records.sort_by_key(|record| record.key))();
    let rayon_stable =
        |pairs: &_| with_records(pairs, |r: &mut [Record<B>]| r.par_sort_by_key(|r| r.key));
    let rayon_unstable = |pairs: &_| {
        with_records(pairs, |r: &mut [Record<B>]| r.par_sort_unstable_by_key(|r| r.key))
    };
    let rdst = |pairs: &_| with_records(pairs, |r: &mut [Record<B>]| r.radix_sort_unstable());
    let voracious = |pairs: &_| with_records(pairs, &voracious);
    let jobs: [&dyn Fn(&Pairs<B>) -> Sorted<B>; 5] =
        [&rayon_stable, &rayon_unstable, &rdst, &voracious, &bulk_build];
    let rates = jobs.map(|job| format!("{:.1}", rate(&pairs, &expected, job)));
    println!("| {name} | 2^{} | {} |", len.ilog2(), rates.join(" | "));
}

/// Scatters numbers over all 64 bits.
pub fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 27
}

/// Prints the table.
pub fn run() {
    let threads = rayon::current_num_threads();
    println!("Million pairs a second, {threads} threads, median of 5:\n");
    println!(
        "| keys and values | pairs | rayon stable | rayon unstable | rdst | voracious | `bulk_build` |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for bits in [16, 20, 24] {
        compare::<u32>(
            "u32, u32",
            1 << bits,
            |r| r.voracious_mt_sort(threads),
            |k| (k >> 8) as u32,
        );
        compare::<u64>("u64, u64", 1 << bits, |r| r.voracious_mt_sort(threads), |k| k);
    }
}
