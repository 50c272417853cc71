//! Keys of several parts whose types are known at run time only, as columns: one array for each part.
//!
//! Packed, they are the integers of the tuple of the same types: every part goes through its own
//! [`Key::to_ordered`], and the first one is in the highest bits.

use std::ops::{BitAnd, BitOr, Shl, Shr};

use bytemuck::Pod;

use super::{Encoding, Key, OrderedKey, ScalarKey};

/// The most bytes that the parts of a key have in all.
const MAX_BYTES: usize = 16;

/// How many keys are packed part by part at a time: few enough that they stay in the nearest cache.
const BLOCK: usize = 1024;

/// The type of one part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A number of this many bytes: 4 or 8 in keys that are columns, else 16 as well.
    Number(Encoding, usize),
    /// As many bytes, compared from the first on.
    Bytes(usize),
}

impl Part {
    /// Returns the type of a key that is a single number.
    pub(super) fn of_number<K: ScalarKey>() -> Self {
        Part::Number(K::ENCODING, size_of::<K>())
    }

    /// Returns how many bytes the part has.
    pub fn width(self) -> usize {
        match self {
            Part::Number(_, width) | Part::Bytes(width) => width,
        }
    }

    fn is_key(self) -> bool {
        match self {
            Part::Number(_, width) => width == 4 || width == 8,
            Part::Bytes(width) => (1..=MAX_BYTES).contains(&width),
        }
    }
}

/// An integer that holds the parts of a key: `u32`, `u64` or `u128`.
pub trait PackedKey:
    OrderedKey
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
    + BitOr<Output = Self>
    + BitAnd<Output = Self>
{
}

impl PackedKey for u32 {}
impl PackedKey for u64 {}
impl PackedKey for u128 {}

/// The parts of a key, the most significant one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    parts: Vec<Part>,
}

/// Calls a function for the type of a part, which it takes as its first type parameter.
macro_rules! with_type {
    ($part:expr, $call:ident::<_, $Packed:ident>($($argument:expr),*)) => {
        with_type!($part, $call, $Packed, ($($argument),*), 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    ($part:expr, $call:ident, $Packed:ident, $arguments:tt, $($len:literal)*) => {
        match $part {
            Part::Number(Encoding::Unsigned, 4) => $call::<u32, $Packed> $arguments,
            Part::Number(Encoding::Unsigned, _) => $call::<u64, $Packed> $arguments,
            Part::Number(Encoding::Signed, 4) => $call::<i32, $Packed> $arguments,
            Part::Number(Encoding::Signed, _) => $call::<i64, $Packed> $arguments,
            Part::Number(Encoding::Float, 4) => $call::<f32, $Packed> $arguments,
            Part::Number(Encoding::Float, _) => $call::<f64, $Packed> $arguments,
            $(Part::Bytes($len) => $call::<[u8; $len], $Packed> $arguments,)*
            Part::Bytes(len) => unreachable!("no part has {len} bytes"),
        }
    };
}

impl Layout {
    /// Returns the layout of these parts, or `None` if no key has them: a part is a number of 4 or 8 bytes, or
    /// some bytes, and all of them together have at most 16 bytes.
    pub fn new(parts: Vec<Part>) -> Option<Self> {
        let layout = Layout { parts };
        let are_keys = layout.parts.iter().all(|part| part.is_key());
        (are_keys && (1..=MAX_BYTES).contains(&layout.bytes())).then_some(layout)
    }

    /// Returns the parts, the most significant one first.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns how many of the low bits of an integer the parts take.
    pub fn bits(&self) -> u32 {
        8 * self.bytes() as u32
    }

    /// Returns how many bytes the narrowest integer has that holds all parts: 4, 8 or 16.
    pub fn width(&self) -> usize {
        self.bytes().next_power_of_two().max(4)
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.width()).sum()
    }

    /// Returns each part with how many bits are below it.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Part, u32)> {
        let mut below = self.bits();
        self.parts.iter().map(move |&part| {
            below -= 8 * part.width() as u32;
            (part, below)
        })
    }

    /// Returns the bits that one element, whose bytes are given, makes of a packed key where it is this part.
    ///
    /// # Panics
    ///
    /// If there is no such part, or if the bytes are not those of one element, aligned as its type wants it.
    #[cfg(feature = "cuda")]
    pub(crate) fn bits_of(&self, index: usize, element: &[u8]) -> u128 {
        let (part, below) = self.places().nth(index).expect("there is such a part");
        assert_eq!(element.len(), part.width(), "there is one element");
        let mut bits = [0];
        with_type!(part, pack_part::<_, u128>(element, below, &mut bits));
        bits[0]
    }

    /// Packs the columns, whose bytes are given, into one integer for each key.
    ///
    /// # Panics
    ///
    /// If there is not one column for each part, if a column's bytes are not aligned as its type wants it, if
    /// it has another number of elements than `packed`, or if the integers are not of the layout's width.
    pub fn pack<P: PackedKey>(&self, columns: &[&[u8]], packed: &mut [P]) {
        self.check::<P>(columns.len());
        for (block, packed) in packed.chunks_mut(BLOCK).enumerate() {
            packed.fill(P::default());
            for (index, (part, below)) in self.places().enumerate() {
                let from = block * BLOCK * part.width();
                let column = &columns[index][from..from + packed.len() * part.width()];
                with_type!(part, pack_part::<_, P>(column, below, packed));
            }
        }
    }

    /// Unpacks integers into the columns, whose bytes are given; where a key is not `found`, into zeros.
    ///
    /// # Panics
    ///
    /// As [`pack`](Layout::pack), or if there is not one of `found` for each key.
    pub fn unpack<P: PackedKey>(
        &self,
        packed: &[P],
        found: Option<&[bool]>,
        columns: &mut [&mut [u8]],
    ) {
        self.check::<P>(columns.len());
        for (block, packed) in packed.chunks(BLOCK).enumerate() {
            let start = block * BLOCK;
            let found = found.map(|found| &found[start..start + packed.len()]);
            let found = found.filter(|found| found.contains(&false));
            for (index, (part, below)) in self.places().enumerate() {
                let width = part.width();
                let column = &mut columns[index][start * width..(start + packed.len()) * width];
                with_type!(part, unpack_part::<_, P>(packed, found, below, column));
            }
        }
    }

    fn check<P: PackedKey>(&self, columns: usize) {
        assert_eq!(columns, self.parts.len(), "there is one column for each part");
        assert_eq!(size_of::<P>(), self.width(), "the integers are of the layout's width");
    }
}

/// Puts the integers of one part of each key into the bits from `below` on.
fn pack_part<K: Key + Pod, P: PackedKey>(column: &[u8], below: u32, packed: &mut [P]) {
    let column: &[K] = bytemuck::cast_slice(column);
    for (packed, key) in packed.iter_mut().zip(column) {
        *packed = *packed | (P::narrow(key.to_ordered().widen()) << below);
    }
}

/// Writes the part of each key that is in the bits from `below` on, or zeros for keys that are not found.
fn unpack_part<K: Key + Pod, P: PackedKey>(
    packed: &[P],
    found: Option<&[bool]>,
    below: u32,
    column: &mut [u8],
) {
    let column: &mut [K] = bytemuck::cast_slice_mut(column);
    let mask = P::narrow(u128::MAX >> (u128::BITS - K::BITS));
    for (part, &packed) in column.iter_mut().zip(packed) {
        *part = K::from_ordered(OrderedKey::narrow(((packed >> below) & mask).widen()));
    }
    for (part, _) in
        column.iter_mut().zip(found.into_iter().flatten()).filter(|(_, found)| !**found)
    {
        *part = K::zeroed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U32: Part = Part::Number(Encoding::Unsigned, 4);
    const I32: Part = Part::Number(Encoding::Signed, 4);
    const F32: Part = Part::Number(Encoding::Float, 4);
    const U64: Part = Part::Number(Encoding::Unsigned, 8);
    const I64: Part = Part::Number(Encoding::Signed, 8);
    const F64: Part = Part::Number(Encoding::Float, 8);

    /// Checks that columns are packed to what tuples of their elements are mapped to, and unpacked again.
    fn check<K: Key<Ordered: PackedKey>>(parts: &[Part], columns: &[&[u8]], keys: &[K]) {
        let layout = Layout::new(parts.to_vec()).unwrap();
        assert_eq!(layout.bits(), K::BITS);
        let mut packed = vec![K::Ordered::default(); keys.len()];
        layout.pack(columns, &mut packed);
        let ordered: Vec<_> = keys.iter().map(|key| key.to_ordered()).collect();
        assert_eq!(packed, ordered);

        let mut unpacked: Vec<_> = columns.iter().map(|column| vec![0u64; column.len()]).collect();
        let mut bytes: Vec<&mut [u8]> = unpacked
            .iter_mut()
            .zip(columns)
            .map(|(to, column)| &mut bytemuck::cast_slice_mut(to)[..column.len()])
            .collect();
        layout.unpack(&packed, None, &mut bytes);
        let bytes: Vec<&[u8]> = bytes.into_iter().map(|column| &*column).collect();
        let mut again = vec![K::Ordered::default(); keys.len()];
        layout.pack(&bytes, &mut again);
        assert_eq!(again, ordered);
    }

    fn bytes<T: Pod>(column: &[T]) -> &[u8] {
        bytemuck::cast_slice(column)
    }

    #[test]
    fn columns_are_packed_as_tuples_are() {
        // More than one block, with numbers of every size and sign.
        let many = 0..3 * BLOCK as u64 + 7;
        let wide: Vec<u64> = many.map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let u32s: Vec<u32> = wide.iter().map(|&x| (x >> 32) as u32).collect();
        let i32s: Vec<i32> = u32s.iter().map(|&x| x.cast_signed()).collect();
        let i64s: Vec<i64> = wide.iter().map(|&x| x.cast_signed()).collect();
        let f32s: Vec<f32> = u32s.iter().map(|&x| f32::from_bits(x)).collect();
        let f64s: Vec<f64> = wide.iter().map(|&x| f64::from_bits(x)).collect();
        let texts: Vec<[u8; 5]> =
            wide.iter().map(|x| x.to_le_bytes()[..5].try_into().unwrap()).collect();
        let all: Vec<[u8; 16]> =
            wide.iter().map(|&x| (u128::from(x) << 64 | u128::from(!x)).to_be_bytes()).collect();

        let keys: Vec<_> = u32s.iter().copied().zip(i32s.iter().copied()).collect();
        check(&[U32, I32], &[bytes(&u32s), bytes(&i32s)], &keys);
        let keys: Vec<_> = u32s.iter().copied().zip(i64s.iter().copied()).collect();
        check(&[U32, I64], &[bytes(&u32s), bytes(&i64s)], &keys);
        let keys: Vec<_> = f64s.iter().copied().zip(wide.iter().copied()).collect();
        check(&[F64, U64], &[bytes(&f64s), bytes(&wide)], &keys);
        let keys: Vec<_> = (0..wide.len()).map(|i| (texts[i], f32s[i], u32s[i])).collect();
        check(&[Part::Bytes(5), F32, U32], &[bytes(&texts), bytes(&f32s), bytes(&u32s)], &keys);
        let keys: Vec<_> = (0..wide.len()).map(|i| (i32s[i], u32s[i], f32s[i], i32s[i])).collect();
        let columns = [bytes(&i32s), bytes(&u32s), bytes(&f32s), bytes(&i32s)];
        check(&[I32, U32, F32, I32], &columns, &keys);
        check(&[Part::Bytes(16)], &[bytes(&all)], &all);
        check(&[Part::Bytes(5)], &[bytes(&texts)], &texts);
        check(&[F32], &[bytes(&f32s)], &f32s);
    }

    #[test]
    fn zeros_and_nans_are_packed_as_one_key_each() {
        let (floats, numbers) = ([0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY], [1u32; 5]);
        let layout = Layout::new(vec![U32, F64]).unwrap();
        let mut packed = [0u128; 5];
        layout.pack(&[bytes(&numbers), bytes(&floats)], &mut packed);
        assert_eq!(packed[0], packed[1]);
        assert_eq!(packed[2], packed[3]);
        assert!(packed[4] < packed[2]);
    }

    #[test]
    fn keys_that_are_not_found_are_zeros() {
        let layout = Layout::new(vec![I32, F32]).unwrap();
        let (mut signed, mut floats) = ([7i32; 2], [7.0f32; 2]);
        let packed = [(-5i32, 1.5f32).to_ordered(), 0];
        let columns =
            &mut [bytemuck::cast_slice_mut(&mut signed), bytemuck::cast_slice_mut(&mut floats)];
        layout.unpack(&packed, Some(&[true, false]), columns);
        assert_eq!((signed, floats), ([-5, 0], [1.5, 0.0]));
    }

    #[test]
    fn a_layout_has_keys_of_at_most_16_bytes() {
        for (parts, width) in [
            (vec![Part::Bytes(3)], 4),
            (vec![Part::Bytes(3), Part::Bytes(2)], 8),
            (vec![U32, I32], 8),
            (vec![U32, Part::Bytes(5)], 16),
            (vec![U64, I64], 16),
        ] {
            assert_eq!(Layout::new(parts).unwrap().width(), width);
        }
        for wrong in [
            vec![],
            vec![Part::Bytes(0)],
            vec![Part::Bytes(17)],
            vec![Part::Number(Encoding::Signed, 2)],
            vec![U64, U64, Part::Bytes(1)],
        ] {
            assert_eq!(Layout::new(wrong), None);
        }
    }
}
