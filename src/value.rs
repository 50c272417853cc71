//! Which types can be values.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::error::{Error, try_zeroed};

/// A type of value: plain data of 0, 4, 8 or 16 bytes.
///
/// `()` makes the dictionary a set. Numbers of 4, 8 and 16 bytes are values, and so are arrays of numbers
/// of these sizes. A struct of your own becomes one by the macro [`value!`](crate::value):
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     name: u32,
/// }
///
/// gpulsm::value!(Particle);
///
/// # fn main() -> Result<(), gpulsm::Error> {
/// let particle = Particle { position: [0.5, 1.0, 2.0], name: 7 };
/// let mut cells = gpulsm::Dictionary::<u64, Particle>::new();
/// cells.insert_one(12, particle)?;
/// assert_eq!(cells.lookup_one(12)?, Some(particle));
/// # Ok(())
/// # }
/// ```
///
/// Other sizes don't compile:
///
/// ```compile_fail
/// let dictionary = gpulsm::Dictionary::<u32, u16>::new();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a value of a gpulsm dictionary",
    note = "values have 0, 4, 8 or 16 bytes: `()`, numbers and arrays of numbers of these sizes",
    note = "for a struct of your own that derives `bytemuck::Pod`, write `gpulsm::value!({Self});`"
)]
pub trait Value: Pod + Send + Sync {
    /// The width of the type, and its name in files.
    #[doc(hidden)]
    const TYPE: ValueType<Self>;
}

/// What stores and files know of a type of values: its size, which is checked when it is compiled, and its name.
#[doc(hidden)]
pub struct ValueType<V> {
    name: &'static str,
    of: PhantomData<V>,
}

impl<V> ValueType<V> {
    /// Describes a type; the name is empty if it has none in files.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        assert!(matches!(size_of::<V>(), 0 | 4 | 8 | 16), "a gpulsm value has 0, 4, 8 or 16 bytes");
        ValueType { name, of: PhantomData }
    }

    /// Returns the number of bytes of a value.
    pub(crate) const fn width(&self) -> usize {
        size_of::<V>()
    }

    /// Returns the name of the type in files.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }
}

/// Makes a type that implements [`bytemuck::Pod`] a [`Value`]; its size must be 0, 4, 8 or 16 bytes.
///
/// ```compile_fail
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Triple([f32; 3]);
///
/// gpulsm::value!(Triple); // 12 bytes
/// ```
///
/// For dictionaries in files it needs a name: files keep it, and can be read only as a type of the same name. Change
/// the name when you change what the bytes mean:
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Quote {
///     bid: f32,
///     ask: f32,
/// }
///
/// gpulsm::value!(Quote as "quote-1");
///
/// let mut quotes = gpulsm::Dictionary::<u64, Quote>::new();
/// quotes.insert_one(7, Quote { bid: 0.5, ask: 0.75 })?;
/// let path = std::env::temp_dir().join(format!("quotes-{}.gpulsm", std::process::id()));
/// quotes.save(&path)?;
/// let error = gpulsm::Dictionary::<u64, [f32; 2]>::load(&path).unwrap_err();
/// assert!(error.to_string().contains("quote-1"), "{error}");
/// # std::fs::remove_file(path).unwrap();
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! value {
    ($Type:ty) => {
        $crate::value!($Type as "");
    };
    ($Type:ty as $name:literal) => {
        const _: $crate::private::ValueType<$Type> = $crate::private::ValueType::new($name);

        impl $crate::Value for $Type {
            const TYPE: $crate::private::ValueType<Self> = $crate::private::ValueType::new($name);
        }
    };
}

macro_rules! values {
    ($($type:ty),*) => {
        $(
            impl Value for $type {
                const TYPE: ValueType<Self> = ValueType::new(stringify!($type));
            }
        )*
    };
}

values!((), u32, i32, f32, u64, i64, f64, u128, i128);
values!([u8; 4], [u8; 8], [u8; 16], [i8; 4], [i8; 8], [i8; 16]);
values!([u16; 2], [u16; 4], [u16; 8], [i16; 2], [i16; 4], [i16; 8]);
values!([u32; 1], [u32; 2], [u32; 4], [i32; 1], [i32; 2], [i32; 4], [f32; 1], [f32; 2], [f32; 4]);
values!([u64; 1], [u64; 2], [i64; 1], [i64; 2], [f64; 1], [f64; 2], [u128; 1], [i128; 1]);

/// Returns `len` values from their bytes.
#[inline]
pub(crate) fn of_bytes<V: Value>(bytes: &[u8], len: usize) -> &[V] {
    match size_of::<V>() {
        0 => nothings(len),
        _ => bytemuck::cast_slice(bytes),
    }
}

/// Returns `len` values from their bytes, to be written.
#[inline]
pub(crate) fn of_bytes_mut<V: Value>(bytes: &mut [u8], len: usize) -> &mut [V] {
    match size_of::<V>() {
        0 => nothings(len),
        _ => bytemuck::cast_slice_mut(bytes),
    }
}

/// Returns the bytes of values, to be written.
#[inline]
pub(crate) fn to_bytes_mut<V: Value>(values: &mut [V]) -> &mut [u8] {
    match size_of::<V>() {
        0 => &mut [],
        _ => bytemuck::cast_slice_mut(values),
    }
}

/// Returns `len` values without width, which leave no bytes behind to count them by. A vector of them takes
/// no memory, so there is none to leak.
#[inline]
fn nothings<V: Value>(len: usize) -> &'static mut [V] {
    bytemuck::zeroed_vec(len).leak()
}

/// The bytes of values of any width, aligned for all of them.
pub(crate) struct ValueBuffer {
    words: Vec<u128>,
    len: usize,
}

impl ValueBuffer {
    /// Allocates zeros for a number of values of a width.
    pub fn new(values: usize, width: usize) -> Result<Self, Error> {
        let len = values.saturating_mul(width);
        Ok(ValueBuffer { words: try_zeroed(len.div_ceil(size_of::<u128>()))?, len })
    }

    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}
