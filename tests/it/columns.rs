//! Keys of several parts in a GPU's memory: packed, unpacked and asked for as on the host.

use gpulsm::cuda::{DeviceVec, Stream};
use gpulsm::private::columns::{self, Column};
use gpulsm::private::{AsOf, Encoding, Layout, PackedKey, Part};
use gpulsm::testing::script::Random;
use gpulsm::{AsOfKey, Device, Dictionary, Direction, Key, ScalarKey, Value};

const LEN: usize = 5_000;

const U32: Part = Part::Number(Encoding::Unsigned, 4);
const I32: Part = Part::Number(Encoding::Signed, 4);
const F32: Part = Part::Number(Encoding::Float, 4);
const U64: Part = Part::Number(Encoding::Unsigned, 8);
const I64: Part = Part::Number(Encoding::Signed, 8);
const F64: Part = Part::Number(Encoding::Float, 8);

fn layouts() -> impl Iterator<Item = Layout> {
    [
        vec![U32, I32],
        vec![U32, I64],
        vec![F64, U64],
        vec![F32, F32],
        vec![I32, U32, F32, I32],
        vec![Part::Bytes(5), F32, U32],
        vec![I64, Part::Bytes(3), Part::Bytes(1)],
        vec![Part::Bytes(1)],
        vec![Part::Bytes(3)],
        vec![Part::Bytes(6)],
        vec![Part::Bytes(16)],
    ]
    .into_iter()
    .map(|parts| Layout::new(parts).unwrap())
}

fn stream() -> Stream {
    Stream::new(Device::cuda(0).unwrap()).unwrap()
}

/// The bytes of a column, aligned as numbers want it: random ones, with the ends of types, zeros, and NaNs.
fn column(random: &mut Random, part: Part, len: usize) -> Vec<u64> {
    let bytes = len * part.width();
    let ends = [0, 1 << 63, u64::MAX, 0x8000_0000, 0x7ff8_0000_0000_0000, 0x7fc0_0000_ffc0_0001];
    let number = |random: &mut Random| match random.number() % 4 {
        0 => ends[random.number() as usize % ends.len()],
        _ => random.number(),
    };
    (0..bytes.div_ceil(8)).map(|_| number(random)).collect()
}

fn bytes<T: bytemuck::Pod>(column: &[T], len: usize) -> &[u8] {
    &bytemuck::cast_slice(column)[..len]
}

/// Checks that columns are packed and unpacked as on the host.
fn check<P: PackedKey>(stream: &Stream, layout: &Layout, len: usize) {
    let mut random = Random::new(len as u64);
    let parts = layout.parts();
    let drawn: Vec<_> = parts.iter().map(|&part| column(&mut random, part, len)).collect();
    let each = |index: usize| bytes(&drawn[index], len * parts[index].width());
    let on_gpu: Vec<_> =
        (0..parts.len()).map(|at| DeviceVec::from_slice(stream, each(at)).unwrap()).collect();
    let mut packed = DeviceVec::<u8>::zeroed(stream, len * layout.width()).unwrap();
    // Every choice of parts that are one for all keys.
    for ones in 0..1u32 << parts.len() {
        let is_one = |index: usize| ones >> index & 1 == 1 && len > 0;
        let host: Vec<Vec<u8>> = (0..parts.len())
            .map(|at| match is_one(at) {
                true => each(at)[..parts[at].width()].repeat(len),
                false => each(at).to_vec(),
            })
            .collect();
        let aligned: Vec<Vec<u128>> = host.iter().map(|column| aligned(column)).collect();
        let host: Vec<&[u8]> =
            aligned.iter().zip(&host).map(|(to, from)| bytes(to, from.len())).collect();
        let mut expected = vec![P::default(); len];
        layout.pack(&host, &mut expected);

        let columns: Vec<_> = (0..parts.len())
            .map(|at| match is_one(at) {
                true => Column::All(&each(at)[..parts[at].width()]),
                false => Column::Each((&on_gpu[at]).into()),
            })
            .collect();
        columns::pack(layout, &columns, &packed.as_mut_slice()).unwrap();
        assert_eq!(packed.to_vec().unwrap(), bytes(&expected, len * size_of::<P>()), "{layout:?}");
        if ones == 0 {
            check_unpacked(stream, layout, &expected, &packed);
            check_excluded(stream, layout, &expected);
        }
    }
}

/// A copy that is aligned as every number wants it.
fn aligned(column: &[u8]) -> Vec<u128> {
    let mut copy = vec![0; column.len().div_ceil(16)];
    bytemuck::cast_slice_mut(&mut copy)[..column.len()].copy_from_slice(column);
    copy
}

fn check_unpacked<P: PackedKey>(
    stream: &Stream,
    layout: &Layout,
    keys: &[P],
    packed: &DeviceVec<u8>,
) {
    let found: Vec<bool> = (0..keys.len()).map(|index| index % 3 != 0).collect();
    let found_bytes: Vec<u8> = found.iter().map(|&found| u8::from(found)).collect();
    let found_on_gpu = DeviceVec::from_slice(stream, &found_bytes).unwrap();
    for is_some in [false, true] {
        let widths: Vec<usize> =
            layout.parts().iter().map(|part| part.width() * keys.len()).collect();
        let mut expected: Vec<_> =
            widths.iter().map(|&width| vec![0u128; width.div_ceil(16)]).collect();
        let mut to: Vec<&mut [u8]> = expected
            .iter_mut()
            .zip(&widths)
            .map(|(to, &width)| &mut bytemuck::cast_slice_mut(to)[..width])
            .collect();
        layout.unpack(keys, is_some.then_some(&found[..]), &mut to);

        let mut columns: Vec<_> =
            widths.iter().map(|&width| DeviceVec::from_slice(stream, &vec![7u8; width])).collect();
        let to: Vec<_> =
            columns.iter_mut().map(|column| column.as_mut().unwrap().as_mut_slice()).collect();
        let found = is_some.then_some((&found_on_gpu).into());
        columns::unpack(layout, packed.into(), found, &to).unwrap();
        for ((column, expected), width) in columns.iter().zip(&expected).zip(widths) {
            let column = column.as_ref().unwrap().to_vec().unwrap();
            assert_eq!(column, bytes(expected, width), "{layout:?}");
        }
    }
}

fn check_excluded<P: PackedKey>(stream: &Stream, layout: &Layout, keys: &[P]) {
    let highest = P::narrow(u128::MAX >> (u128::BITS - layout.bits()));
    let mut lo = keys.to_vec();
    lo.extend([P::default(), highest, highest, P::default()]);
    let mut hi: Vec<P> = keys.iter().rev().copied().collect();
    hi.extend([P::default(), highest, P::default(), highest]);
    for excludes in [(true, false), (false, true), (true, true)] {
        let mut ends = [&lo, &hi]
            .map(|end| DeviceVec::from_slice(stream, bytes(end, size_of_val(&end[..]))).unwrap());
        let [first, last] = &mut ends;
        let (first, last) = (first.as_mut_slice(), last.as_mut_slice());
        columns::exclude_ends(layout, &first, &last, excludes).unwrap();
        let expected: (Vec<P>, Vec<P>) = lo
            .iter()
            .zip(&hi)
            .map(|(&lo, &hi)| {
                let is_empty = (excludes.0 && lo >= highest) || (excludes.1 && hi == P::default());
                let moved = |is_excluded: bool, to: Option<P>, end| {
                    if is_excluded { to.unwrap_or(end) } else { end }
                };
                match is_empty {
                    true => (highest, P::default()),
                    false => {
                        (moved(excludes.0, lo.next(), lo), moved(excludes.1, hi.previous(), hi))
                    }
                }
            })
            .unzip();
        for (end, expected) in ends.iter().zip([&expected.0, &expected.1]) {
            assert_eq!(end.to_vec().unwrap(), bytes(expected, size_of_val(&expected[..])));
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn columns_are_packed_on_the_gpu_as_on_the_host() {
    let stream = stream();
    for layout in layouts() {
        for len in [0, 1, 255, LEN] {
            match layout.width() {
                4 => check::<u32>(&stream, &layout, len),
                8 => check::<u64>(&stream, &layout, len),
                _ => check::<u128>(&stream, &layout, len),
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn columns_of_the_wrong_length_or_alignment_are_errors() {
    let stream = stream();
    let layout = Layout::new(vec![U32, I32]).unwrap();
    let column = DeviceVec::<u8>::zeroed(&stream, 41).unwrap();
    let mut packed = DeviceVec::<u8>::zeroed(&stream, 80).unwrap();
    let mut try_pack = |first, second| {
        let columns = [Column::Each(first), Column::Each(second)];
        columns::pack(&layout, &columns, &packed.as_mut_slice()).map_err(|error| error.to_string())
    };
    assert_eq!(try_pack(column.slice(..40), column.slice(..40)), Ok(()));
    assert!(try_pack(column.slice(..40), column.slice(..36)).unwrap_err().contains("`columns`"));
    assert!(try_pack(column.slice(1..), column.slice(..40)).unwrap_err().contains("aligned"));
}

/// Checks as-of queries on the GPU, where keys are what `on_gpu` makes of them, against those on the host.
fn check_asof<K: AsOfKey, G: ScalarKey, V: Value + PartialEq + std::fmt::Debug>(
    draw: impl Fn(&mut Random) -> K,
    on_gpu: impl Fn(K) -> G,
    value_of: impl Fn(u64) -> V,
    tolerances: &[K::Distance],
) {
    let stream = stream();
    let mut random = Random::new(11);
    let mut host = Dictionary::<K, V>::builder().device(Device::cpu()).build().unwrap();
    let mut gpu = Dictionary::<G, V>::builder().stream(&stream).batch_size(64).build().unwrap();
    for batch in 0..9 {
        let keys: Vec<K> = (0..50).map(|_| draw(&mut random)).collect();
        let values: Vec<V> = (0..50).map(|at| value_of(batch * 100 + at + 1)).collect();
        let keys_on_gpu: Vec<G> = keys.iter().map(|&key| on_gpu(key)).collect();
        host.insert(&keys, &values).unwrap();
        host.delete(&keys[..9]).unwrap();
        gpu.insert(&keys_on_gpu, &values).unwrap();
        gpu.delete(&keys_on_gpu[..9]).unwrap();
    }
    let mut questions: Vec<K> = (0..2_000).map(|_| draw(&mut random)).collect();
    questions.extend([K::LOWEST, K::HIGHEST]);
    let asked: Vec<G> = questions.iter().map(|&key| on_gpu(key)).collect();
    let asked = DeviceVec::from_slice(&stream, &asked).unwrap();
    for most in tolerances.iter().copied().map(Some).chain([None]) {
        for direction in [Direction::Backward, Direction::Forward, Direction::Nearest] {
            for is_strict in [false, true] {
                let expected = match is_strict {
                    true => host.strict_asof(&questions, direction, most).unwrap(),
                    false => host.asof(&questions, direction, most).unwrap(),
                };
                let expected: Vec<_> = expected
                    .into_iter()
                    .map(|pair| pair.map(|(key, value)| (on_gpu(key).to_ordered(), value)))
                    .collect();
                let tolerance = most.map(Into::into);
                let query = AsOf { on: K::ON, direction, tolerance, is_strict };
                assert_eq!(answers(&gpu, &stream, &query, &asked), expected, "{query:?}");
            }
        }
    }
}

/// The answers on the GPU; where there is none, zeros.
fn answers<G: ScalarKey, V: Value>(
    dictionary: &Dictionary<G, V>,
    stream: &Stream,
    query: &AsOf,
    asked: &DeviceVec<G>,
) -> Vec<Option<(G::Ordered, V)>> {
    let len = asked.len();
    let mut keys = DeviceVec::<G>::zeroed(stream, len).unwrap();
    let mut values = DeviceVec::<V>::zeroed(stream, len).unwrap();
    let mut found = DeviceVec::<u8>::zeroed(stream, len).unwrap();
    let resident = dictionary.resident().unwrap();
    resident.asof(query, asked, &mut keys, &mut values, &mut found).unwrap();
    let (keys, values) = (keys.to_vec().unwrap(), values.to_vec().unwrap());
    let found = found.to_vec().unwrap();
    let pairs = keys.into_iter().zip(values).zip(found);
    pairs
        .map(|((key, value), found)| {
            if found == 0 {
                assert!(bytemuck::bytes_of(&key).iter().all(|&byte| byte == 0));
                assert!(bytemuck::bytes_of(&value).iter().all(|&byte| byte == 0));
            }
            (found == 1).then(|| (key.to_ordered(), value))
        })
        .collect()
}

fn some_float(random: &mut Random) -> f32 {
    let some = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0, -0.0, f32::MIN, f32::MAX, 1e-45];
    match random.number() % 20 {
        at @ 0..8 => some[at as usize],
        _ => (random.number() % 2000) as f32 / 8.0 - 100.0,
    }
}

fn ends(random: &mut Random) -> i64 {
    [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX][random.number() as usize % 6]
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn as_of_a_number_on_the_gpu() {
    let small = |random: &mut Random| (random.number() % 3000) as u32;
    check_asof(small, |key| key, |n| n as u32, &[0, 1, 5, u32::MAX]);
    check_asof(ends, |key| key, |n| [n, !n], &[0, 1, u64::MAX]);
    check_asof(|random| random.number() as i64 >> 50, |key| key, drop, &[3]);
    let tolerances = [0.0, 0.5, 100.0, f32::INFINITY, f32::NAN, -1.0];
    check_asof(some_float, |key| key, |n| n, &tolerances);
    let doubles = |random: &mut Random| f64::from(some_float(random));
    check_asof(doubles, |key| key, |n| n, &[0.0, 0.3]);
    let wide = |random: &mut Random| i128::from(ends(random)) << 63;
    check_asof(wide, |key| key, |n| n as u32, &[0, 1 << 63, 1 << 126, u128::MAX]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn as_of_packed_keys_on_the_gpu() {
    let pair = |random: &mut Random| ((random.number() % 9) as u32, random.number() as i32 >> 20);
    check_asof(pair, Key::to_ordered, |n| n as u32, &[0, 3, 1000]);
    let pair = |random: &mut Random| ((random.number() % 3) as i64 - 1, ends(random));
    check_asof(pair, Key::to_ordered, |n| n, &[0, 1, u64::MAX]);
    let pair = |random: &mut Random| ((random.number() % 5) as i32 - 2, some_float(random));
    check_asof(pair, Key::to_ordered, |n| [n, 1], &[0.0, 2.5, f32::INFINITY]);
    let triple =
        |random: &mut Random| ((random.number() % 3) as u32, *b"ab", (random.number() % 99) as f32);
    check_asof(triple, Key::to_ordered, drop, &[0.0, 2.5]);
}
