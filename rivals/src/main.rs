//! Throwaway first cut
use rayon::prelude::*;
use std::time::Instant;
use rdst::{RadixKey, RadixSort};
use voracious_radix_sort::{RadixSort as _, Radixable};

#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
struct P32 { key: u32, idx: u32 }
#[derive(Clone, Copy, Debug)]
struct P64 { key: u64, idx: u64 }
impl PartialEq for P64 { fn eq(&self, o: &Self) -> bool { self.key == o.key } }
impl PartialOrd for P64 { fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> { self.key.partial_cmp(&o.key) } }
impl RadixKey for P32 { const LEVELS: usize = 4; fn get_level(&self, l: usize) -> u8 { (self.key >> (l * 8)) as u8 } }
impl RadixKey for P64 { const LEVELS: usize = 8; fn get_level(&self, l: usize) -> u8 { (self.key >> (l * 8)) as u8 } }
impl Radixable<u32> for P32 { type Key = u32; fn key(&self) -> u32 { self.key } }
impl Radixable<u64> for P64 { type Key = u64; fn key(&self) -> u64 { self.key } }

trait Rec: Copy + Send + Sync + Default2 { type K: Copy + Ord; fn key(&self) -> u64; }
trait Default2 { fn zero() -> Self; }
impl Default2 for P32 { fn zero() -> Self { P32 { key: 0, idx: 0 } } }
impl Default2 for P64 { fn zero() -> Self { P64 { key: 0, idx: 0 } } }
impl Rec for P32 { type K = u32; fn key(&self) -> u64 { self.key as u64 } }
impl Rec for P64 { type K = u64; fn key(&self) -> u64 { self.key } }

fn lsd<R: Rec, const BITS: usize>(v: &mut Vec<R>, keybits: usize) {
    let n = v.len();
    let mut tmp = vec![R::zero(); n];
    let passes = keybits.div_ceil(BITS);
    let radix = 1usize << BITS;
    let mut hist = vec![0u32; radix * passes];
    for r in v.iter() { let k = r.key(); for p in 0..passes { hist[p * radix + ((k >> (p * BITS)) as usize & (radix - 1))] += 1; } }
    for p in 0..passes {
        let h = &mut hist[p * radix..(p + 1) * radix];
        if h.iter().any(|&c| c as usize == n) { continue; }
        let mut sum = 0; for c in h.iter_mut() { let t = *c; *c = sum; sum += t; }
        for r in v.iter() { let d = (r.key() >> (p * BITS)) as usize & (radix - 1); tmp[h[d] as usize] = *r; h[d] += 1; }
        std::mem::swap(v, &mut tmp);
    }
}
fn merge2<R: Rec>(a: &[R], b: &[R], out: &mut [R]) {
    let (mut i, mut j) = (0, 0);
    let mut o = 0;
    while i < a.len() && j < b.len() { let t = a[i].key() <= b[j].key(); out[o] = if t { a[i] } else { b[j] }; i += t as usize; j += !t as usize; o += 1; }
    out[o..o + a.len() - i].copy_from_slice(&a[i..]); o += a.len() - i;
    out[o..].copy_from_slice(&b[j..]);
}
fn tiles<R: Rec, const BITS: usize>(v: &mut Vec<R>, kb: usize) {
    let h = v.len() / 2;
    let mut b = v.split_off(h);
    rayon::join(|| lsd::<R, BITS>(v, kb), || lsd::<R, BITS>(&mut b, kb));
    let mut out = vec![R::zero(); h + b.len()];
    let m = v[h / 2].key(); let bs = b.partition_point(|r| r.key() < m); let as_ = v.partition_point(|r| r.key() < m);
    let (o1, o2) = out.split_at_mut(as_ + bs);
    rayon::join(|| merge2(&v[..as_], &b[..bs], o1), || merge2(&v[as_..], &b[bs..], o2));
    *v = out;
}
fn rng(n: usize) -> Vec<u64> { let mut s = 0x9E3779B97F4A7C15u64; (0..n).map(|_| { s ^= s << 13; s ^= s >> 7; s ^= s << 17; s.wrapping_mul(0x2545F4914F6CDD1D) }).collect() }
fn time<R: Rec>(name: &str, src: &[R], f: impl Fn(&mut Vec<R>)) {
    let mut ts = vec![];
    for _ in 0..5 { let mut v = src.to_vec(); let t = Instant::now(); f(&mut v); ts.push(t.elapsed().as_secs_f64()); assert!(v.windows(2).all(|w| w[0].key() <= w[1].key())); }
    ts.sort_by(f64::total_cmp);
    println!("{name:32} n=2^{:<3} {:8.1} M/s", src.len().ilog2(), src.len() as f64 / ts[2] / 1e6);
}
fn main() {
    for n in [1 << 16, 1 << 20, 1 << 24] {
        let keys = rng(n);
        let a: Vec<P32> = keys.iter().enumerate().map(|(i, k)| P32 { key: (k >> 32) as u32, idx: i as u32 }).collect();
        time("u32 rayon unstable", &a, |v| v.par_sort_unstable_by_key(|p| p.key));
        time("u32 rayon stable", &a, |v| v.par_sort_by_key(|p| p.key));
        time("u32 rdst", &a, |v| v.radix_sort_unstable());
        time("u32 voracious mt", &a, |v| v.voracious_mt_sort(2));
        time("u32 radsort 1 thread", &a, |v| radsort::sort_by_key(v, |p| p.key));
        time("u32 lsd8 tiles", &a, |v| tiles::<_, 8>(v, 32));
        time("u32 lsd11 tiles", &a, |v| tiles::<_, 11>(v, 32));
        let a: Vec<P64> = keys.iter().enumerate().map(|(i, k)| P64 { key: *k, idx: i as u64 }).collect();
        time("u64 rayon unstable", &a, |v| v.par_sort_unstable_by_key(|p| p.key));
        time("u64 rayon stable", &a, |v| v.par_sort_by_key(|p| p.key));
        time("u64 rdst", &a, |v| v.radix_sort_unstable());
        time("u64 voracious mt", &a, |v| v.voracious_mt_sort(2));
        time("u64 lsd8 tiles", &a, |v| tiles::<_, 8>(v, 64));
        time("u64 lsd11 tiles", &a, |v| tiles::<_, 11>(v, 64));
    }
}
