//! Which types can be values.

use bytemuck::Pod;

/// A type of value: any plain data ([`bytemuck::Pod`]) of 0, 4, 8 or 16 bytes.
///
/// `()` makes the dictionary a set. Numbers and arrays of them are values, and so are your own
/// structs, with the crate `bytemuck` and its feature `derive`:
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     name: u32,
/// }
///
/// # fn main() -> Result<(), gpulsm::Error> {
/// let particle = Particle { position: [0.5, 1.0, 2.0], name: 7 };
/// let mut cells = gpulsm::Dictionary::<u64, Particle>::new();
/// cells.set(12, particle)?;
/// assert_eq!(cells.get(12)?, Some(particle));
/// # Ok(())
/// # }
/// ```
///
/// Another width does not compile:
///
/// ```compile_fail
/// let dictionary = gpulsm::Dictionary::<u32, [u8; 3]>::new();
/// ```
pub trait Value: Pod + Send + Sync {
    /// Bytes in a value.
    const WIDTH: usize = {
        let width = size_of::<Self>();
        assert!(matches!(width, 0 | 4 | 8 | 16), "a gpulsm value has 0, 4, 8 or 16 bytes");
        width
    };
}

impl<T: Pod + Send + Sync> Value for T {}

/// `len` values from their bytes.
pub(crate) fn of_bytes<V: Value>(bytes: &[u8], len: usize) -> &[V] {
    match V::WIDTH {
        0 => nothings(len),
        _ => bytemuck::cast_slice(bytes),
    }
}

/// `len` values from their bytes, to be written.
pub(crate) fn of_bytes_mut<V: Value>(bytes: &mut [u8], len: usize) -> &mut [V] {
    match V::WIDTH {
        0 => nothings(len),
        _ => bytemuck::cast_slice_mut(bytes),
    }
}

/// Values without width leave no bytes behind to count them by. A vector of them takes no memory,
/// so there is none to leak.
fn nothings<V: Value>(len: usize) -> &'static mut [V] {
    bytemuck::zeroed_vec(len).leak()
}
