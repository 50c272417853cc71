//! Downloading a run to the host, to check its invariants.

use bytemuck::Zeroable;

use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{Address, NODE, SECTOR, Sector};
use crate::cuda::run::Run;
use crate::error::{Error, try_zeroed};
use crate::key::OrderedKey;
use crate::mark::Mark;

/// Downloads `len` elements.
fn fetch<T: Zeroable>(cuda: &EnteredCuda<'_>, address: Address, len: u64) -> Result<Vec<T>, Error> {
    let mut data = try_zeroed(len as usize)?;
    // SAFETY: callers pass parts of runs, which have `len` elements of plain data; the stream is
    // synchronized before they are read.
    unsafe { cuda.download(address, &mut data)? };
    cuda.stream.synchronize()?;
    Ok(data)
}

/// Returns the mark of the entry at this position.
fn mark(sectors: &[Sector], position: u64) -> Mark {
    let Some(sector) = sectors.get((position / SECTOR) as usize) else {
        return Mark::NEW;
    };
    let offset = (position % SECTOR) as usize;
    let bit = |plane: &[u32; 3]| plane[offset / 32] >> (offset % 32) & 1 == 1;
    Mark::from_planes(bit(&sector.live), bit(&sector.shadow))
}

/// Downloads the sectors of a run with `len` entries, and the one after; none where every entry is new.
fn sectors(cuda: &EnteredCuda<'_>, run: &Run, len: u64) -> Result<Vec<Sector>, Error> {
    let count = if run.view().marks == 0 { 0 } else { len / SECTOR + 1 };
    fetch(cuda, run.view().marks, count)
}

/// Returns every key with its mark.
pub(crate) fn entries<B: OrderedKey>(
    cuda: &EnteredCuda<'_>,
    run: &Run,
) -> Result<Vec<(B, Mark)>, Error> {
    let len = run.head(cuda.entered())?.len;
    run.before_reading(&cuda.stream, cuda.entered())?;
    let sectors = sectors(cuda, run, len)?;
    let keys = fetch::<B>(cuda, run.view().keys, len)?;
    Ok(keys.into_iter().zip(0..).map(|(key, at)| (key, mark(&sectors, at))).collect())
}

/// Checks that fences, padding and sums agree with the entries.
pub(crate) fn validate<B: OrderedKey>(cuda: &EnteredCuda<'_>, run: &Run) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    let head = run.head(cuda.entered()).map_err(say)?;
    let (len, view) = (head.len, run.view());
    let nodes = len.div_ceil(NODE);
    run.before_reading(&cuda.stream, cuda.entered()).map_err(say)?;
    let keys: Vec<B> = fetch(cuda, view.keys, nodes * NODE).map_err(say)?;
    let inner: Vec<B> = fetch(cuda, view.inner, nodes.next_multiple_of(NODE)).map_err(say)?;
    let outer: Vec<B> = fetch(cuda, view.outer, nodes.div_ceil(NODE)).map_err(say)?;
    if keys[len as usize..].iter().any(|&padding| padding != B::HIGHEST) {
        return Err("the last node of keys is not padded with the largest key".into());
    }
    check_fences("inner", &keys[..len as usize], &inner)?;
    check_fences("outer", &inner[..nodes as usize], &outer)?;

    let sectors = sectors(cuda, run, len).map_err(say)?;
    let (mut sum, mut tombstones) = (0, 0);
    for position in 0..len {
        let mark = mark(&sectors, position);
        let (live, shadow) = (mark.is_live(), mark.is_shadow());
        if position % SECTOR == 0
            && let Some(sector) = sectors.get((position / SECTOR) as usize)
            && sector.sum != sum
        {
            return Err(format!("the sector at entry {position} says {} for {sum}", sector.sum));
        }
        sum += i64::from(live) - i64::from(shadow);
        tombstones += u64::from(!live);
    }
    if let Some(last) = sectors.get((len / SECTOR) as usize)
        && len % SECTOR == 0
        && last.sum != sum
    {
        return Err(format!("the sector after the last entry says {} for {sum}", last.sum));
    }
    if (head.sum, head.tombstones) != (sum, tombstones) {
        return Err(format!("{head:?} but a sum of {sum} and {tombstones} tombstones"));
    }
    Ok(())
}

/// Checks that there is a fence for the last key of every node, and only the largest key after them.
fn check_fences<B: OrderedKey>(name: &str, keys: &[B], fences: &[B]) -> Result<(), String> {
    let nodes = keys.chunks(NODE as usize).map(|node| node[node.len() - 1]);
    let expected = nodes.chain(std::iter::repeat(B::HIGHEST));
    match fences.iter().zip(expected).position(|(&fence, expected)| fence != expected) {
        Some(at) => Err(format!("{name} fence {at} is not the last key of its node")),
        None => Ok(()),
    }
}
