//! Random lists of operations, drawn from bytes.

use crate::builder::Builder;
use crate::dictionary::Dictionary;
use crate::key::Key;
use crate::value::Value;

/// One call, or a few that belong together.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // Each is the call of that name.
pub enum Operation<K, V> {
    Insert(Vec<(K, V)>),
    Delete(Vec<K>),
    Update(Vec<(K, V)>, Vec<K>),
    DeleteRange(Vec<(K, K)>),
    MergeFrom(Vec<(K, V)>),
    Rebuild,
    Cleanup,
    Clear,
    Lookup(Vec<K>),
    Count(Vec<(K, K)>),
    Range(Vec<(K, K)>),
    Nearest(Vec<K>),
    Rank(Vec<K>),
    Select(Vec<u64>),
    Scan,
    Snapshot,
    Clone,
}

/// Draws operations from bytes. When the bytes run out it draws zeros.
pub struct Draw<I> {
    bytes: I,
    scale: usize,
}

impl<I: Iterator<Item = u8>> Draw<I> {
    /// Draws from these bytes.
    pub fn new(bytes: impl IntoIterator<IntoIter = I>) -> Self {
        Draw { bytes: bytes.into_iter(), scale: 1 }
    }

    /// Makes lists `scale` times as long, of keys that are spread `scale` times as far.
    pub fn scaled(self, scale: usize) -> Self {
        Draw { scale, ..self }
    }

    /// Draws settings: often a tiny batch size, so that there are many carries, and often a small limit of
    /// what one batch merges.
    pub fn settings<K: Key, V: Value>(&mut self) -> Builder<K, V> {
        let byte = usize::from(self.byte());
        let builder =
            Dictionary::builder().batch_size([1, 2, 3, 4, 8, 16, 50, 256, 600, 1024][byte % 10]);
        match byte / 10 % 4 {
            0 => builder,
            by => builder.merged_at_once([0, 20, 100][by - 1]),
        }
    }

    /// Draws the next operation. (A new kind takes over one of the numbers of another kind that draws the
    /// same arguments, so that the fuzzer's corpus keeps its meaning.)
    pub fn operation<K: Key, V: Value>(&mut self) -> Operation<K, V> {
        match self.byte() % 32 {
            0..=6 => Operation::Insert(self.list(Self::pair)),
            7..=9 => Operation::Delete(self.list(Self::key)),
            10..=14 => Operation::Update(self.list(Self::pair), self.list(Self::key)),
            15 => Operation::DeleteRange(self.list(Self::keys)),
            16 => Operation::MergeFrom(self.list(Self::pair)),
            17 => Operation::Rebuild,
            18 => Operation::Cleanup,
            19 => Operation::Clear,
            20 | 21 => Operation::Lookup(self.list(Self::key)),
            22 | 23 => Operation::Count(self.list(Self::keys)),
            24 | 25 => Operation::Range(self.list(Self::keys)),
            26 => Operation::Nearest(self.list(Self::key)),
            27 => Operation::Rank(self.list(Self::key)),
            28 => Operation::Select(self.list(|draw| draw.number())),
            29 => Operation::Scan,
            30 => Operation::Snapshot,
            _ => Operation::Clone,
        }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            number => u64::from(number),
        }
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        let len = match self.byte() {
            len @ 0..=239 => usize::from(len) % 12,
            long => usize::from(long - 238) * 20,
        };
        (0..len * self.scale).map(|_| item(self)).collect()
    }

    fn pair<K: Key, V: Value>(&mut self) -> (K, V) {
        (self.key(), self.plain(2))
    }

    fn keys<K: Key>(&mut self) -> (K, K) {
        (self.key(), self.key())
    }

    /// Mostly one of a few keys, so that they meet again; sometimes an end; sometimes any.
    fn key<K: Key>(&mut self) -> K {
        let kind = self.byte();
        match kind {
            0..=199 => {
                K::from_ordered(self.near(K::from_ordered(bytemuck::Zeroable::zeroed()), kind))
            }
            200..=219 => K::from_ordered(self.near(K::HIGHEST, kind)),
            220..=224 => K::LOWEST,
            225..=229 => K::HIGHEST,
            230 => self.plain(0),
            _ => self.plain(size_of::<K>()),
        }
    }

    /// The integer of `base`, or one of its neighbours.
    fn near<K: Key>(&mut self, base: K, distance: u8) -> K::Ordered {
        let mut ordered: K::Ordered = base.to_ordered();
        let mut bytes = [0; 8];
        let width = size_of::<K::Ordered>();
        bytes[..width].copy_from_slice(bytemuck::bytes_of(&ordered));
        let base = u64::from_le_bytes(bytes);
        let is_up = base == 0 || self.byte() & 1 == 0;
        let distance = match (u64::from(distance), self.scale) {
            (near, 1) => near % 40,
            (near, scale) => {
                let far = near << 16 | u64::from(self.byte()) << 8 | u64::from(self.byte());
                far % (40 * scale as u64)
            }
        };
        let moved = if is_up { base.wrapping_add(distance) } else { base.wrapping_sub(distance) };
        bytemuck::bytes_of_mut(&mut ordered).copy_from_slice(&moved.to_le_bytes()[..width]);
        ordered
    }

    /// Any plain data, of which at most `drawn` bytes are not 0.
    fn plain<T: bytemuck::Pod>(&mut self, drawn: usize) -> T {
        let mut plain = T::zeroed();
        let bytes = bytemuck::bytes_of_mut(&mut plain);
        bytes.iter_mut().take(drawn).for_each(|byte| *byte = self.byte());
        plain
    }
}

impl Draw<Random> {
    /// Draws without end from a pseudo-random sequence.
    pub fn random(seed: u64) -> Self {
        Draw { bytes: Random::new(seed), scale: 1 }
    }
}

/// An endless pseudo-random sequence of bytes (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Iterator for Random {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        Some((self.number() >> 56) as u8)
    }
}
