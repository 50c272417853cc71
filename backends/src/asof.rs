//! As-of queries of keys whose type is chosen at run time: what the library answers for types of Rust.

use gpulsm::private::{self, Distance, Encoding, On};
use gpulsm::{Direction, Error};

use crate::dictionary::{AnyDictionary, Pair};
use crate::types::{Field, Key, KeyType, Part, Scalar, Type};

/// An as-of query: where the nearest pair may be, and how far away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsOf {
    pub direction: Direction,
    /// How far the last part of a key may be from that of the question, in the type of
    /// [`tolerance_type`]; any distance if `None`.
    pub tolerance: Option<Scalar>,
    /// Whether a key that equals the question is no answer.
    pub is_strict: bool,
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
    let AsOf { direction, tolerance, is_strict } = query;
    let tolerance = tolerance.map(distance);
    dictionary.asof(&column, private::AsOf { on: on(&of), direction, tolerance, is_strict })
}

fn last(of: &KeyType) -> Part {
    *of.parts().last().expect("a key has a part")
}

/// Returns the last part of keys, which is a number.
fn on(of: &KeyType) -> On {
    let part = last(of);
    let encoding = match part {
        Part::U32 | Part::U64 | Part::U128 => Encoding::Unsigned,
        Part::I32 | Part::I64 | Part::I128 => Encoding::Signed,
        Part::F32 | Part::F64 => Encoding::Float,
        Part::Bytes(_) => unreachable!("the last part is a number"),
    };
    On { encoding, bits: part.bits() }
}

/// Returns a tolerance as the library takes it.
fn distance(tolerance: Scalar) -> Distance {
    match tolerance {
        Scalar::Unsigned(most) => Distance::Integer(most),
        Scalar::Single(most) => Distance::Single(most),
        Scalar::Double(most) => Distance::Double(most),
        _ => unreachable!("distances are unsigned or floats"),
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
        let settings = Settings {
            types,
            combine,
            devices: device.into(),
            batch_size: Some(16),
            memory_limit: None,
        };
        let mut any = open(settings).unwrap();
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
                for is_strict in [false, true] {
                    let query = AsOf { direction, tolerance: tolerance.map(&scalar), is_strict };
                    let found = asof(&*any, key, &questions, query).unwrap();
                    let known = match is_strict {
                        false => typed.asof(keys, direction, tolerance).unwrap(),
                        true => typed.strict_asof(keys, direction, tolerance).unwrap(),
                    };
                    let bits = |(key, value): (K, u32)| (ordered(key), value.into());
                    let known: Vec<Option<Pair>> =
                        known.into_iter().map(|it| it.map(bits)).collect();
                    assert_eq!(found, known, "{of} {direction:?} {tolerance:?} {is_strict}");
                }
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
