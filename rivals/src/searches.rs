//! Which search in a sorted array? Whole or through layers of fences, nodes counted or halved, with
//! and without asking for memory ahead. One thread, 32 searches side by side, every answer checked.

use std::time::Instant;

use crate::sorts::mix;

const NODE: usize = 16;
const GROUP: usize = 32;
const QUERIES: usize = 1 << 20;

/// Prints the table.
pub fn run() {
    println!("Nanoseconds per search, one thread, best of 5:\n");
    println!("| | 2^20 keys | 2^24 keys |");
    println!("| --- | --- | --- |");
    let arrays = [20, 24].map(|bits| Array::new(1 << bits));
    let row = |name: &str, search: &dyn Fn(&Array, &[u32], &mut [usize])| {
        let times = arrays.each_ref().map(|array| format!("{:.0}", array.time(search)));
        println!("| {name} | {} |", times.join(" | "));
    };
    row("halving the whole array", &|array, queries, out| {
        whole(&array.layers[array.layers.len() - 1], queries, out)
    });
    row("layers, counting all keys of a node", &|array, q, out| {
        layered::<false>(array, q, out, count)
    });
    row("layers, halving the node", &|array, q, out| layered::<false>(array, q, out, halve));
    row("layers, counting, asking ahead", &|array, q, out| layered::<true>(array, q, out, count));
    row("layers, halving, asking ahead", &|array, q, out| layered::<true>(array, q, out, halve));
}

/// Sorted keys under layers of fences, the top one first.
struct Array {
    layers: Vec<Vec<u32>>,
    queries: Vec<u32>,
}

impl Array {
    fn new(len: usize) -> Self {
        let mut keys: Vec<u32> = (1..=len as u64).map(|i| (mix(i) >> 16) as u32).collect();
        keys.sort_unstable();
        let mut layers = vec![keys];
        while layers[0].len() > NODE {
            let mut layer: Vec<u32> = layers[0].iter().step_by(NODE).copied().collect();
            layer.resize(layer.len().next_multiple_of(NODE), u32::MAX);
            layers.insert(0, layer);
        }
        let queries = (1..=QUERIES as u64).map(|i| (mix(i << 32) >> 16) as u32).collect();
        Array { layers, queries }
    }

    fn time(&self, search: &dyn Fn(&Array, &[u32], &mut [usize])) -> f64 {
        let mut out = vec![0; QUERIES];
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            search(self, &self.queries, &mut out);
            best = best.min(start.elapsed().as_secs_f64());
        }
        let keys = &self.layers[self.layers.len() - 1];
        for (query, &position) in self.queries.iter().zip(&out).step_by(101) {
            assert_eq!(position, keys.partition_point(|key| key < query));
        }
        best * 1e9 / QUERIES as f64
    }
}

fn whole(keys: &[u32], queries: &[u32], out: &mut [usize]) {
    for (queries, places) in queries.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
        places.fill(0);
        let mut len = keys.len();
        while len > 1 {
            let half = len / 2;
            for (query, place) in queries.iter().zip(places.iter_mut()) {
                *place += half * usize::from(keys[*place + half - 1] < *query);
            }
            len -= half;
        }
        for (query, place) in queries.iter().zip(places) {
            *place += usize::from(keys[*place] < *query);
        }
    }
}

fn layered<const AHEAD: bool>(
    array: &Array,
    queries: &[u32],
    out: &mut [usize],
    in_node: impl Fn(&[u32; NODE], u32) -> usize,
) {
    let node = |layer: &[u32], node: usize, query: u32| {
        let keys = layer[node * NODE..][..NODE].try_into().expect("a whole node");
        node * NODE + in_node(keys, query)
    };
    let (keys, fences) = array.layers.split_last().expect("there are keys");
    for (queries, places) in queries.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
        places.fill(0);
        for (depth, layer) in fences.iter().enumerate() {
            for (&query, place) in queries.iter().zip(places.iter_mut()) {
                *place = node(layer, *place, query).saturating_sub(1);
                if AHEAD {
                    ask_for(&array.layers[depth + 1], *place * NODE);
                }
            }
        }
        for (&query, place) in queries.iter().zip(places) {
            *place = node(keys, *place, query);
        }
    }
}

fn count(node: &[u32; NODE], query: u32) -> usize {
    node.iter().map(|&key| u32::from(key < query)).sum::<u32>() as usize
}

fn halve(node: &[u32; NODE], query: u32) -> usize {
    let mut less = 0;
    for half in [8, 4, 2, 1] {
        less += half * usize::from(node[(less + half - 1) % NODE] < query);
    }
    less + usize::from(node[less % NODE] < query)
}

fn ask_for(keys: &[u32], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(keys.as_ptr().wrapping_add(index).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (keys, index);
}
