//! The packed marks of a run: two bits per entry, with running sums of live − shadow, so that the
//! sum over any range of entries takes two reads.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::budget::Reserved;
use crate::cpu::context::Cpu;
use crate::cpu::memory::Buffer;
use crate::cpu::prefetch::prefetch;
use crate::error::Error;
use crate::mark::Mark;

/// Entries in a sector: as many as fit into 32 bytes beside a 64-bit sum.
const SECTOR: usize = 96;

/// The marks of 96 entries in half a cache line.
#[derive(Clone, Copy, Debug, Zeroable, Pod)]
#[repr(C)]
struct Sector {
    /// Σ (live − shadow) over all entries before this sector.
    sum: i64,
    live: [u32; 3],
    shadow: [u32; 3],
}

impl Sector {
    /// Packs at most [`SECTOR`] marks. The sum is left at 0.
    fn pack(marks: &[Mark]) -> Self {
        let mut sector = Sector::zeroed();
        for (index, eight) in marks.chunks(8).enumerate() {
            let (word, bit) = (index / 4, index % 4 * 8);
            let mut padded = [Mark::RESTART; 8]; // Neither bit is set.
            padded[..eight.len()].copy_from_slice(eight);
            let (live, shadow) = Mark::planes_of_eight(padded);
            sector.live[word] |= u32::from(live) << bit;
            sector.shadow[word] |= u32::from(shadow) << bit;
        }
        sector
    }

    /// Returns Σ (live − shadow) over the first `len` entries of the sector.
    #[inline(always)]
    fn sum_of_first(&self, len: usize) -> i64 {
        let mask = (1u128 << len) - 1;
        let ones = |plane| (widen(plane) & mask).count_ones() as i64;
        ones(&self.live) - ones(&self.shadow)
    }
}

/// Returns the bits of a plane as one integer.
#[inline(always)]
fn widen(plane: &[u32; 3]) -> u128 {
    u128::from(plane[0]) | u128::from(plane[1]) << 32 | u128::from(plane[2]) << 64
}

/// What the marks that were packed so far add up to.
#[derive(Default)]
struct Counts {
    /// Σ (live − shadow).
    sum: i64,
    tombstones: usize,
    restarts: usize,
}

impl Counts {
    /// Returns the marks of a run of `len` entries; `None` if every entry is new.
    fn with_sectors(self, sectors: Buffer<Sector>, len: usize) -> Option<PackedMarks> {
        let Counts { sum, tombstones, restarts } = self;
        (sum != len as i64).then_some(PackedMarks { sectors, tombstones, restarts })
    }
}

/// Packs marks, behind those that `counts` has counted, and counts them. The last sectors may have no marks. All
/// threads share the work.
fn pack_sectors(
    cpu: &Cpu,
    marks: &[Mark],
    sectors: &mut [Sector],
    counts: &mut Counts,
) -> Result<(), Error> {
    let part = sectors.len().div_ceil(cpu.workers.parts(marks.len())).max(1);
    let parts = sectors.chunks_mut(part).zip(marks.chunks(part * SECTOR));
    let counted = cpu.workers.map(parts, |(sectors, marks)| {
        for (sector, marks) in sectors.iter_mut().zip(marks.chunks(SECTOR)) {
            *sector = Sector::pack(marks);
        }
        let restarts = marks.iter().filter(|&&mark| mark == Mark::RESTART).count();
        Ok((marks.iter().filter(|mark| !mark.is_live()).count(), restarts))
    })?;
    for sector in sectors.iter_mut() {
        sector.sum = counts.sum;
        counts.sum += sector.sum_of_first(SECTOR);
    }
    counts.tombstones += counted.iter().map(|&(tombstones, _)| tombstones).sum::<usize>();
    counts.restarts += counted.iter().map(|&(_, restarts)| restarts).sum::<usize>();
    Ok(())
}

/// Packs the marks of a run a part at a time, in memory that is counted as it is written.
pub(crate) struct MarkPacker {
    sectors: Buffer<Sector>,
    /// The sectors that are full.
    full: usize,
    counts: Counts,
    /// Marks that are not packed yet: less than a sector, and then those of a part.
    unpacked: Buffer<Mark>,
    /// The number of marks that are less than a sector.
    rest: usize,
}

impl MarkPacker {
    /// Makes room for the marks of up to `len` entries, in parts of up to `part`.
    pub fn new(cpu: &Cpu, len: usize, part: usize) -> Result<Self, Error> {
        Ok(MarkPacker {
            sectors: cpu.memory.unbacked(len / SECTOR + 1)?,
            full: 0,
            counts: Counts::default(),
            unpacked: cpu.memory.zeroed(part + SECTOR)?,
            rest: 0,
        })
    }

    /// Returns the most bytes of memory that the marks of a part of this many entries take before they are packed.
    pub fn scratch_bytes(part: usize) -> usize {
        (part + SECTOR) * size_of::<Mark>()
    }

    /// Returns where the marks of a part are to be written.
    pub fn room(&mut self) -> &mut [Mark] {
        &mut self.unpacked[self.rest..]
    }

    /// Packs the first `len` marks that were written there, in memory that was counted elsewhere.
    pub fn append(&mut self, cpu: &Cpu, len: usize, from: &mut Reserved) -> Result<(), Error> {
        let unpacked = self.rest + len;
        let sectors = unpacked / SECTOR;
        self.rest = unpacked % SECTOR;
        self.sectors.back(self.full + sectors, from);
        let (packed, rest) = self.unpacked[..unpacked].split_at(sectors * SECTOR);
        let to = &mut self.sectors[self.full..][..sectors];
        if !packed.is_empty() {
            pack_sectors(cpu, packed, to, &mut self.counts)?;
        }
        let rest = packed.len()..packed.len() + rest.len();
        self.unpacked.copy_within(rest, 0);
        self.full += sectors;
        Ok(())
    }

    /// Returns the marks of all parts; `None` if every entry is new.
    pub fn finish(mut self, cpu: &Cpu, from: &mut Reserved) -> Result<Option<PackedMarks>, Error> {
        let len = self.full * SECTOR + self.rest;
        self.sectors.back(self.full + 1, from);
        let last = &mut self.sectors[self.full..][..1];
        pack_sectors(cpu, &self.unpacked[..self.rest], last, &mut self.counts)?;
        self.sectors.shorten(self.full + 1);
        Ok(self.counts.with_sectors(self.sectors, len))
    }
}

/// Returns the bytes of the packed marks of `len` entries.
pub(crate) fn packed_bytes(len: usize) -> usize {
    (len / SECTOR + 1) * size_of::<Sector>()
}

/// The marks of one run.
#[derive(Debug)]
pub(crate) struct PackedMarks {
    sectors: Buffer<Sector>,
    tombstones: usize,
    restarts: usize,
}

impl PackedMarks {
    /// Packs the marks of a run. Returns `None` if every entry is new: the run needs no marks then.
    pub fn pack(cpu: &Cpu, marks: &[Mark]) -> Result<Option<Self>, Error> {
        // There is always a last sector that is not full, for the sum over all entries to be read
        // from.
        let mut sectors = cpu.memory.zeroed::<Sector>(marks.len() / SECTOR + 1)?;
        let mut counts = Counts::default();
        pack_sectors(cpu, marks, &mut sectors, &mut counts)?;
        Ok(counts.with_sectors(sectors, marks.len()))
    }

    /// Returns the marks of a run of `len` tombstones.
    pub fn of_tombstones(cpu: &Cpu, len: usize) -> Result<Self, Error> {
        let mut sectors = cpu.memory.zeroed::<Sector>(len / SECTOR + 1)?;
        let full = Sector::pack(&[Mark::TOMBSTONE; SECTOR]);
        for (index, sector) in sectors.iter_mut().enumerate() {
            *sector = Sector { sum: -((index * SECTOR) as i64), ..full };
        }
        let last = &mut sectors[len / SECTOR];
        *last =
            Sector { sum: last.sum, ..Sector::pack(&[Mark::TOMBSTONE; SECTOR][..len % SECTOR]) };
        Ok(PackedMarks { sectors, tombstones: len, restarts: 0 })
    }

    /// Returns Σ (live − shadow) over the entries before `position`.
    #[inline(always)]
    pub fn sum_before(&self, position: usize) -> i64 {
        let sector = &self.sectors[position / SECTOR];
        sector.sum + sector.sum_of_first(position % SECTOR)
    }

    /// Adds [`sum_before`](PackedMarks::sum_before) each position to the sum at the same index.
    pub fn add_sums(&self, positions: &[usize], sums: &mut [i64]) {
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor was just found to have `popcnt`, the only feature that the
            // callee requires. Counts over eight levels are 1.1 times as fast with it
            // (`docs/benchmarks.md`).
            return unsafe { self.add_sums_with_popcnt(positions, sums) };
        }
        self.add_sums_portably(positions, sums);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn add_sums_with_popcnt(&self, positions: &[usize], sums: &mut [i64]) {
        self.add_sums_portably(positions, sums);
    }

    #[inline(always)]
    fn add_sums_portably(&self, positions: &[usize], sums: &mut [i64]) {
        for (&position, sum) in positions.iter().zip(sums) {
            *sum += self.sum_before(position);
        }
    }

    /// Prefetches what the other methods read for this position.
    #[inline]
    pub fn prefetch(&self, position: usize) {
        prefetch(&self.sectors, position / SECTOR);
    }

    /// Returns the mark of one entry.
    #[inline]
    pub fn get(&self, position: usize) -> Mark {
        let sector = &self.sectors[position / SECTOR];
        let (word, bit) = (position % SECTOR / 32, position % 32);
        Mark::from_planes(sector.live[word] >> bit & 1 == 1, sector.shadow[word] >> bit & 1 == 1)
    }

    /// Writes the marks of the entries in `range` to the start of `marks`.
    pub fn unpack(&self, range: Range<usize>, marks: &mut [Mark]) {
        let mut position = range.start;
        let mut rest = &mut marks[..range.len()];
        while !rest.is_empty() {
            let sector = &self.sectors[position / SECTOR];
            let first = position % SECTOR;
            let here = rest.len().min(SECTOR - first);
            let (live, shadow) = (widen(&sector.live) >> first, widen(&sector.shadow) >> first);
            for (index, eight) in rest[..here].chunks_mut(8).enumerate() {
                let bit = index * 8;
                let marks = Mark::eight_from_planes((live >> bit) as u8, (shadow >> bit) as u8);
                eight.copy_from_slice(&marks[..eight.len()]);
            }
            rest = &mut rest[here..];
            position += here;
        }
    }

    /// Returns the number of tombstones.
    pub fn tombstones(&self) -> usize {
        self.tombstones
    }

    /// Returns whether any entry hides what is older: whether there are tombstones or restarts.
    pub fn any_hides(&self) -> bool {
        self.tombstones + self.restarts > 0
    }

    /// Returns the bytes allocated.
    pub fn bytes(&self) -> u64 {
        self.sectors.bytes()
    }

    /// Returns memory of the marks of entries in `range`, which nobody reads again, to the system. The bytes are counted
    /// elsewhere from then on.
    pub fn release(&mut self, range: Range<usize>, to: &mut Reserved) {
        self.sectors.release(range.start / SECTOR..range.end / SECTOR, to);
    }

    /// Frees the marks, whose bytes are counted elsewhere from then on.
    pub fn free(&mut self, to: &mut Reserved) {
        self.sectors.free(to);
    }

    /// Checks the running sums and the number of tombstones against the marks.
    #[cfg(feature = "testing")]
    pub fn validate(&self, len: usize) -> Result<(), String> {
        let mut sum = 0;
        let (mut tombstones, mut restarts) = (0, 0);
        for position in 0..=len {
            if self.sum_before(position) != sum {
                return Err(format!("the running sum before entry {position} is not {sum}"));
            }
            if position < len {
                let mark = self.get(position);
                sum += mark.sum();
                tombstones += usize::from(!mark.is_live());
                restarts += usize::from(mark == Mark::RESTART);
            }
        }
        let counted = (self.tombstones, self.restarts);
        if (tombstones, restarts) != counted {
            let found = format!("{tombstones} tombstones and {restarts} restarts");
            return Err(format!("{found}, but {counted:?} are counted"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns marks of all kinds, without a period that divides the length of a sector.
    fn sample(len: usize) -> Vec<Mark> {
        let states =
            [Mark::NEW, Mark::REPLACEMENT, Mark::TOMBSTONE, Mark::RESTART, Mark::REPLACEMENT];
        (0..len).map(|i| states[(i * i / 7 + i) % 5]).collect()
    }

    #[test]
    fn unpacked_marks_are_those_that_were_packed_at_every_length() {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        for len in (2..300).chain([SECTOR * 2, 50_000]) {
            let sample = sample(len);
            let marks = PackedMarks::pack(&cpu, &sample).unwrap().expect("not all are new");
            marks.validate(len).unwrap();
            let mut unpacked = vec![Mark::VOID; len];
            marks.unpack(0..len, &mut unpacked);
            assert_eq!(unpacked, sample);
            let positions: Vec<usize> = (0..=len).collect();
            let mut sums = vec![5; len + 1];
            marks.add_sums(&positions, &mut sums);
            assert!(sums.iter().zip(&positions).all(|(sum, &at)| *sum == 5 + marks.sum_before(at)));
            let range = len / 3..len;
            marks.unpack(range.clone(), &mut unpacked);
            assert_eq!(unpacked[..range.len()], sample[range]);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn marks_packed_in_parts_are_those_packed_at_once() {
        let cpu = Cpu::new(None, Some(2)).unwrap();
        for len in [0, 1, SECTOR, 1000, 50_000] {
            for part in [1, 95, SECTOR, 97, 7000] {
                let sample = sample(len);
                let mut purse = cpu.memory.reserve(packed_bytes(len) as u64).unwrap();
                let mut packer = MarkPacker::new(&cpu, len, part).unwrap();
                for marks in sample.chunks(part) {
                    packer.room()[..marks.len()].copy_from_slice(marks);
                    packer.append(&cpu, marks.len(), &mut purse).unwrap();
                }
                let marks = packer.finish(&cpu, &mut purse).unwrap();
                assert_eq!(purse.bytes(), 0);
                let at_once = PackedMarks::pack(&cpu, &sample).unwrap();
                assert_eq!(marks.is_some(), at_once.is_some());
                let Some(marks) = marks else { continue };
                assert_eq!(marks.bytes(), packed_bytes(len) as u64);
                marks.validate(len).unwrap();
                let mut unpacked = vec![Mark::VOID; len];
                marks.unpack(0..len, &mut unpacked);
                assert_eq!(unpacked, sample);
            }
        }
    }

    #[test]
    fn entries_that_are_all_new_need_no_marks() {
        let cpu = Cpu::new(None, None).unwrap();
        assert!(PackedMarks::pack(&cpu, &[Mark::NEW; 200]).unwrap().is_none());
        assert!(PackedMarks::pack(&cpu, &[Mark::REPLACEMENT]).unwrap().is_some());
    }

    #[test]
    fn marks_of_tombstones_are_those_that_would_be_packed() {
        let cpu = Cpu::new(None, None).unwrap();
        for len in [1, 95, 96, 97, 192, 5000] {
            let marks = PackedMarks::of_tombstones(&cpu, len).unwrap();
            let packed = PackedMarks::pack(&cpu, &vec![Mark::TOMBSTONE; len]).unwrap().unwrap();
            marks.validate(len).unwrap();
            assert_eq!(bytes_of(&marks), bytes_of(&packed));
        }
    }

    fn bytes_of(marks: &PackedMarks) -> &[u8] {
        bytemuck::cast_slice(&marks.sectors)
    }

    #[test]
    fn sums_may_be_negative() {
        let cpu = Cpu::new(None, None).unwrap();
        let marks = PackedMarks::pack(&cpu, &[Mark::TOMBSTONE; 500]).unwrap().unwrap();
        assert_eq!(marks.sum_before(500), -500);
        assert_eq!(marks.tombstones(), 500);
    }
}
