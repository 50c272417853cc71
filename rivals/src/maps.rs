//! The dictionary on the CPU beside `std::collections::BTreeMap`: 2^24 random `u32` pairs.
//!
//! Queries on the map are shared out over as many threads as the dictionary uses. Every answer of
//! the dictionary is compared with the map's.

use std::collections::BTreeMap;
use std::time::Instant;

use gpulsm::Dictionary;
use rayon::prelude::*;

use crate::sorts::mix;

type Map = BTreeMap<u32, u32>;

const PAIRS: usize = 1 << 24;
const BATCH: usize = 1 << 16;
const LOOKUPS: usize = 1 << 20;
const COUNTS: usize = 1 << 20;
const MAP_COUNTS: usize = 1 << 16;
const RANGES: usize = 1 << 14;
/// Keys apart so that a range holds 1,024 of them on average.
const WIDTH: u32 = 1 << (32 - 24 + 10);

/// Queries, and what the map answers.
struct Queries {
    keys: Vec<u32>,
    lo: Vec<u32>,
    hi: Vec<u32>,
}

/// Prints the table.
pub fn run() {
    let keys: Vec<u32> = (1..=PAIRS as u64).map(|i| (mix(i) >> 16) as u32).collect();
    let values: Vec<u32> = (0..PAIRS as u32).collect();
    let lo: Vec<u32> = (1..=COUNTS as u64).map(|i| (mix(i << 24) >> 16) as u32).collect();
    let queries = Queries {
        keys: (1..=LOOKUPS as u64).map(|i| keys[mix(i << 32) as usize % PAIRS]).collect(),
        hi: lo.iter().map(|lo| lo.saturating_add(WIDTH - 1)).collect(),
        lo,
    };

    let threads = rayon::current_num_threads();
    println!("2^24 random u32 pairs, batches of 2^16, {threads} threads, million a second:\n");
    println!(
        "| | BTreeMap built | BTreeMap grown | one run | ÷ built | ÷ grown | 8 levels | ÷ built | ÷ grown |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");

    let (built, built_rate) =
        timed(PAIRS, || keys.iter().copied().zip(values.iter().copied()).collect::<Map>());
    let (one_run, one_run_rate) = timed(PAIRS, || Dictionary::bulk_build(&keys, &values).unwrap());
    let (grown, grown_rate) = timed(PAIRS, || {
        let mut map = Map::new();
        for (&key, &value) in keys.iter().zip(&values) {
            map.insert(key, value);
        }
        map
    });
    let mut levels = Dictionary::<u32, u32>::builder().batch_size(BATCH).build().unwrap();
    let batches: Vec<_> = keys.chunks(BATCH).zip(values.chunks(BATCH)).collect();
    let ((), insert_rate) = timed(PAIRS, || {
        batches.iter().for_each(|(keys, values)| levels.insert(keys, values).unwrap());
    });
    assert!(levels.iter().eq(grown.iter().map(|(&key, &value)| (key, value))));
    // All but the last batch: eight full levels.
    levels.clear();
    batches[..255].iter().for_each(|(keys, values)| levels.insert(keys, values).unwrap());
    let last = batches[255].0;
    let mut without_last = built.clone();
    without_last.retain(|_, value| (*value as usize) < PAIRS - BATCH);
    for &key in last {
        // A key of the last batch may have replaced an earlier one.
        if let Some(value) = levels.get(key).unwrap() {
            without_last.insert(key, value);
        }
    }

    println!(
        "| insert, mean over the growth | – | {grown_rate:.2} | {insert_rate:.2} | – | {:.1} | | | |",
        insert_rate / grown_rate
    );
    println!(
        "| build from random pairs | {built_rate:.2} | – | {one_run_rate:.2} | {:.1} | – | | | |",
        one_run_rate / built_rate
    );
    let rates = [
        map_rates(&queries, &built),
        map_rates(&queries, &grown),
        dictionary_rates(&queries, &one_run, &built),
        dictionary_rates(&queries, &levels, &without_last),
    ];
    for (index, name) in
        ["lookup, all there", "count, 1,024 keys", "range, 1,024 pairs"].iter().enumerate()
    {
        let [built, grown, one, eight] = [0, 1, 2, 3].map(|column| rates[column][index]);
        println!(
            "| {name} | {built:.3} | {grown:.3} | {one:.3} | {:.1} | {:.1} | {eight:.3} | {:.1} | {:.1} |",
            one / built,
            one / grown,
            eight / built,
            eight / grown,
        );
    }
    for (name, dictionary) in [("one run", &one_run), ("8 levels", &levels)] {
        let stats = dictionary.stats().unwrap();
        let raw = stats.live * 8;
        println!(
            "\n{name}: {:.3} bytes at rest for each byte of pairs",
            stats.bytes.total() as f64 / raw as f64
        );
    }
}

/// What `job` makes, and its rate in million a second.
fn timed<T>(items: usize, job: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let made = job();
    (made, items as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// The median rate of five runs.
fn rate(items: usize, mut job: impl FnMut()) -> f64 {
    let mut rates: Vec<f64> = (0..5).map(|_| timed(items, &mut job).1).collect();
    rates.sort_by(f64::total_cmp);
    rates[2]
}

fn map_rates(queries: &Queries, map: &Map) -> [f64; 3] {
    let piece = |len: usize| len / rayon::current_num_threads() / 4;
    let lookup = rate(LOOKUPS, || {
        let found: usize = queries
            .keys
            .par_chunks(piece(LOOKUPS))
            .map(|keys| keys.iter().filter(|key| map.contains_key(key)).count())
            .sum();
        assert_eq!(found, LOOKUPS);
    });
    let ranges = |len: usize| {
        let (lo, hi) = (&queries.lo[..len], &queries.hi[..len]);
        lo.par_chunks(piece(len)).zip(hi.par_chunks(piece(len)))
    };
    let count = rate(MAP_COUNTS, || {
        let counts = ranges(MAP_COUNTS).map(|(lo, hi)| {
            lo.iter().zip(hi).map(|(&lo, &hi)| map.range(lo..=hi).count()).sum::<usize>()
        });
        assert!(counts.sum::<usize>() > 0);
    });
    let range = rate(RANGES, || {
        let pairs = ranges(RANGES).map(|(lo, hi)| {
            let mut pairs = Vec::with_capacity(2048);
            lo.iter()
                .zip(hi)
                .map(|(&lo, &hi)| {
                    pairs.clear();
                    pairs.extend(map.range(lo..=hi).map(|(&key, &value)| (key, value)));
                    pairs.len()
                })
                .sum::<usize>()
        });
        assert!(pairs.sum::<usize>() > 0);
    });
    [lookup, count, range]
}

fn dictionary_rates(queries: &Queries, dictionary: &Dictionary<u32, u32>, map: &Map) -> [f64; 3] {
    let (mut values, mut found) = (vec![0; LOOKUPS], vec![false; LOOKUPS]);
    let lookup = rate(LOOKUPS, || {
        dictionary.lookup_into(&queries.keys, &mut values, &mut found).unwrap();
    });
    for (index, key) in queries.keys.iter().enumerate() {
        let expected = map.get(key).copied();
        assert_eq!(found[index].then_some(values[index]), expected, "lookup of {key}");
    }

    let mut counts = vec![0; COUNTS];
    let count = rate(COUNTS, || {
        dictionary.count_into(&queries.lo, &queries.hi, &mut counts).unwrap();
    });
    for index in (0..COUNTS).step_by(61) {
        let expected = map.range(queries.lo[index]..=queries.hi[index]).count();
        assert_eq!(counts[index], expected as u64, "count {index}");
    }

    let (lo, hi) = (&queries.lo[..RANGES], &queries.hi[..RANGES]);
    let mut offsets = vec![0; RANGES + 1];
    let total = dictionary.range_offsets_into(lo, hi, &mut offsets).unwrap();
    let (mut keys, mut values) = (vec![0; total], vec![0; total]);
    let range = rate(RANGES, || {
        dictionary.range_into(lo, hi, &mut offsets, &mut keys, &mut values).unwrap();
    });
    for index in (0..RANGES).step_by(61) {
        let answer = offsets[index]..offsets[index + 1];
        let pairs = keys[answer.clone()].iter().zip(&values[answer]);
        assert!(pairs.eq(map.range(lo[index]..=hi[index])), "range {index}");
    }
    [lookup, count, range]
}
