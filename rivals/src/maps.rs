//! The dictionary on the CPU beside ordered maps: 2^24 random `u32` pairs, or as many as are named.
//!
//! `std::collections::BTreeMap`, built from an iterator and grown by inserts; `scc::TreeIndex`, a
//! concurrent B+-tree, grown by as many threads as the dictionary uses; and `HashMap`, which has no order
//! to count or list by. Their queries are shared out over as many threads too. Every answer of the
//! dictionary is compared with the map's.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use gpulsm::Dictionary;
use rayon::prelude::*;
use scc::Guard;
use scc::TreeIndex;

use crate::sorts::mix;

type Map = BTreeMap<u32, u32>;
type Index = TreeIndex<u32, u32>;

const BATCH: usize = 1 << 16;
const LOOKUPS: usize = 1 << 20;
const COUNTS: usize = 1 << 20;
/// Maps walk every key they count: fewer queries do.
const MAP_COUNTS: usize = 1 << 16;
const RANGES: usize = 1 << 14;
/// Ranges in one call: their answers take 4 MiB, in buffers that are reused.
const RANGES_PER_CALL: usize = 1 << 9;

struct Queries {
    keys: Vec<u32>,
    lo: Vec<u32>,
    hi: Vec<u32>,
}

/// Million queries a second: lookups, counts, ranges.
type Rates = [f64; 3];

/// Prints the table for 2^`log_pairs` pairs.
pub fn run(log_pairs: u32) {
    assert!((18..=28).contains(&log_pairs), "from 2^18 to 2^28 pairs, not 2^{log_pairs}");
    let pairs_in_all = 1 << log_pairs;
    // Keys apart so that a range holds 1,024 of them on average.
    let width = 1 << (32 - log_pairs + 10);
    let keys: Vec<u32> = (1..=pairs_in_all as u64).map(|i| (mix(i) >> 16) as u32).collect();
    let values: Vec<u32> = (0..pairs_in_all as u32).collect();
    let lo: Vec<u32> = (1..=COUNTS as u64).map(|i| (mix(i << 24) >> 16) as u32).collect();
    let queries = Queries {
        keys: (1..=LOOKUPS as u64).map(|i| keys[mix(i << 32) as usize % pairs_in_all]).collect(),
        hi: lo.iter().map(|lo| lo.saturating_add(width - 1)).collect(),
        lo,
    };
    let threads = rayon::current_num_threads();
    println!(
        "2^{log_pairs} random u32 pairs, batches of 2^16, {threads} threads, million a second:\n"
    );

    // Builds in turns, so that a machine that changes its speed changes it for both.
    let (mut built, mut one_run) = (Map::new(), Dictionary::new());
    let (mut map_builds, mut builds) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        drop((std::mem::take(&mut built), std::mem::take(&mut one_run)));
        let pairs = || keys.iter().copied().zip(values.iter().copied());
        let (map, rate) = timed(pairs_in_all, || pairs().collect::<Map>());
        (built, _) = (map, map_builds.push(rate));
        let (dictionary, rate) =
            timed(pairs_in_all, || Dictionary::bulk_build(&keys, &values).unwrap());
        (one_run, _) = (dictionary, builds.push(rate));
    }
    assert!(one_run.iter().eq(built.iter().map(|(&key, &value)| (key, value))));

    let (grown, map_inserts) = timed(pairs_in_all, || {
        let mut map = Map::new();
        for (&key, &value) in keys.iter().zip(&values) {
            map.insert(key, value);
        }
        map
    });
    let (index, index_inserts) = timed(pairs_in_all, || {
        let index = Index::new();
        let pairs = keys.par_iter().zip(&values);
        pairs.for_each(|(&key, &value)| index.upsert_sync(key, value));
        index
    });
    assert_eq!(index.len(), built.len());
    let mut levels = Dictionary::<u32, u32>::builder().batch_size(BATCH).build().unwrap();
    let batches: Vec<_> = keys.chunks(BATCH).zip(values.chunks(BATCH)).collect();
    let ((), inserts) = timed(pairs_in_all, || {
        batches.iter().for_each(|(keys, values)| levels.insert(keys, values).unwrap());
    });
    assert!(levels.iter().eq(grown.iter().map(|(&key, &value)| (key, value))));
    // All but the last batch: every level is full.
    let full = batches.len() - 1;
    let in_levels = format!("{} levels", batches.len().ilog2());
    levels.clear().unwrap();
    batches[..full].iter().for_each(|(keys, values)| levels.insert(keys, values).unwrap());
    let in_full = keys.iter().zip(&values).take(full * BATCH);
    let without_last: Map = in_full.map(|(&key, &value)| (key, value)).collect();

    let (hash, hash_inserts) = timed(pairs_in_all, || {
        let mut hash = HashMap::new();
        for (&key, &value) in keys.iter().zip(&values) {
            hash.insert(key, value);
        }
        hash
    });
    assert!(built.iter().all(|(key, value)| hash.get(key) == Some(value)));
    let hash_lookups = lookup_rate(&queries, |key| hash.contains_key(&key));

    println!(
        "| | `BTreeMap` built | `BTreeMap` grown | `scc::TreeIndex` | gpulsm | ÷ built | ÷ grown | ÷ `TreeIndex` |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let [insert, build] = [median(vec![inserts]), median(builds)];
    row("insert, mean over the growth", [None, Some(map_inserts), Some(index_inserts)], insert);
    row("build from random pairs", [Some(median(map_builds)), None, None], build);
    let maps: [Rates; 3] =
        [map_rates(&queries, &built), map_rates(&queries, &grown), index_rates(&queries, &index)];
    for (dictionary, map, name) in
        [(&one_run, &built, "one run"), (&levels, &without_last, in_levels.as_str())]
    {
        let rates = dictionary_rates(&queries, dictionary, map);
        for (at, query) in
            ["lookup, all there", "count, 1,024 keys", "range, 1,024 pairs"].iter().enumerate()
        {
            row(&format!("{query}: {name}"), maps.map(|rates| Some(rates[at])), rates[at]);
        }
    }
    println!("\n`HashMap`, grown: insert {hash_inserts:.3}, lookup {hash_lookups:.3}");
    for (name, dictionary) in [("one run", &one_run), (in_levels.as_str(), &levels)] {
        let stats = dictionary.stats().unwrap();
        let raw = (stats.live * 8) as f64;
        let filters = stats.bytes.filters as f64;
        println!(
            "\n{name}: {:.3} bytes at rest for each byte of pairs, and {:.3} for filters",
            (stats.bytes.total() as f64 - filters) / raw,
            filters / raw
        );
    }
}

/// Prints the rates of the maps, the dictionary's, and how many times theirs that is.
fn row(name: &str, maps: [Option<f64>; 3], dictionary: f64) {
    let rate = |rate: Option<f64>| rate.map_or("–".into(), |rate| format!("{rate:.3}"));
    let times =
        |rate: Option<f64>| rate.map_or("–".into(), |rate| format!("{:.1}", dictionary / rate));
    let (rates, ratios) = (maps.map(rate).join(" | "), maps.map(times).join(" | "));
    println!("| {name} | {rates} | {dictionary:.3} | {ratios} |");
}

/// What `job` makes, and its rate in million a second.
fn timed<T>(items: usize, job: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let made = job();
    (made, items as f64 / start.elapsed().as_secs_f64() / 1e6)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// The median rate of five runs.
fn rate(items: usize, mut job: impl FnMut()) -> f64 {
    median((0..5).map(|_| timed(items, &mut job).1).collect())
}

/// The queries in a piece of work, of which every thread gets a few.
fn piece(len: usize) -> usize {
    len / rayon::current_num_threads() / 4
}

/// The rate of a map that finds keys with `has`, shared out over threads.
fn lookup_rate(queries: &Queries, has: impl Fn(u32) -> bool + Sync) -> f64 {
    rate(LOOKUPS, || {
        let pieces = queries.keys.par_chunks(piece(LOOKUPS));
        let found = pieces.map(|keys| keys.iter().filter(|&&key| has(key)).count());
        assert_eq!(found.sum::<usize>(), LOOKUPS);
    })
}

/// Rates of a map that finds keys with `has` and walks ranges with `walk`, shared out over threads.
fn walked_rates<I: Iterator<Item = (u32, u32)>>(
    queries: &Queries,
    has: impl Fn(u32) -> bool + Sync,
    walk: impl Fn(u32, u32) -> I + Sync,
) -> Rates {
    let lookup = lookup_rate(queries, has);
    let ranges = |len: usize| {
        let (lo, hi) = (&queries.lo[..len], &queries.hi[..len]);
        lo.par_chunks(piece(len)).zip(hi.par_chunks(piece(len)))
    };
    let count = rate(MAP_COUNTS, || {
        let counts = ranges(MAP_COUNTS).map(|(lo, hi)| {
            lo.iter().zip(hi).map(|(&lo, &hi)| walk(lo, hi).count()).sum::<usize>()
        });
        assert!(counts.sum::<usize>() > 0);
    });
    let range = rate(RANGES, || {
        let pairs = ranges(RANGES).map(|(lo, hi)| {
            let mut pairs = Vec::with_capacity(2048);
            let mut fill = |(&lo, &hi): (&u32, &u32)| {
                pairs.clear();
                pairs.extend(walk(lo, hi));
                pairs.len()
            };
            lo.iter().zip(hi).map(&mut fill).sum::<usize>()
        });
        assert!(pairs.sum::<usize>() > 0);
    });
    [lookup, count, range]
}

fn map_rates(queries: &Queries, map: &Map) -> Rates {
    let walk = |lo, hi| map.range(lo..=hi).map(|(&key, &value)| (key, value));
    walked_rates(queries, |key| map.contains_key(&key), walk)
}

fn index_rates(queries: &Queries, index: &Index) -> Rates {
    // Its ranges borrow a guard; the pairs are read out under one, which its own users would do too.
    let walk = |lo: u32, hi: u32| {
        let guard = Guard::new();
        let pairs: Vec<(u32, u32)> =
            index.range(lo..=hi, &guard).map(|(&key, &value)| (key, value)).collect();
        pairs.into_iter()
    };
    walked_rates(queries, |key| index.contains(&key), walk)
}

fn dictionary_rates(queries: &Queries, dictionary: &Dictionary<u32, u32>, map: &Map) -> Rates {
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
        dictionary.count_into((&queries.lo, &queries.hi), &mut counts).unwrap();
    });
    for index in (0..COUNTS).step_by(61) {
        let expected = map.range(queries.lo[index]..=queries.hi[index]).count();
        assert_eq!(counts[index], expected as u64, "count {index}");
    }

    let calls = || {
        let lo = queries.lo[..RANGES].chunks(RANGES_PER_CALL);
        lo.zip(queries.hi.chunks(RANGES_PER_CALL))
    };
    let mut offsets = vec![0; RANGES_PER_CALL + 1];
    let longest =
        calls().map(|(lo, hi)| dictionary.range_offsets_into((lo, hi), &mut offsets).unwrap());
    let room = longest.max().unwrap_or(0) as usize;
    let (mut keys, mut values) = (vec![0; room], vec![0; room]);
    let mut ask = |lo: &[u32], hi: &[u32], check: &dyn Fn(usize, &[u32], &[u32])| {
        dictionary.range_into((lo, hi), &mut offsets, &mut keys, &mut values).unwrap();
        for index in 0..lo.len() {
            let answer = offsets[index] as usize..offsets[index + 1] as usize;
            check(index, &keys[answer.clone()], &values[answer]);
        }
    };
    let range = rate(RANGES, || calls().for_each(|(lo, hi)| ask(lo, hi, &|_, _, _| {})));
    for (lo, hi) in calls().step_by(7) {
        ask(lo, hi, &|index, keys, values| {
            let expected = map.range(lo[index]..=hi[index]);
            assert!(keys.iter().zip(values).eq(expected), "range from {}", lo[index]);
        });
    }
    [lookup, count, range]
}
