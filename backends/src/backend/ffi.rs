//! The functions of `kernels/baselines.cu`. Each returns CUDA's number of an error, or 0.

use std::ffi::{c_int, c_void};

/// What a GPU says of itself.
#[repr(C)]
pub struct Description {
    pub name: [u8; 256],
    pub memory: u64,
    pub l2: u64,
    pub multiprocessors: c_int,
    pub clock_khz: c_int,
    pub memory_clock_khz: c_int,
    pub driver: c_int,
    pub runtime: c_int,
    pub major: c_int,
    pub minor: c_int,
}

impl Default for Description {
    fn default() -> Self {
        Description {
            name: [0; 256],
            memory: 0,
            l2: 0,
            multiprocessors: 0,
            clock_khz: 0,
            memory_clock_khz: 0,
            driver: 0,
            runtime: 0,
            major: 0,
            minor: 0,
        }
    }
}

unsafe extern "C" {
    pub fn bench_use(device: c_int) -> c_int;
    pub fn bench_event_new(event: *mut *mut c_void) -> c_int;
    pub fn bench_event_free(event: *mut c_void) -> c_int;
    pub fn bench_event_record(event: *mut c_void, stream: *mut c_void) -> c_int;
    pub fn bench_event_elapsed(from: *mut c_void, to: *mut c_void, milliseconds: *mut f32)
    -> c_int;
    pub fn bench_describe(device: c_int, description: *mut Description) -> c_int;
    pub fn bench_sort(
        key_width: c_int,
        value_width: c_int,
        temp: *mut c_void,
        bytes: *mut usize,
        keys: *const c_void,
        keys_out: *mut c_void,
        values: *const c_void,
        values_out: *mut c_void,
        len: u64,
        stream: *mut c_void,
    ) -> c_int;
    pub fn bench_merge(
        key_width: c_int,
        value_width: c_int,
        temp: *mut c_void,
        bytes: *mut usize,
        keys_a: *const c_void,
        values_a: *const c_void,
        len_a: u64,
        keys_b: *const c_void,
        values_b: *const c_void,
        len_b: u64,
        keys_out: *mut c_void,
        values_out: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
    pub fn bench_array_lookup(
        key_width: c_int,
        value_width: c_int,
        keys: *const c_void,
        values: *const c_void,
        len: u64,
        queries: *const c_void,
        many: u64,
        answers: *mut c_void,
        found: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
    pub fn bench_array_count(
        key_width: c_int,
        keys: *const c_void,
        len: u64,
        lo: *const c_void,
        hi: *const c_void,
        many: u64,
        counts: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
    pub fn bench_array_range(
        key_width: c_int,
        value_width: c_int,
        temp: *mut c_void,
        bytes: *mut usize,
        keys: *const c_void,
        values: *const c_void,
        len: u64,
        lo: *const c_void,
        hi: *const c_void,
        many: u64,
        starts: *mut c_void,
        offsets: *mut c_void,
        out_keys: *mut c_void,
        out_values: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
    pub fn bench_hash_build(
        key_width: c_int,
        value_width: c_int,
        table_keys: *mut c_void,
        table_values: *mut c_void,
        slots: u64,
        keys: *const c_void,
        values: *const c_void,
        many: u64,
        stream: *mut c_void,
    ) -> c_int;
    pub fn bench_hash_lookup(
        key_width: c_int,
        value_width: c_int,
        table_keys: *const c_void,
        table_values: *const c_void,
        slots: u64,
        queries: *const c_void,
        many: u64,
        answers: *mut c_void,
        found: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
}
