//! As-of queries and prefixes of composite keys, against plain searches.

use std::collections::BTreeMap;

use gpulsm::testing::script::Random;
use gpulsm::{AsOfKey, Device, Dictionary, Direction, Key, OrderedKey, Sum, prefix};

use crate::each_device;

/// Searches all pairs for the answer.
fn expected<K: AsOfKey>(
    pairs: &BTreeMap<K::Ordered, u32>,
    question: K,
    direction: Direction,
    tolerance: Option<K::Distance>,
    is_strict: bool,
) -> Option<(K::Ordered, u32)> {
    let asked = question.to_ordered();
    let distance = |ordered: K::Ordered| K::from_ordered(ordered).distance(question);
    let may_match =
        |&(ordered, _): &(K::Ordered, u32)| tolerance.is_none_or(|most| distance(ordered) <= most);
    let others = || {
        let pairs = pairs.iter().map(|(&ordered, &value)| (ordered, value));
        pairs.filter(move |&(ordered, _)| {
            K::from_ordered(ordered).belongs_with(question) && !(is_strict && ordered == asked)
        })
    };
    let before = others().filter(|&(ordered, _)| ordered <= asked).last().filter(may_match);
    let after = others().find(|&(ordered, _)| ordered >= asked).filter(may_match);
    match (direction, before, after) {
        (Direction::Backward, before, _) => before,
        (Direction::Forward, _, after) => after,
        (Direction::Nearest, Some(before), Some(after)) => {
            Some(if distance(after.0) < distance(before.0) { after } else { before })
        }
        (Direction::Nearest, before, after) => before.or(after),
    }
}

/// Checks all kinds of as-of queries over random keys, in several runs, some deleted.
fn check<K: AsOfKey>(device: Device, draw: impl Fn(&mut Random) -> K, tolerances: &[K::Distance]) {
    let mut random = Random::new(7);
    let mut d = Dictionary::<K, u32>::builder().device(device).batch_size(64).build().unwrap();
    let mut pairs = BTreeMap::new();
    for batch in 0..9 {
        let keys: Vec<K> = (0..50).map(|_| draw(&mut random)).collect();
        let values: Vec<u32> = (0..50).map(|at| batch * 100 + at).collect();
        d.insert(&keys, &values).unwrap();
        pairs.extend(keys.iter().map(|key| key.to_ordered()).zip(values));
        d.delete(&keys[..9]).unwrap();
        pairs.retain(|&ordered, _| keys[..9].iter().all(|key| key.to_ordered() != ordered));
    }
    d.validate().unwrap();
    let mut questions: Vec<K> = (0..300).map(|_| draw(&mut random)).collect();
    questions.extend([K::LOWEST, K::HIGHEST]);
    let tolerances = tolerances.iter().copied().map(Some).chain([None]);
    for (tolerance, direction) in tolerances.flat_map(|tolerance| {
        [Direction::Backward, Direction::Forward, Direction::Nearest].map(|way| (tolerance, way))
    }) {
        for is_strict in [false, true] {
            let answers = match is_strict {
                true => d.strict_asof(&questions, direction, tolerance).unwrap(),
                false => d.asof(&questions, direction, tolerance).unwrap(),
            };
            for (&question, answer) in questions.iter().zip(answers) {
                assert_eq!(
                    answer.map(|(key, value)| (key.to_ordered(), value)),
                    expected(&pairs, question, direction, tolerance, is_strict),
                    "{question:?}, {direction:?}, {tolerance:?}, strict: {is_strict}"
                );
            }
        }
    }
    assert_eq!(
        d.asof_one(questions[0], Direction::Backward, None).unwrap(),
        d.asof(&questions[..1], Direction::Backward, None).unwrap()[0]
    );
}

fn ends_and_floats(random: &mut Random) -> f32 {
    let some = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0, -0.0, f32::MIN, f32::MAX];
    match random.number() % 20 {
        at @ 0..7 => some[at as usize],
        _ => (random.number() % 2000) as f32 / 8.0 - 100.0,
    }
}

each_device! {
    fn as_of_a_number(device) {
        check(device, |random| (random.number() % 3000) as u32, &[0, 1, 5, u32::MAX]);
        check(device, |random| random.number() as i64, &[0, 1 << 50, u64::MAX]);
        check(device, |random| [0, 1, u64::MAX, u64::MAX - 1][random.number() as usize % 4], &[0, 1, u64::MAX]);
        check(device, ends_and_floats, &[0.0, 0.5, 100.0, f32::INFINITY, f32::NAN, -1.0]);
    }

    fn as_of_a_pair(device) {
        let pair = |random: &mut Random| ((random.number() % 9) as u32, random.number() as i32 >> 20);
        check(device, pair, &[0, 3, 1000]);
        let floats = |random: &mut Random| ((random.number() % 5) as i32 - 2, ends_and_floats(random));
        check(device, floats, &[0.0, 2.5, f32::INFINITY]);
    }

    fn prefixes_are_ranges(device) {
        let keys: Vec<(u32, f32)> =
            (0..1000).map(|i| (i % 10, if i % 7 == 0 { f32::NAN } else { i as f32 - 500.0 })).collect();
        let values: Vec<u32> = (0..1000).collect();
        let settings = Dictionary::<(u32, f32), u32>::builder().device(device).batch_size(64);
        let d = settings.bulk_build(&keys, &values).unwrap();
        let distinct: BTreeMap<u64, u32> =
            keys.iter().map(|key| key.to_ordered()).zip(values.iter().copied()).collect();
        let prefixes = [3, 0, 9, 10].map(prefix);
        let with = |first: u32| distinct.iter().filter(move |(key, _)| (**key >> 32) as u32 == first);
        let counts = [3, 0, 9, 10].map(|first| with(first).count() as u64);
        assert_eq!(d.count(&prefixes).unwrap(), counts);
        let sum = with(3).map(|(_, &value)| u64::from(value)).sum::<u64>();
        assert_eq!(d.aggregate(&prefixes, Sum).unwrap()[0], Some((sum, counts[0])));
        let listed = d.range_one(prefix(9)).unwrap();
        assert!(listed.iter().map(|(key, _)| key.to_ordered()).eq(with(9).map(|(&key, _)| key)));
    }
}

each_device! {
    fn as_of_wide_keys(device) {
        let pair = |random: &mut Random| ((random.number() % 9) as u32, random.number() as i64 >> 50);
        check(device, pair, &[0, 3, u64::MAX]);
        let ends = |random: &mut Random| {
            let times = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
            ((random.number() % 3) as i64 - 1, times[random.number() as usize % 6])
        };
        check(device, ends, &[0, 1, u64::MAX]);
        let triple = |random: &mut Random| {
            ((random.number() % 3) as u32, *b"ab", (random.number() % 100) as f32)
        };
        check(device, triple, &[0.0, 2.5]);
        check(device, |random| u128::from(random.number()) << 60, &[0, 1 << 100]);
    }

    fn prefixes_of_one_to_three_parts(device) {
        let keys: Vec<(u32, i32, u32, u32)> =
            (0..625).map(|i| (i / 125, (i / 25 % 5) as i32 - 2, i / 5 % 5, i % 5)).collect();
        let settings = Dictionary::<(u32, i32, u32, u32), ()>::builder().device(device);
        let mut d = settings.bulk_build(&keys, &[(); 625]).unwrap();
        assert_eq!(d.count(&[prefix(2), prefix(5)]).unwrap(), [125, 0]);
        assert_eq!(d.count(&[prefix((2, -2)), prefix((2, 3))]).unwrap(), [25, 0]);
        assert_eq!(d.count(&[prefix((2, -2, 4))]).unwrap(), [5]);
        assert_eq!(d.range_one(prefix((4, 2, 4))).unwrap()[4].0, (4, 2, 4, 4));
        d.delete_range(&[prefix((4, 2))]).unwrap();
        assert_eq!(d.len().unwrap(), 600);
        d.validate().unwrap();
    }
}

/// The struct of the documentation of `key!`, with a signed and a wide field.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Zeroable)]
struct Trade {
    symbol: u32,
    time: i64,
}

gpulsm::key!(Trade { symbol: u32, time: i64 });

#[test]
fn structs_are_keys() {
    let mut d = Dictionary::<Trade, f32>::builder().device(Device::cpu()).build().unwrap();
    let trade = |symbol, time| Trade { symbol, time };
    d.insert(&[trade(2, -5), trade(1, 7), trade(2, -6)], &[1.0, 2.0, 3.0]).unwrap();
    let pairs: Vec<(Trade, f32)> = d.iter().collect();
    assert_eq!(pairs, [(trade(1, 7), 2.0), (trade(2, -6), 3.0), (trade(2, -5), 1.0)]);
    assert_eq!(d.lookup(&[trade(2, -6), trade(3, 0)]).unwrap(), [Some(3.0), None]);
    assert_eq!(trade(1, 0).to_ordered().widen(), 1 << 64 | 1 << 63);
}
