//! Marks: for every entry whether it is live and whether it shadows an older one, with running
//! sums, so that `live − shadow` over any stretch of a run takes two reads.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::prefetch;
use crate::error::Error;
use crate::mark::Mark;

/// While a batch is merged, an entry's mark is a byte of these bits.
pub(crate) mod byte {
    /// A regular entry rather than a tombstone.
    pub const LIVE: u8 = 1;
    /// The key was live in the older runs.
    pub const SHADOW: u8 = 2;
    /// Set in every mark, so that "keep all" is a mask like any other.
    pub const PRESENT: u8 = 4;
    /// A new key: live, shadowing nothing.
    pub const NEW: u8 = LIVE | PRESENT;
}

/// Entries in a sector: as many as fit with a full 64-bit sum in 32 bytes.
const SECTOR: usize = 96;

/// Half a cache line that answers for 96 entries.
#[derive(Clone, Copy, Debug, Zeroable, Pod)]
#[repr(C)]
struct Sector {
    /// Σ (live − shadow) over all entries before this sector.
    sum: i64,
    live: [u32; 3],
    shadow: [u32; 3],
}

impl Sector {
    fn pack(bytes: &[u8]) -> Self {
        let mut sector = Sector::zeroed();
        for (index, &mark) in bytes.iter().enumerate() {
            let (word, bit) = (index / 32, index % 32);
            sector.live[word] |= u32::from(mark & byte::LIVE != 0) << bit;
            sector.shadow[word] |= u32::from(mark & byte::SHADOW != 0) << bit;
        }
        sector
    }

    /// Σ (live − shadow) over the first `len` entries of the sector.
    #[inline(always)]
    fn sum_of_first(&self, len: usize) -> i64 {
        let mask = (1u128 << len) - 1;
        let ones = |plane| (widen(plane) & mask).count_ones() as i64;
        ones(&self.live) - ones(&self.shadow)
    }
}

#[inline(always)]
fn widen(plane: &[u32; 3]) -> u128 {
    u128::from(plane[0]) | u128::from(plane[1]) << 32 | u128::from(plane[2]) << 64
}

/// The marks of one run.
#[derive(Debug)]
pub(crate) struct Marks {
    sectors: Buffer<Sector>,
    tombstones: usize,
}

impl Marks {
    /// Packs one byte per entry. `None` when every entry is new: a run needs no marks then.
    pub fn pack(cpu: &Cpu, bytes: &[u8]) -> Result<Option<Self>, Error> {
        // One more sector than is full, so that the sum of everything has a place to be read.
        let mut sectors = cpu.memory.zeroed::<Sector>(bytes.len() / SECTOR + 1)?;
        let part = sectors.len().div_ceil(cpu.workers.parts(bytes.len()));
        let pieces = sectors.chunks_mut(part).zip(bytes.chunks(part * SECTOR));
        let tombstones = cpu.workers.each(pieces, |(sectors, bytes)| {
            for (sector, bytes) in sectors.iter_mut().zip(bytes.chunks(SECTOR)) {
                *sector = Sector::pack(bytes);
            }
            Ok(bytes.iter().filter(|&mark| mark & byte::LIVE == 0).count())
        })?;
        let mut sum = 0;
        for sector in sectors.iter_mut() {
            sector.sum = sum;
            sum += sector.sum_of_first(SECTOR);
        }
        let all_new = sum == bytes.len() as i64;
        let tombstones = tombstones.iter().sum();
        Ok((!all_new).then_some(Marks { sectors, tombstones }))
    }

    /// Σ (live − shadow) over the entries before `position`.
    #[inline(always)]
    pub fn sum_before(&self, position: usize) -> i64 {
        let sector = &self.sectors[position / SECTOR];
        sector.sum + sector.sum_of_first(position % SECTOR)
    }

    /// Adds to each sum that of the entries before its position.
    pub fn add_sums(&self, positions: &[usize], sums: &mut [i64]) {
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor was just found to have the instruction, which not all have. With
            // it, counts over eight levels are 1.1 times as fast (`docs/benchmarks.md`).
            return unsafe { self.add_sums_with_popcnt(positions, sums) };
        }
        self.add_sums_anywhere(positions, sums);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn add_sums_with_popcnt(&self, positions: &[usize], sums: &mut [i64]) {
        self.add_sums_anywhere(positions, sums);
    }

    #[inline(always)]
    fn add_sums_anywhere(&self, positions: &[usize], sums: &mut [i64]) {
        for (&position, sum) in positions.iter().zip(sums) {
            *sum += self.sum_before(position);
        }
    }

    /// Brings near what the other methods read for this entry.
    #[inline]
    pub fn prefetch(&self, position: usize) {
        prefetch(&self.sectors, position / SECTOR);
    }

    #[inline]
    pub fn get(&self, position: usize) -> Mark {
        let sector = &self.sectors[position / SECTOR];
        let (word, bit) = (position % SECTOR / 32, position % 32);
        Mark::new(sector.live[word] >> bit & 1 == 1, sector.shadow[word] >> bit & 1 == 1)
    }

    /// The marks of a stretch of entries, a byte each.
    pub fn unpack(&self, stretch: Range<usize>, bytes: &mut [u8]) {
        let mut position = stretch.start;
        let mut rest = &mut bytes[..stretch.len()];
        while !rest.is_empty() {
            let sector = &self.sectors[position / SECTOR];
            let first = position % SECTOR;
            let here = rest.len().min(SECTOR - first);
            let (live, shadow) = (widen(&sector.live) >> first, widen(&sector.shadow) >> first);
            for (index, mark) in rest[..here].iter_mut().enumerate() {
                let live = (live >> index) as u8 & 1;
                let shadow = (shadow >> index) as u8 & 1;
                *mark = byte::PRESENT | (live * byte::LIVE) | (shadow * byte::SHADOW);
            }
            rest = &mut rest[here..];
            position += here;
        }
    }

    pub fn tombstones(&self) -> usize {
        self.tombstones
    }

    pub fn bytes(&self) -> u64 {
        self.sectors.bytes()
    }

    /// Whether the running sums agree with the planes.
    #[cfg(feature = "testing")]
    pub fn validate(&self, len: usize) -> Result<(), String> {
        let mut sum = 0;
        let mut tombstones = 0;
        for position in 0..=len {
            if self.sum_before(position) != sum {
                return Err(format!("the running sum before entry {position} is not {sum}"));
            }
            if position < len {
                let mark = self.get(position);
                sum += i64::from(mark.is_live()) - i64::from(mark.is_shadow());
                tombstones += usize::from(!mark.is_live());
            }
        }
        if tombstones != self.tombstones {
            return Err(format!("{tombstones} tombstones, but {} are counted", self.tombstones));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks in which new, replacement and tombstone alternate without a pattern of 96.
    fn bytes(len: usize) -> Vec<u8> {
        let states = [byte::NEW, byte::NEW | byte::SHADOW, byte::SHADOW | byte::PRESENT];
        (0..len).map(|i| states[(i * i / 7 + i) % 3]).collect()
    }

    #[test]
    fn marks_come_back_as_they_were_packed_at_every_length() {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        for len in (2..300).chain([SECTOR * 2, 50_000]) {
            let bytes = bytes(len);
            let marks = Marks::pack(&cpu, &bytes).unwrap().expect("not all are new");
            marks.validate(len).unwrap();
            let mut unpacked = vec![0; len];
            marks.unpack(0..len, &mut unpacked);
            assert_eq!(unpacked, bytes);
            let positions: Vec<usize> = (0..=len).collect();
            let mut sums = vec![5; len + 1];
            marks.add_sums(&positions, &mut sums);
            assert!(sums.iter().zip(&positions).all(|(sum, &at)| *sum == 5 + marks.sum_before(at)));
            let stretch = len / 3..len;
            marks.unpack(stretch.clone(), &mut unpacked);
            assert_eq!(unpacked[..stretch.len()], bytes[stretch]);
        }
    }

    #[test]
    fn entries_that_are_all_new_need_no_marks() {
        let cpu = Cpu::new(None, None).unwrap();
        assert!(Marks::pack(&cpu, &[byte::NEW; 200]).unwrap().is_none());
        assert!(Marks::pack(&cpu, &[byte::NEW | byte::SHADOW]).unwrap().is_some());
    }

    #[test]
    fn sums_may_be_negative() {
        let cpu = Cpu::new(None, None).unwrap();
        let marks = Marks::pack(&cpu, &[byte::PRESENT | byte::SHADOW; 500]).unwrap().unwrap();
        assert_eq!(marks.sum_before(500), -500);
        assert_eq!(marks.tombstones(), 500);
    }
}
