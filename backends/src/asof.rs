//! As-of queries of keys whose type is chosen at run time: what the library answers for types of Rust.

use std::cmp::Ordering;

use gpulsm::{Direction, Error};

use crate::dictionary::{AnyDictionary, Pair};
use crate::types::{Column, Field, Key, KeyType, Part, Scalar, Type};

/// An as-of query: where the nearest pair may be, and how far away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsOf {
    pub direction: Direction,
    /// How far the last part of a key may be from that of the question, in the type of
    /// [`tolerance_type`]; any distance if `None`.
    pub tolerance: Option<Scalar>,
}

/// Returns the type of tolerances for keys of a type: unsigned for integers, so that any distance has a number.
/// `None` if keys do not end with a number.
pub fn tolerance_type(key: KeyType) -> Option<Field> {
    let of = match last(&key) {
        Part::U32 | Part::I32 => Type::U32,
        Part::U64 | Part::I64 => Type::U64,
        Part::U128 | Part::I128 => Type::U128,
        Part::F32 => Type::F32,
        Part::F64 => Type::F64,
        Part::Bytes(_) => return None,
    };
    Some(of.into())
}

/// Returns for each question the nearest pair in a direction whose key has the same parts but the last, or nothing if
/// there is none within the tolerance. Keys must end with a number.
pub fn asof(
    dictionary: &dyn AnyDictionary,
    of: KeyType,
    questions: &[Key],
    query: AsOf,
) -> Result<Vec<Option<Pair>>, Error> {
    let mut column = of.column();
    questions.iter().for_each(|question| column.push(question.ordered()));
    let matching = |found: Vec<Option<Pair>>| {
        let questions = questions.iter().map(|question| question.ordered());
        let pairs = questions.zip(found);
        let keep = |(question, pair): (u128, Option<Pair>)| {
            pair.filter(|&(key, _)| is_match(&of, question, key, query.tolerance))
        };
        pairs.map(keep).collect::<Vec<_>>()
    };
    let before = |column: &Column| Ok(matching(dictionary.predecessor(column)?));
    let after = |column: &Column| Ok(matching(dictionary.successor(column)?));
    match query.direction {
        Direction::Backward => before(&column),
        Direction::Forward => after(&column),
        Direction::Nearest => {
            let pairs = before(&column)?.into_iter().zip(after(&column)?);
            let nearer = |((before, after), question)| nearer(&of, question, before, after);
            Ok(pairs.zip(column.iter()).map(nearer).collect())
        }
    }
}

/// Returns the pair that is nearer; the one before if both are as far away.
fn nearer(of: &KeyType, question: u128, before: Option<Pair>, after: Option<Pair>) -> Option<Pair> {
    let (Some((key, _)), Some((next, _))) = (before, after) else { return before.or(after) };
    let is_nearer = compare(distance(of, question, next), distance(of, question, key));
    if is_nearer == Some(Ordering::Less) { after } else { before }
}

fn last(of: &KeyType) -> Part {
    *of.parts().last().expect("a key has a part")
}

/// Returns whether two keys have the same parts but the last, neither of which is NaN, and are near enough.
fn is_match(of: &KeyType, question: u128, key: u128, tolerance: Option<Scalar>) -> bool {
    let bits = last(of).bits();
    let by = |key: u128| key.checked_shr(bits).unwrap_or(0);
    let is_near = |most| {
        matches!(compare(distance(of, question, key), most), Some(Ordering::Less | Ordering::Equal))
    };
    let has_nan = [question, key].into_iter().any(|key| is_nan(on(of, key)));
    by(question) == by(key) && !has_nan && tolerance.is_none_or(is_near)
}

/// Returns the last part of a key.
fn on(of: &KeyType, ordered: u128) -> Scalar {
    of.decode(ordered).last().expect("a key has a part")
}

fn is_nan(number: Scalar) -> bool {
    match number {
        Scalar::Single(number) => number.is_nan(),
        Scalar::Double(number) => number.is_nan(),
        _ => false,
    }
}

/// Returns how far apart the last parts of two keys are.
fn distance(of: &KeyType, question: u128, key: u128) -> Scalar {
    match (on(of, question), on(of, key)) {
        (Scalar::Unsigned(a), Scalar::Unsigned(b)) => Scalar::Unsigned(a.abs_diff(b)),
        (Scalar::Signed(a), Scalar::Signed(b)) => Scalar::Unsigned(a.abs_diff(b)),
        (Scalar::Single(a), Scalar::Single(b)) => Scalar::Single((a - b).abs()),
        (Scalar::Double(a), Scalar::Double(b)) => Scalar::Double((a - b).abs()),
        _ => unreachable!("the last part is a number"),
    }
}

/// Compares two distances; `None` if one of them is NaN.
fn compare(a: Scalar, b: Scalar) -> Option<Ordering> {
    match (a, b) {
        (Scalar::Unsigned(a), Scalar::Unsigned(b)) => Some(a.cmp(&b)),
        (Scalar::Single(a), Scalar::Single(b)) => a.partial_cmp(&b),
        (Scalar::Double(a), Scalar::Double(b)) => a.partial_cmp(&b),
        _ => unreachable!("distances of one type of keys have one type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::{Settings, open};
    use crate::types::{Types, ValueType};
    use gpulsm::{AsOfKey, Combine, Device, Dictionary};

    const DIRECTIONS: [Direction; 3] =
        [Direction::Backward, Direction::Forward, Direction::Nearest];

    /// Checks that answers are those of the library for keys of a Rust type.
    fn check<K: AsOfKey>(
        of: &str,
        keys: &[K],
        tolerances: &[Option<K::Distance>],
        scalar: impl Fn(K::Distance) -> Scalar,
    ) {
        use gpulsm::OrderedKey;
        let key: KeyType = of.parse().unwrap();
        let ordered = |key: K| key.to_ordered().widen();
        let types = Types { key, value: ValueType::U32 };
        let (device, combine) = (Device::cpu(), Combine::Replace);
        let mut any = open(Settings { types, combine, device, batch_size: 16 }).unwrap();
        let (mut column, mut values) = (key.column(), types.value.column());
        for (&key, value) in keys.iter().step_by(2).zip(0u32..) {
            column.push(ordered(key));
            values.push(value.into());
        }
        any.update((&column, &values), &key.column()).unwrap();
        let pairs = keys.iter().step_by(2).copied().zip(0..);
        let typed: Dictionary<K, u32> = pairs.collect();
        let questions: Vec<Key> = keys.iter().map(|&it| key.key(ordered(it))).collect();
        for direction in DIRECTIONS {
            for &tolerance in tolerances {
                let query = AsOf { direction, tolerance: tolerance.map(&scalar) };
                let found = asof(&*any, key, &questions, query).unwrap();
                let known = typed.asof(keys, direction, tolerance).unwrap();
                let bits = |(key, value): (K, u32)| (ordered(key), value.into());
                let known: Vec<Option<Pair>> = known.into_iter().map(|it| it.map(bits)).collect();
                assert_eq!(found, known, "{of} {direction:?} {tolerance:?}");
            }
        }
    }

    #[test]
    fn answers_are_those_of_the_library() {
        let times = [i64::MIN, -7, -6, 0, 1, 3, 5, 100, i64::MAX];
        let keys: Vec<(u32, i64)> =
            [1, 7, 9].iter().flat_map(|&by| times.map(|on| (by, on))).collect();
        check("u32,i64", &keys, &[None, Some(0), Some(2), Some(u64::MAX)], |it| {
            Scalar::Unsigned(it.into())
        });
        let numbers = [f32::NEG_INFINITY, -1.5, -0.0, 0.25, 2.0, 9.0, f32::INFINITY, f32::NAN];
        let keys: Vec<([u8; 2], f32)> =
            [*b"ab", *b"b\0"].iter().flat_map(|&by| numbers.map(|on| (by, on))).collect();
        check("bytes2,f32", &keys, &[None, Some(0.0), Some(2.0)], Scalar::Single);
        check("u128", &[0, 1, 5, 1 << 90, u128::MAX], &[None, Some(4)], Scalar::Unsigned);
        check(
            "f64",
            &[-1.0, 0.0, 0.5, f64::INFINITY, f64::NAN],
            &[None, Some(1.0)],
            Scalar::Double,
        );
    }

    #[test]
    fn bytes_have_no_distance() {
        let of = |name: &str| tolerance_type(name.parse().unwrap()).map(Field::name);
        assert_eq!(of("u32,bytes4"), None);
        assert_eq!(of("bytes4,i64").as_deref(), Some("u64"));
        assert_eq!(of("f32").as_deref(), Some("f32"));
    }
}
