//! Which types can be values.

use bytemuck::Pod;

/// A type of value: any plain data ([`bytemuck::Pod`]) of 0, 4, 8 or 16 bytes.
///
/// `()` makes the dictionary a set. Numbers, arrays of them and one's own `#[repr(C)]` structs that
/// derive `Pod` are values. Another width does not compile:
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
