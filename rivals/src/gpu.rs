//! More pairs on a GPU than 32 bits can count, every answer checked. (For rates there is `gpulsm bench`.)

use std::ffi::c_void;
use std::time::Instant;

use gpulsm::cuda::{DeviceVec, Stream};
use gpulsm::{Device, Dictionary};

unsafe extern "C" {
    fn rivals_fill(
        keys: *mut c_void,
        values: *mut c_void,
        first: u64,
        len: u64,
        stream: *mut c_void,
    ) -> i32;
}

/// Numbers on the GPU: their keys, and themselves as values.
struct Pairs {
    keys: DeviceVec<u32>,
    values: DeviceVec<u32>,
}

impl Pairs {
    fn new(stream: &Stream, first: u64, len: u64) -> Self {
        let zeroed = || DeviceVec::<u32>::zeroed(stream, len as usize).unwrap();
        let (mut keys, mut values) = (zeroed(), zeroed());
        // SAFETY: both vectors have `len` elements and are used on their own stream.
        let error = unsafe {
            let (keys, values) = (keys.as_mut_ptr().cast(), values.as_mut_ptr().cast());
            rivals_fill(keys, values, first, len, stream.as_raw())
        };
        assert_eq!(error, 0);
        Pairs { keys, values }
    }
}

/// One run of more than 2^31 pairs.
pub fn run() {
    let stream = &Stream::new(Device::cuda(0).expect("a GPU")).unwrap();
    let len = (1u64 << 31) + 12_345;
    let pairs = Pairs::new(stream, 0, len);
    stream.synchronize().unwrap();
    let start = Instant::now();
    let mut d = Dictionary::<u32, u32>::builder().stream(stream).build().unwrap();
    d.resident_mut().unwrap().insert(&pairs.keys, &pairs.values).unwrap();
    d.synchronize().unwrap();
    println!("{len} pairs built in {:.1?}", start.elapsed());
    assert_eq!(d.len().unwrap() as u64, len);
    assert_eq!(d.stats().unwrap().levels.len(), 1);
    let all = d.count((&[0], &[u32::MAX])).unwrap();
    assert_eq!(all, [len]);
    // Every number below `len` is there with its own value, and none from there on.
    for first in [0, (1 << 31) - 1000, len - (1 << 20)] {
        let some = Pairs::new(stream, first, 1 << 20);
        let numbers = some.values.to_vec().unwrap();
        let mut values = DeviceVec::<u32>::zeroed(stream, 1 << 20).unwrap();
        let mut found = DeviceVec::<u8>::zeroed(stream, 1 << 20).unwrap();
        d.resident().unwrap().lookup(&some.keys, &mut values, &mut found).unwrap();
        for ((&number, value), found) in
            numbers.iter().zip(values.to_vec().unwrap()).zip(found.to_vec().unwrap())
        {
            let there = u64::from(number) < len;
            assert_eq!((found == 1, value), (there, if there { number } else { 0 }));
        }
    }
    // Counts of ranges against ranks, and ranks against the whole.
    let lo: Vec<u32> = (0..1000).map(|i| i * 4_000_000).collect();
    let hi: Vec<u32> = lo.iter().map(|lo| lo + 249_999_999).collect();
    let counts = d.count((&lo, &hi)).unwrap();
    let ranks = d.rank(&lo).unwrap();
    let next: Vec<u32> = hi.iter().map(|hi| hi + 1).collect();
    let ends = d.rank(&next).unwrap();
    for i in 0..lo.len() {
        assert_eq!(counts[i], ends[i] - ranks[i]);
    }
    let selected = d.select(&[0, 1 << 31, len - 1, len]).unwrap();
    assert!(selected[..3].iter().all(Option::is_some) && selected[3].is_none());
    let (key, _) = selected[1].unwrap();
    assert_eq!(d.rank(&[key]).unwrap(), [1 << 31]);
    println!("counted, ranked, selected and looked up rightly");
}
