//! Ranges of keys, cut at the splitters.

use super::partition::shard_of;
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;
use crate::workers::{Workers, cut};

/// The pieces of ranges that one shard answers, in the order of the ranges.
pub(super) struct Pieces<B> {
    pub lo: Vec<B>,
    pub hi: Vec<B>,
    /// Which range each is a piece of.
    pub ranges: Vec<usize>,
}

impl<B: OrderedKey> Pieces<B> {
    fn zeroed(len: usize) -> Result<Self, Error> {
        Ok(Pieces { lo: try_zeroed(len)?, hi: try_zeroed(len)?, ranges: try_zeroed(len)? })
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }
}

/// Where pieces of one shard are written.
struct PiecesOut<'a, B> {
    lo: &'a mut [B],
    hi: &'a mut [B],
    ranges: &'a mut [usize],
}

/// Cuts closed ranges into the pieces of each shard. Ranges whose start lies behind their end have none.
pub(super) fn cut_ranges<B: OrderedKey>(
    lo: &[B],
    hi: &[B],
    splitters: &[B],
    workers: &Workers,
) -> Result<Vec<Pieces<B>>, Error> {
    let chunk_len = lo.len().div_ceil(workers.parts(lo.len())).max(1);
    let chunks = || lo.chunks(chunk_len).zip(hi.chunks(chunk_len));
    let counts: Vec<Vec<usize>> = workers.map(chunks(), |(lo, hi)| {
        let mut counts = vec![0; splitters.len() + 1];
        for (&lo, &hi) in lo.iter().zip(hi) {
            cut_range(lo, hi, splitters, |shard, _, _| counts[shard] += 1);
        }
        Ok(counts)
    })?;
    let mut all = Vec::new();
    for shard in 0..=splitters.len() {
        all.push(Pieces::zeroed(counts.iter().map(|counts| counts[shard]).sum())?);
    }
    let mut outs: Vec<Vec<PiecesOut<'_, B>>> = counts.iter().map(|_| Vec::new()).collect();
    for (shard, pieces) in all.iter_mut().enumerate() {
        let lens = || counts.iter().map(|counts| counts[shard]);
        let parts = cut(&mut pieces.lo, lens()).into_iter().zip(cut(&mut pieces.hi, lens()));
        let parts = parts.zip(cut(&mut pieces.ranges, lens()));
        for (outs, ((lo, hi), ranges)) in outs.iter_mut().zip(parts) {
            outs.push(PiecesOut { lo, hi, ranges });
        }
    }
    workers.each(chunks().zip(outs).enumerate(), |(chunk, ((lo, hi), mut outs))| {
        let mut written = vec![0; outs.len()];
        for (index, (&lo, &hi)) in lo.iter().zip(hi).enumerate() {
            cut_range(lo, hi, splitters, |shard, lo, hi| {
                let (out, at) = (&mut outs[shard], written[shard]);
                (out.lo[at], out.hi[at]) = (lo, hi);
                out.ranges[at] = chunk * chunk_len + index;
                written[shard] += 1;
            });
        }
        Ok(())
    })?;
    Ok(all)
}

/// Calls `add` with the shard and the ends of each piece of a closed range.
fn cut_range<B: OrderedKey>(lo: B, hi: B, splitters: &[B], mut add: impl FnMut(usize, B, B)) {
    if lo > hi {
        return;
    }
    let (first, last) = (shard_of(splitters, &lo), shard_of(splitters, &hi));
    for shard in first..=last {
        let from = if shard == first { lo } else { splitters[shard - 1] };
        let to = if shard == last { Some(hi) } else { splitters[shard].previous() };
        if let Some(to) = to.filter(|&to| from <= to) {
            add(shard, from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_splitters() {
        let splitters = [10u32, 20, 20, 30];
        let cut = |lo, hi| {
            let mut pieces = Vec::new();
            cut_range(lo, hi, &splitters, |shard, lo, hi| pieces.push((shard, lo, hi)));
            pieces
        };
        assert_eq!(cut(3, 5), [(0, 3, 5)]);
        assert_eq!(cut(5, 3), []);
        assert_eq!(cut(9, 10), [(0, 9, 9), (1, 10, 10)]);
        assert_eq!(cut(20, 29), [(3, 20, 29)]);
        let all = [(0, 0, 9), (1, 10, 19), (3, 20, 29), (4, 30, u32::MAX)];
        assert_eq!(cut(0, u32::MAX), all);
    }

    #[test]
    fn long_lists_are_cut_in_order() {
        let lo: Vec<u64> = (0..20_000).map(|at| at * 7919 % 10_007).collect();
        let hi: Vec<u64> = lo.iter().map(|lo| lo + 5000).collect();
        let workers = Workers::new(Some(3)).unwrap();
        let shards = cut_ranges(&lo, &hi, &[4000, 8000], &workers).unwrap();
        for (shard, pieces) in shards.iter().enumerate() {
            assert!(pieces.ranges.is_sorted() && pieces.lo.len() == pieces.len());
            for (at, &range) in pieces.ranges.iter().enumerate() {
                let bounds = [(0, 3999), (4000, 7999), (8000, u64::MAX)][shard];
                let expected = (lo[range].max(bounds.0), hi[range].min(bounds.1));
                assert_eq!((pieces.lo[at], pieces.hi[at]), expected);
            }
        }
    }
}
