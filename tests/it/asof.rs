//! As-of queries and prefixes of composite keys, against plain searches.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Mutex;

use gpulsm::private::{AsOf, KeyColumns};
use gpulsm::testing::script::Random;
use gpulsm::{AsOfKey, Combine, Device, Dictionary, Direction, Key, OrderedKey, Sum, prefix};

use crate::each_device;

/// An as-of query.
#[derive(Clone, Copy, Debug)]
struct Asked<D> {
    direction: Direction,
    tolerance: Option<D>,
    is_strict: bool,
}

impl<D: Copy> Asked<D> {
    /// Returns queries in all directions, with and without the question's own key.
    fn all(tolerances: &[D]) -> Vec<Self> {
        let mut all = Vec::new();
        for tolerance in tolerances.iter().copied().map(Some).chain([None]) {
            for direction in [Direction::Backward, Direction::Forward, Direction::Nearest] {
                all.extend([false, true].map(|is_strict| Asked {
                    direction,
                    tolerance,
                    is_strict,
                }));
            }
        }
        all
    }
}

/// Finds the answer among all pairs; `belong` tells which keys belong together.
fn expected<K: AsOfKey>(
    pairs: &BTreeMap<K::Ordered, u32>,
    belong: impl Fn(K, K) -> bool,
    question: K,
    asked: Asked<K::Distance>,
) -> Option<(K::Ordered, u32)> {
    let Asked { direction, tolerance, is_strict } = asked;
    let asked = question.to_ordered();
    let distance = |ordered: K::Ordered| K::from_ordered(ordered).distance(question);
    let end = if is_strict { Bound::Excluded(asked) } else { Bound::Included(asked) };
    let pair = |(&ordered, &value): (&K::Ordered, &u32)| (ordered, value);
    let matches = |&(ordered, _): &(K::Ordered, u32)| {
        belong(K::from_ordered(ordered), question)
            && tolerance.is_none_or(|most| distance(ordered) <= most)
    };
    let before = pairs.range((Bound::Unbounded, end)).next_back().map(pair).filter(matches);
    let after = pairs.range((end, Bound::Unbounded)).next().map(pair).filter(matches);
    match (direction, before, after) {
        (Direction::Backward, before, _) => before,
        (Direction::Forward, _, after) => after,
        (Direction::Nearest, Some(before), Some(after)) => {
            Some(if distance(after.0) < distance(before.0) { after } else { before })
        }
        (Direction::Nearest, before, after) => before.or(after),
    }
}

/// Questions in a column, and the integers of the keys that answer them.
struct Columns<'a, K: Key> {
    questions: &'a [K],
    answers: Mutex<Vec<K::Ordered>>,
}

impl<K: Key> KeyColumns<K::Ordered> for Columns<'_, K> {
    fn pack_questions(&self, rows: &Range<usize>, keys: &mut [K::Ordered]) {
        assert_eq!(rows.len(), keys.len());
        for (to, question) in keys.iter_mut().zip(&self.questions[rows.clone()]) {
            *to = question.to_ordered();
        }
    }

    fn unpack_answers(&self, rows: &Range<usize>, keys: &[K::Ordered], found: &[bool]) {
        assert_eq!((rows.len(), rows.len()), (keys.len(), found.len()));
        self.answers.lock().unwrap()[rows.clone()].copy_from_slice(keys);
    }
}

fn columns_of<K: Key>(questions: &[K]) -> Columns<'_, K> {
    let answers = Mutex::new(vec![K::HIGHEST.to_ordered(); questions.len()]);
    Columns { questions, answers }
}

/// Checks that questions in columns have the same answers.
fn check_columns<K: AsOfKey>(
    d: &Dictionary<K, u32>,
    questions: &[K],
    asked: Asked<K::Distance>,
    answers: &[Option<(K, u32)>],
) {
    let Asked { direction, tolerance, is_strict } = asked;
    let asof = AsOf { on: K::ON, direction, tolerance: tolerance.map(Into::into), is_strict };
    let columns = columns_of(questions);
    let (mut values, mut found) = (vec![7; questions.len()], vec![true; questions.len()]);
    d.asof_columns_into(&columns, asof, &mut values, &mut found).unwrap();
    let keys = columns.answers.into_inner().unwrap();
    for (at, answer) in answers.iter().enumerate() {
        let key = answer.map(|(key, _)| key.to_ordered());
        let value = answer.map(|(_, value)| value).unwrap_or_default();
        assert_eq!((found[at], values[at]), (answer.is_some(), value), "{asked:?}");
        assert!(key.is_none_or(|key| keys[at] == key), "{asked:?}");
    }
    if !questions.is_empty() {
        let too_few = &mut values[1..];
        assert!(d.asof_columns_into(&columns_of(questions), asof, too_few, &mut found).is_err());
    }
}

/// Checks the answers to one query.
fn check_answers<K: AsOfKey>(
    d: &Dictionary<K, u32>,
    pairs: &BTreeMap<K::Ordered, u32>,
    belong: impl Fn(K, K) -> bool,
    questions: &[K],
    asked: Asked<K::Distance>,
) {
    let expected = questions.iter().map(|&question| expected(pairs, &belong, question, asked));
    compare_answers(d, questions, asked, expected);
}

/// Compares the answers to one query with what they should be.
fn compare_answers<K: AsOfKey>(
    d: &Dictionary<K, u32>,
    questions: &[K],
    asked: Asked<K::Distance>,
    expected: impl Iterator<Item = Option<(K::Ordered, u32)>>,
) {
    let Asked { direction, tolerance, is_strict } = asked;
    let answers = match is_strict {
        true => d.strict_asof(questions, direction, tolerance).unwrap(),
        false => d.asof(questions, direction, tolerance).unwrap(),
    };
    check_columns(d, questions, asked, &answers);
    for ((question, answer), expected) in questions.iter().zip(answers).zip(expected) {
        let answer = answer.map(|(key, value)| (key.to_ordered(), value));
        assert_eq!(answer, expected, "{question:?}, {asked:?}");
    }
}

/// Checks all kinds of as-of queries over random keys, in several runs, some deleted.
fn check<K: AsOfKey>(
    device: Device,
    draw: impl Fn(&mut Random) -> K,
    belong: impl Fn(K, K) -> bool,
    tolerances: &[K::Distance],
) {
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
    for asked in Asked::all(tolerances) {
        check_answers(&d, &pairs, &belong, &questions, asked);
    }
    assert_eq!(
        d.asof_one(questions[0], Direction::Backward, None).unwrap(),
        d.asof(&questions[..1], Direction::Backward, None).unwrap()[0]
    );
}

/// Checks long lists of questions in several orders: of a dictionary of one run, and of one with several, which
/// has tombstones, stale entries and whole stretches that are dead.
fn check_orders<K: AsOfKey>(
    device: Device,
    threads: usize,
    draw: impl Fn(&mut Random) -> K,
    belong: impl Fn(K, K) -> bool,
    tolerance: K::Distance,
) {
    let mut random = Random::new(11);
    let mut draw_many =
        |count: usize| -> Vec<K> { (0..count).map(|_| draw(&mut random)).collect() };
    let builder = || Dictionary::<K, u32>::builder().device(device).threads(threads);
    let (keys, values): (Vec<K>, Vec<u32>) = draw_many(30_000).into_iter().zip(0..).unzip();
    let mut d = builder().batch_size(5000).bulk_build(&keys, &values).unwrap();
    let mut pairs: BTreeMap<K::Ordered, u32> =
        keys.iter().map(|key| key.to_ordered()).zip(values).collect();
    let mut sorted = draw_many(20_000);
    sorted.extend([K::LOWEST, K::HIGHEST]);
    sorted.extend_from_slice(&keys[..2000]);
    sorted.sort_by_key(|key| key.to_ordered());
    let len = sorted.len();
    let mut any: Vec<usize> = (0..len).collect();
    let mut order = Random::new(5);
    (1..len).rev().for_each(|at| any.swap(at, order.number() as usize % (at + 1)));
    // Of each of many keys in turn, as trades of symbols come, once in the order of time and once a little late.
    let turns = (0..len).map(|at| at * 7919 % len).collect();
    let strided = (0..160).flat_map(|from| (from..len).step_by(160)).collect();
    let orders: [Vec<usize>; 5] =
        [any, (0..len).collect(), (0..len).rev().collect(), turns, strided];
    let lists = orders.map(|order| {
        let list: Vec<K> = order.iter().map(|&at| sorted[at]).collect();
        (order, list)
    });
    let check_all = |d: &Dictionary<K, u32>, pairs: &BTreeMap<K::Ordered, u32>| {
        d.validate().unwrap();
        for asked in Asked::all(&[tolerance]) {
            let answers: Vec<_> =
                sorted.iter().map(|&question| expected(pairs, &belong, question, asked)).collect();
            for (order, list) in &lists {
                compare_answers(d, list, asked, order.iter().map(|&at| answers[at]));
            }
        }
    };
    check_all(&d, &pairs);
    for count in [9000, 5000, 10_000] {
        let (keys, values): (Vec<K>, Vec<u32>) = draw_many(count).into_iter().zip(50_000..).unzip();
        d.insert(&keys, &values).unwrap();
        pairs.extend(keys.iter().map(|key| key.to_ordered()).zip(values));
        let dead: Vec<K> =
            pairs.keys().skip(count).take(1500).map(|&key| K::from_ordered(key)).collect();
        d.delete(&dead).unwrap();
        for key in dead {
            pairs.remove(&key.to_ordered());
        }
    }
    check_all(&d, &pairs);
}

fn always<K>(_: K, _: K) -> bool {
    true
}

fn are_numbers(a: f32, b: f32) -> bool {
    !a.is_nan() && !b.is_nan()
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
        check(device, |random| (random.number() % 3000) as u32, always, &[0, 1, 5, u32::MAX]);
        check(device, |random| random.number() as i64, always, &[0, 1 << 50, u64::MAX]);
        let ends = |random: &mut Random| [0, 1, u64::MAX, u64::MAX - 1][random.number() as usize % 4];
        check(device, ends, always, &[0, 1, u64::MAX]);
        check(device, ends_and_floats, are_numbers, &[0.0, 0.5, 100.0, f32::INFINITY, f32::NAN, -1.0]);
    }

    fn as_of_a_pair(device) {
        let pair = |random: &mut Random| ((random.number() % 9) as u32, random.number() as i32 >> 20);
        check(device, pair, |a, b| a.0 == b.0, &[0, 3, 1000]);
        let floats = |random: &mut Random| ((random.number() % 5) as i32 - 2, ends_and_floats(random));
        let belong = |a: (i32, f32), b: (i32, f32)| a.0 == b.0 && are_numbers(a.1, b.1);
        check(device, floats, belong, &[0.0, 2.5, f32::INFINITY]);
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

/// Draws a symbol, one of `symbols`, and a time.
fn trade(symbols: u64, times: u64) -> impl Fn(&mut Random) -> (u32, i64) {
    move |random| {
        ((random.number() % symbols) as u32, (random.number() % times) as i64 - times as i64 / 2)
    }
}

each_device! {
    fn as_of_in_any_order(device) {
        let same = |a: (u32, i64), b: (u32, i64)| a.0 == b.0;
        for (threads, symbols) in [(1, 1), (2, 50), (3, 1000), (4, 40_000)] {
            check_orders(device, threads, trade(symbols, 1 << 40), same, 1 << 20);
        }
        // Many questions for keys that are there.
        check_orders(device, 2, trade(20, 2000), same, 1);
    }

    fn as_of_in_any_order_of_other_keys(device) {
        let short = |random: &mut Random| {
            ((random.number() % 30) as i32 - 15, random.number() as i32 >> 12)
        };
        check_orders(device, 2, short, |a, b| a.0 == b.0, 9);
        let floats = |random: &mut Random| ((random.number() % 30) as u32, ends_and_floats(random) * 0.37);
        check_orders(device, 1, floats, |a, b| a.0 == b.0 && are_numbers(a.1, b.1), 0.5);
        check_orders(device, 2, |random| random.number() as u32, always, 1 << 10);
        check_orders(device, 1, |random| random.number() as i64 >> 20, always, u64::MAX);
        let wide = |random: &mut Random| (random.number() % 3, random.number());
        check_orders(device, 3, wide, |a, b| a.0 == b.0, u64::MAX);
    }
}

each_device! {
    fn as_of_wide_keys(device) {
        let pair = |random: &mut Random| ((random.number() % 9) as u32, random.number() as i64 >> 50);
        check(device, pair, |a, b| a.0 == b.0, &[0, 3, u64::MAX]);
        let ends = |random: &mut Random| {
            let times = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
            ((random.number() % 3) as i64 - 1, times[random.number() as usize % 6])
        };
        check(device, ends, |a, b| a.0 == b.0, &[0, 1, u64::MAX]);
        let triple = |random: &mut Random| {
            ((random.number() % 3) as u32, *b"ab", (random.number() % 100) as f32)
        };
        check(device, triple, |a, b| (a.0, a.1) == (b.0, b.1), &[0.0, 2.5]);
        check(device, |random| u128::from(random.number()) << 60, always, &[0, 1 << 100]);
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

each_device! {
    fn values_that_combine_are_combined_in_answers_to_columns(device) {
        let builder = Dictionary::<(u32, i64), u32>::builder().device(device).batch_size(64);
        let mut d = builder.combine(Combine::Add).build().unwrap();
        let keys: Vec<(u32, i64)> = (0..3000).map(|at| (at % 7, i64::from(at / 7) - 200)).collect();
        for value in 1..4 {
            d.insert(&keys, &vec![value; keys.len()]).unwrap();
        }
        let questions: Vec<(u32, i64)> =
            (0..5000).map(|at| (at % 9, i64::from(at / 9) - 250)).collect();
        for asked in Asked::all(&[3]) {
            let Asked { direction, tolerance, is_strict } = asked;
            let answers = match is_strict {
                true => d.strict_asof(&questions, direction, tolerance).unwrap(),
                false => d.asof(&questions, direction, tolerance).unwrap(),
            };
            assert!(answers.iter().flatten().all(|&(_, value)| value == 6));
            assert!(answers.iter().any(Option::is_some) && answers.iter().any(Option::is_none));
            check_columns(&d, &questions, asked, &answers);
        }
    }
}
