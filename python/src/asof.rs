//! As-of queries: the nearest pair whose key agrees with the question in all parts but the last.

use std::ops::Range;

use gpulsm::private::{Encoding, PackedKey, Part};
use gpulsm::{AsOfKey, Dictionary, Direction, Error, Key, OrderedKey, ScalarKey, Value};
use pyo3::FromPyObject;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::packing::part_of;
use crate::parallel::each_range;
use crate::span::Span;
use crate::typed::Pairs;

/// What is asked, as Python's half says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    /// The last part of keys: its kind, and how many bytes it has.
    on: (String, usize),
    direction: String,
    tolerance: Option<Tolerance>,
    allows_exact_matches: bool,
}

/// How far the last part of an answer may be from that of its question.
#[derive(Clone, Copy, FromPyObject)]
pub enum Tolerance {
    Integer(u64),
    Float(f64),
}

/// An as-of query.
#[derive(Clone, Copy)]
pub struct AsOf {
    on: Part,
    direction: Direction,
    tolerance: Option<Tolerance>,
    is_strict: bool,
}

impl TryFrom<Asked> for AsOf {
    type Error = PyErr;

    fn try_from(asked: Asked) -> PyResult<Self> {
        let direction = match &*asked.direction {
            "backward" => Direction::Backward,
            "forward" => Direction::Forward,
            "nearest" => Direction::Nearest,
            other => return Err(PyTypeError::new_err(format!("{other} is no direction"))),
        };
        Ok(AsOf {
            on: part_of(&asked.on.0, asked.on.1)?,
            direction,
            tolerance: asked.tolerance,
            is_strict: !asked.allows_exact_matches,
        })
    }
}

#[cfg(feature = "cuda")]
impl From<&AsOf> for gpulsm::private::AsOf {
    fn from(query: &AsOf) -> Self {
        let Part::Number(encoding, width) = query.on else {
            unreachable!("bytes have no distances")
        };
        let tolerance = query.tolerance.map(|tolerance| match tolerance {
            Tolerance::Integer(most) => gpulsm::private::Tolerance::Integer(most),
            Tolerance::Float(most) => gpulsm::private::Tolerance::Float(most),
        });
        gpulsm::private::AsOf {
            on: (encoding, width),
            direction: query.direction,
            tolerance,
            is_strict: query.is_strict,
        }
    }
}

/// Where the answers are written: pairs, zeros where there is none, and whether there is one.
struct Answers<'a, K, V> {
    keys: &'a mut [K],
    values: &'a mut [V],
    found: &'a mut [bool],
}

/// Answers a query from a dictionary, on the host's memory.
pub fn answer<K: ScalarKey<Ordered: PackedKey>, V: Value>(
    dictionary: &Dictionary<K, V>,
    query: &AsOf,
    questions: Span,
    Pairs(keys, values): Pairs,
    found: Span,
) -> Result<(), Error> {
    let questions = questions.host();
    let answers =
        Answers { keys: keys.host_mut(), values: values.host_mut(), found: found.host_mut() };
    match query.on {
        Part::Number(Encoding::Unsigned, 4) => {
            AsOn::<u32>::of(query).run(dictionary, questions, answers)
        }
        Part::Number(Encoding::Unsigned, _) => {
            AsOn::<u64>::of(query).run(dictionary, questions, answers)
        }
        Part::Number(Encoding::Signed, 4) => {
            AsOn::<i32>::of(query).run(dictionary, questions, answers)
        }
        Part::Number(Encoding::Signed, _) => {
            AsOn::<i64>::of(query).run(dictionary, questions, answers)
        }
        Part::Number(Encoding::Float, 4) => {
            AsOn::<f32>::of(query).run(dictionary, questions, answers)
        }
        Part::Number(Encoding::Float, _) => {
            AsOn::<f64>::of(query).run(dictionary, questions, answers)
        }
        Part::Bytes(_) => unreachable!("bytes have no distances"),
    }
}

/// The last part of a key, whose distances are compared with a tolerance.
trait OnPart: AsOfKey + 'static {
    fn distance_of(tolerance: Tolerance) -> Self::Distance;
}

macro_rules! on_part {
    ($($type:ty),*) => {
        $(impl OnPart for $type {
            fn distance_of(tolerance: Tolerance) -> Self::Distance {
                match tolerance {
                    Tolerance::Integer(most) => most.try_into().unwrap_or(<$type as AsOfKey>::Distance::MAX),
                    Tolerance::Float(most) => most as <$type as AsOfKey>::Distance,
                }
            }
        })*
    };
}

on_part!(u32, u64, i32, i64);

macro_rules! float_on_part {
    ($($type:ty),*) => {
        $(impl OnPart for $type {
            fn distance_of(tolerance: Tolerance) -> $type {
                match tolerance {
                    Tolerance::Integer(most) => most as $type,
                    Tolerance::Float(most) => most as $type,
                }
            }
        })*
    };
}

float_on_part!(f32, f64);

/// A query about keys whose last part is of a type.
struct AsOn<On: OnPart> {
    direction: Direction,
    tolerance: Option<On::Distance>,
    is_strict: bool,
}

impl<On: OnPart> AsOn<On> {
    fn of(query: &AsOf) -> Self {
        AsOn {
            direction: query.direction,
            tolerance: query.tolerance.map(On::distance_of),
            is_strict: query.is_strict,
        }
    }

    fn run<K: ScalarKey<Ordered: PackedKey>, V: Value>(
        &self,
        dictionary: &Dictionary<K, V>,
        questions: &[K],
        mut answers: Answers<'_, K, V>,
    ) -> Result<(), Error> {
        let first = if self.direction == Direction::Forward {
            Direction::Forward
        } else {
            Direction::Backward
        };
        self.on_side(first, dictionary, questions, &mut answers)?;
        if self.direction != Direction::Nearest {
            return Ok(());
        }
        let len = questions.len();
        let (mut keys, mut values, mut found) = (zeros(len)?, zeros(len)?, zeros(len)?);
        let mut after = Answers { keys: &mut keys, values: &mut values, found: &mut found };
        self.on_side(Direction::Forward, dictionary, questions, &mut after)?;
        answers.replace_if(&after, |index, before, after| {
            distance::<On, K>(after, questions[index]) < distance::<On, K>(before, questions[index])
        });
        Ok(())
    }

    /// Writes the nearest pair on one side of each question, if it belongs with it.
    fn on_side<K: ScalarKey<Ordered: PackedKey>, V: Value>(
        &self,
        side: Direction,
        dictionary: &Dictionary<K, V>,
        questions: &[K],
        answers: &mut Answers<'_, K, V>,
    ) -> Result<(), Error> {
        let is_forward = side == Direction::Forward;
        let moved = if self.is_strict { Some(beside(questions, is_forward)?) } else { None };
        let from = moved.as_deref().unwrap_or(questions);
        let Answers { keys, values, found } = answers;
        if is_forward {
            dictionary.successor_into(from, keys, values, found)?;
        } else {
            dictionary.predecessor_into(from, keys, values, found)?;
        }
        answers.keep_if(|index, key| self.matches(key, questions[index], is_forward));
        Ok(())
    }

    /// Whether a pair answers a question. At the ends of a type there is no key beside the question: what was
    /// found instead is on the wrong side of it.
    fn matches<K: Key<Ordered: PackedKey>>(&self, key: K, question: K, is_forward: bool) -> bool {
        let ((by, on), (asked_by, asked_on)) = (parts::<On, K>(key), parts::<On, K>(question));
        let (ordered, asked) = (key.to_ordered(), question.to_ordered());
        let is_beside = if is_forward { ordered >= asked } else { ordered <= asked };
        let is_near = |most| on.distance(asked_on) <= most;
        is_beside
            && !(self.is_strict && ordered == asked)
            && by == asked_by
            && on.partial_cmp(&asked_on).is_some() // Neither is NaN.
            && self.tolerance.is_none_or(is_near)
    }
}

/// All parts of a key but the last, as one integer, and the last.
fn parts<On: Key, K: Key<Ordered: PackedKey>>(key: K) -> (K::Ordered, On) {
    let ordered = key.to_ordered();
    let mask = K::Ordered::narrow(u128::MAX >> (u128::BITS - On::BITS));
    let by = if On::BITS == K::BITS { K::Ordered::default() } else { ordered >> On::BITS };
    (by, On::from_ordered(OrderedKey::narrow((ordered & mask).widen())))
}

/// How far apart the last parts of two keys are.
fn distance<On: AsOfKey, K: Key<Ordered: PackedKey>>(key: K, other: K) -> On::Distance {
    parts::<On, K>(key).1.distance(parts::<On, K>(other).1)
}

/// The next key on one side of each; at the end of the type, the key itself.
fn beside<K: ScalarKey>(keys: &[K], is_forward: bool) -> Result<Vec<K>, Error> {
    let step = |ordered: K::Ordered| if is_forward { ordered.next() } else { ordered.previous() };
    let next = |key: K| {
        let ordered = key.to_ordered();
        // Below 0 there is −0, which is the same key.
        let is_another = |next: &K::Ordered| K::from_ordered(*next).to_ordered() != ordered;
        let next =
            std::iter::successors(step(ordered), |&next| step(next)).take(2).find(is_another);
        K::from_ordered(next.unwrap_or(ordered))
    };
    let mut beside = zeros(keys.len())?;
    let to = Span::of(&mut beside);
    each_range(keys.len(), |range| {
        let moved = to.part(&range, size_of::<K>()).host_mut::<K>();
        for (moved, &key) in moved.iter_mut().zip(&keys[range]) {
            *moved = next(key);
        }
    });
    Ok(beside)
}

impl<K: ScalarKey, V: Value> Answers<'_, K, V> {
    /// Calls `work` with some of the answers and their places, on several threads.
    fn each(&mut self, work: impl Fn(Range<usize>, Answers<'_, K, V>) + Sync) {
        let keys = Span::of(self.keys);
        let (values, found) = (Span::of(self.values), Span::of(self.found));
        each_range(keys.len(), |range| {
            let some = Answers {
                keys: keys.part(&range, size_of::<K>()).host_mut(),
                values: values.part(&range, size_of::<V>()).host_mut(),
                found: found.part(&range, 1).host_mut(),
            };
            work(range, some);
        });
    }

    /// Replaces pairs that are there by zeros, unless `keep`, called with the place and the key, is true.
    fn keep_if(&mut self, keep: impl Fn(usize, K) -> bool + Sync) {
        self.each(|range, some| {
            for (at, index) in range.enumerate() {
                if some.found[at] && !keep(index, some.keys[at]) {
                    some.found[at] = false;
                    some.keys[at] = K::zeroed();
                    some.values[at] = V::zeroed();
                }
            }
        });
    }

    /// Puts another pair in the place of each that is not there, or if `is_better`, called with the place and
    /// both keys.
    fn replace_if(
        &mut self,
        others: &Answers<'_, K, V>,
        is_better: impl Fn(usize, K, K) -> bool + Sync,
    ) {
        let (keys, values, found) = (&*others.keys, &*others.values, &*others.found);
        self.each(|range, some| {
            for (at, index) in range.enumerate() {
                let is_first = !some.found[at];
                if found[index] && (is_first || is_better(index, some.keys[at], keys[index])) {
                    some.keys[at] = keys[index];
                    some.values[at] = values[index];
                    some.found[at] = true;
                }
            }
        });
    }
}

/// Room for answers, or an error if there is none.
fn zeros<T: bytemuck::Zeroable>(len: usize) -> Result<Vec<T>, Error> {
    let wanted = (len * size_of::<T>()) as u64;
    bytemuck::allocation::try_zeroed_vec(len)
        .map_err(|()| Error::OutOfMemory { wanted, free: None })
}
