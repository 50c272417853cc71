//! Checks that Rust and the kernels agree on the layout of the structures of `ffi.rs` and on the
//! values of constants. (The signatures of the entry points are not compared.)
//!
//! Both sides write the same table, each from its own definitions: here [`rust_entries`], there
//! `kernels/abi.cu`. A field that is moved, added or renamed on one side only would corrupt memory
//! silently; [`check`] names it instead.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::mem::offset_of;

use crate::aggregate::Operation;
use crate::combine::Combine;
use crate::cuda::ffi::{
    AggregateOutput, AsOfQuery, BYTES, CombineQueries, Combiner, CutBy, DELETE_FLAG, Filters, Fold,
    Head, KeyColumn, KeyColumns, MAX_COLUMNS, MAX_PARTS, MAX_RUNS, MAX_SOURCES, NODE, PairsOutput,
    PinnedHead, RangeOutput, RunOutput, RunView, SECTOR, Sector, ShadowQueries, Source, SourceKind,
    Sources, View,
};
use crate::key::Encoding;
use crate::mark::Mark;

/// A number that Rust and CUDA must agree on; `kernels/abi.cuh` has the same structure.
#[repr(C)]
struct AbiEntry {
    name: *const c_char,
    value: u64,
}

unsafe extern "C" {
    fn gpulsm_abi(entries: *mut *const AbiEntry) -> u64;
}

/// Entries by name: `RunView.size`, `RunView.keys.offset`, `MAX_RUNS`, `SourceKind.Run`.
type Entries = BTreeMap<String, u64>;

/// Compares all layouts and constants with those of the kernels, in both directions.
pub(crate) fn check() -> Result<(), String> {
    compare(&rust_entries(), &kernel_entries())
}

fn compare(rust: &Entries, kernels: &Entries) -> Result<(), String> {
    let names = rust.keys().chain(kernels.keys().filter(|name| !rust.contains_key(*name)));
    let differing: Vec<String> = names
        .filter(|name| rust.get(*name) != kernels.get(*name))
        .map(|name| {
            let value = |entries: &Entries| match entries.get(name) {
                Some(value) => value.to_string(),
                None => "missing".into(),
            };
            format!("{name} is {} in Rust and {} in the kernels", value(rust), value(kernels))
        })
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(format!("Rust and the kernels disagree: {}", differing.join("; ")))
}

/// The table as the kernels' compiler sees it.
fn kernel_entries() -> Entries {
    let mut entries = std::ptr::null();
    // SAFETY: it points `entries` to a constant table and returns the table's length.
    let entries = unsafe {
        let len = gpulsm_abi(&mut entries);
        std::slice::from_raw_parts(entries, len as usize)
    };
    // SAFETY: the names are constant strings that end with a zero.
    let name = |entry: &AbiEntry| unsafe { CStr::from_ptr(entry.name) };
    entries.iter().map(|entry| (name(entry).to_string_lossy().into_owned(), entry.value)).collect()
}

/// Adds the size and alignment of a structure, and the offset and size of each of its fields. Fails to
/// compile if a field is not listed.
macro_rules! structure {
    ($entries:ident, $type:ident { $($field:ident),* $(,)? }) => {
        let _all_are_listed = |value: &$type| { let $type { $($field: _),* } = value; };
        $entries.insert(concat!(stringify!($type), ".size").into(), size_of::<$type>() as u64);
        $entries.insert(concat!(stringify!($type), ".align").into(), align_of::<$type>() as u64);
        $(
            let name = concat!(stringify!($type), ".", stringify!($field));
            $entries.insert(format!("{name}.offset"), offset_of!($type, $field) as u64);
            $entries.insert(format!("{name}.size"), size_of_field(|value: &$type| &value.$field));
        )*
    };
}

/// Adds constants, and constants or variants of a type.
macro_rules! constants {
    ($entries:ident, $($name:ident),*) => {
        $($entries.insert(stringify!($name).into(), $name as u64);)*
    };
    ($entries:ident, $type:ident :: { $($name:ident),* }) => {
        $($entries.insert(
            concat!(stringify!($type), ".", stringify!($name)).into(),
            $type::$name as u64,
        );)*
    };
}

fn size_of_field<S, F>(_field: fn(&S) -> &F) -> u64 {
    size_of::<F>() as u64
}

/// The table as Rust's compiler sees it.
fn rust_entries() -> Entries {
    let mut entries = Entries::new();
    structure!(entries, RunView { keys, values, marks, inner, outer, head });
    structure!(entries, View { runs, count, combiner });
    structure!(entries, Combiner { rule, encoding, width });
    structure!(entries, Filters { words, len, joint, joint_len, joint_runs });
    structure!(entries, Head { len, sum, tombstones });
    structure!(entries, PinnedHead { head, ready });
    structure!(entries, Sector { sum, live, shadow });
    structure!(
        entries,
        RunOutput {
            keys,
            values,
            marks,
            inner,
            outer,
            head,
            sectors,
            pinned_head,
            filter,
            filter_len
        }
    );
    structure!(entries, Source { keys, values, marks, shadows, numbers, len, kind });
    structure!(entries, Sources { at, tile, tiles, count });
    structure!(entries, ShadowQueries { keys, len, bound, shadows });
    structure!(
        entries,
        RangeOutput { len, offsets, windows, room, total, all, keys, values, flags, for_long }
    );
    structure!(entries, PairsOutput { keys, values, found });
    structure!(entries, CombineQueries { keys, len, count, values, found, are_answers });
    structure!(entries, Fold { operation, encoding, width });
    structure!(entries, AggregateOutput { len, windows, counts, answers, fold, scratch });
    structure!(
        entries,
        AsOfQuery { tolerance, encoding, bits, is_forward, is_strict, has_tolerance }
    );
    structure!(entries, KeyColumn { data, width, encoding, below });
    structure!(entries, KeyColumns { at, low, high, count });
    constants!(entries, MAX_RUNS, MAX_PARTS, MAX_SOURCES, NODE, SECTOR, DELETE_FLAG);
    constants!(entries, MAX_COLUMNS, BYTES);
    constants!(entries, Mark::{ LIVE, SHADOW });
    constants!(entries, CutBy::{ Kernel, Call, Tiles });
    constants!(entries, SourceKind::{ Run, Inserts, Deletes, Mixed, Assigned });
    constants!(entries, Combine::{ Replace, Add, Min, Max, Or, And, Xor });
    constants!(entries, Encoding::{ Unsigned, Signed, Float });
    constants!(entries, Operation::{ Sum, Min, Max });
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{FilterPlace, filter_place};
    use crate::cuda::ffi;
    use crate::key::OrderedKey;

    #[test]
    fn rust_and_the_kernels_agree() {
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn every_structure_is_in_the_table() {
        let entries = rust_entries();
        assert_eq!(entries.keys().filter(|name| name.ends_with(".align")).count(), 19);
        assert_eq!(entries["RunView.size"], 48);
        assert_eq!(entries["View.count.offset"], 48 * 64);
    }

    #[test]
    fn a_difference_is_named_with_both_values() {
        let table = |entries: &[(&str, u64)]| {
            entries.iter().map(|&(name, value)| (name.to_string(), value)).collect::<Entries>()
        };
        let rust = table(&[("A.size", 8), ("A.old.offset", 0), ("B", 1)]);
        let kernels = table(&[("A.size", 16), ("A.new.offset", 0), ("B", 1)]);
        let message = compare(&rust, &kernels).unwrap_err();
        for part in [
            "A.size is 8 in Rust and 16 in the kernels",
            "A.old.offset is 0 in Rust and missing in the kernels",
            "A.new.offset is missing in Rust and 0 in the kernels",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("B is"), "{message}");
    }

    #[test]
    fn filters_place_keys_alike_on_both_devices() {
        let spread =
            (0..10_000_u128).map(|i| i.wrapping_mul(0x2545_f491_4f6c_dd1d_3c6e_f372_fe94_f82b));
        let edges = [u64::from(u32::MAX), 1 << 32, u64::MAX].map(u128::from);
        for key in (0..1000).chain(edges).chain([1 << 64, u128::MAX]).chain(spread) {
            let (mut fraction, mut bits) = (0, 0);
            // SAFETY: it is a function of the key alone, on the host, and writes its two answers.
            unsafe {
                ffi::gpulsm_filter_place((key >> 64) as u64, key as u64, &mut fraction, &mut bits);
            };
            assert_eq!(FilterPlace { fraction, bits }, filter_place(key.digest()), "key {key}");
        }
    }
}
