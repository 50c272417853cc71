//! Bytes as keys: `[u8; N]`, compared from the first byte on.

use super::{Key, Part, private};

/// Makes arrays of these lengths keys, as integers whose most significant byte is the first.
macro_rules! byte_keys {
    ($ordered:ty: $($len:literal),*) => {
        $(
            impl private::Sealed for [u8; $len] {}

            impl Key for [u8; $len] {
                type Ordered = $ordered;
                const BITS: u32 = 8 * $len;
                const LOWEST: Self = [0; $len];
                const HIGHEST: Self = [u8::MAX; $len];

                #[inline]
                fn to_ordered(self) -> $ordered {
                    let mut bytes = [0; size_of::<$ordered>()];
                    bytes[size_of::<$ordered>() - $len..].copy_from_slice(&self);
                    <$ordered>::from_be_bytes(bytes)
                }

                #[inline]
                fn from_ordered(ordered: $ordered) -> Self {
                    let mut bytes = [0; $len];
                    bytes.copy_from_slice(&ordered.to_be_bytes()[size_of::<$ordered>() - $len..]);
                    bytes
                }

                fn add_parts(parts: &mut Vec<Part>) {
                    parts.push(Part::Bytes($len));
                }
            }
        )*
    };
}

byte_keys!(u32: 1, 2, 3, 4);
byte_keys!(u64: 5, 6, 7, 8);
byte_keys!(u128: 9, 10, 11, 12, 13, 14, 15, 16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::OrderedKey;

    #[test]
    fn bytes_are_compared_from_the_first_on() {
        assert!([1u8, 0, 0].to_ordered() > [0u8, 255, 255].to_ordered());
        assert_eq!([1u8, 2, 3].to_ordered(), 0x01_02_03);
        assert_eq!(<[u8; 3]>::from_ordered(0x01_02_03), [1, 2, 3]);
        let text = *b"gpulsm keys!";
        assert_eq!(<[u8; 12]>::from_ordered(text.to_ordered()), text);
        assert_eq!(<[u8; 16]>::HIGHEST.to_ordered(), u128::MAX);
        assert_eq!(<[u8; 5]>::HIGHEST.to_ordered().widen(), (1 << 40) - 1);
    }
}
