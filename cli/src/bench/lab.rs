//! What every experiment works with: the device, pairs made from numbers, checks of answers, and a way to
//! say how far one is.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use rayon::prelude::*;

use super::numbers::{Number, Numbers};
use super::scale::Scale;
use super::site::{Ends, Listed, Outcome, Pairs, Site};
use crate::results::{Point, Row};

pub struct Lab<S: Site<K, V>, K: Number, V: Number> {
    pub site: S,
    pub scale: Scale,
    /// Added to numbers before they become keys.
    pub seed: u64,
    pub progress: ProgressBar,
    /// Set when the user wants no more.
    pub stop: &'static AtomicBool,
    /// How many answers were compared.
    pub checked: Cell<u64>,
    pairs: Kept<Pairs<S, K, V>>,
    sorted: Kept<Vec<(K, u64)>>,
}

/// Something of a length, kept for the next who asks for as much.
type Kept<T> = RefCell<Option<(usize, Rc<T>)>>;

/// A part of an experiment: rows that are measured together, or not at all.
pub struct Case<S: Site<K, V>, K: Number, V: Number> {
    /// Without points yet.
    pub rows: Vec<Row>,
    /// About how long it takes, in any unit, as long as it is the same for all.
    pub work: u64,
    /// The points of each row.
    pub job: Job<S, K, V>,
}

type Job<S, K, V> = Box<dyn Fn(&Lab<S, K, V>) -> Outcome<Vec<Vec<Point>>>>;

/// The user wants no more.
#[derive(Debug)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped")
    }
}

impl Error for Stopped {}

/// How many answers of one measurement are compared: a stretch of them.
const COMPARED: usize = 1 << 12;

impl<S: Site<K, V>, K: Number, V: Number> Lab<S, K, V> {
    pub fn new(
        site: S,
        scale: Scale,
        seed: u64,
        progress: ProgressBar,
        stop: &'static AtomicBool,
    ) -> Self {
        let seed = seed.wrapping_mul(0x9e37_79b9);
        let (pairs, sorted) = (RefCell::default(), RefCell::default());
        Lab { site, scale, seed, progress, stop, checked: Cell::new(0), pairs, sorted }
    }

    /// Says that so much work is done. An error where the user wants no more.
    pub fn done(&self, work: u64) -> Outcome<()> {
        self.progress.inc(work);
        if self.stop.load(Ordering::Relaxed) { Err(Box::new(Stopped)) } else { Ok(()) }
    }

    pub fn key(&self, number: u64) -> K {
        self.scatter()(number)
    }

    /// What makes keys of numbers, for all cores.
    pub fn scatter(&self) -> impl Fn(u64) -> K + Copy + Send + Sync + use<S, K, V> {
        let seed = self.seed;
        move |number| K::scattered(number.wrapping_add(seed))
    }

    /// The keys of numbers, on the device.
    pub fn keys(&self, numbers: Numbers) -> Outcome<S::Array<K>> {
        self.site.array(numbers.map(self.scatter()))
    }

    /// Numbers with their keys: themselves as values.
    pub fn pairs_of(&self, numbers: Numbers) -> Outcome<Pairs<S, K, V>> {
        Ok(Pairs { keys: self.keys(numbers)?, values: self.site.array(numbers.map(V::of))? })
    }

    /// The pairs of the numbers up to `len`, and perhaps more; kept for the next who asks.
    pub fn pairs(&self, len: usize) -> Outcome<Rc<Pairs<S, K, V>>> {
        let kept = self.pairs.borrow().clone();
        if let Some((there, pairs)) = kept
            && there >= len
        {
            return Ok(pairs);
        }
        self.pairs.replace(None); // First the old ones go.
        let pairs = Rc::new(self.pairs_of(Numbers::counting(0..len as u64))?);
        self.pairs.replace(Some((len, pairs.clone())));
        Ok(pairs)
    }

    /// The keys of the numbers below `len`, in order, with their numbers: what answers are compared with.
    pub fn sorted(&self, len: usize) -> Rc<Vec<(K, u64)>> {
        let kept = self.sorted.borrow().clone();
        if let Some((there, sorted)) = kept
            && there == len
        {
            return sorted;
        }
        let key = self.scatter();
        let mut sorted = Numbers::counting(0..len as u64).map(|number| (key(number), number));
        sorted.par_sort_unstable();
        let sorted = Rc::new(sorted);
        self.sorted.replace(Some((len, sorted.clone())));
        sorted
    }

    /// Seconds that something takes, several times, after one time that doesn't count.
    pub fn repeat(&self, mut job: impl FnMut() -> Outcome<()>) -> Outcome<Vec<f64>> {
        self.site.time(&mut job)?;
        (0..self.scale.repeats).map(|_| self.site.time(&mut job)).collect()
    }

    /// The same of something made anew each time, outside the clock, and checked each time; with what the
    /// last time left of it.
    pub fn repeat_anew<T>(
        &self,
        make: impl Fn() -> Outcome<T>,
        job: impl Fn(&mut T) -> Outcome<()>,
        check: impl Fn(&T) -> Outcome<()>,
    ) -> Outcome<(Vec<f64>, T)> {
        let once = || {
            let mut subject = make()?;
            let seconds = self.site.time(|| job(&mut subject))?;
            check(&subject)?;
            Ok::<_, Box<dyn Error>>((seconds, subject))
        };
        let (_, mut subject) = once()?;
        let mut samples = Vec::new();
        for _ in 0..self.scale.repeats {
            let (seconds, left) = once()?;
            samples.push(seconds);
            subject = left;
        }
        Ok((samples, subject))
    }

    /// Some of `len` answers: a stretch that moves about.
    pub fn stretch(&self, len: usize) -> Range<usize> {
        let compared = len.min(COMPARED);
        let places = (len - compared + 1) as u64;
        let start = (self.checked.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % places;
        start as usize..start as usize + compared
    }

    /// Says how many answers were compared.
    pub fn compared(&self, answers: usize) {
        self.checked.set(self.checked.get() + answers as u64);
    }

    /// Compares the answers to lookups of some numbers with what they should be.
    pub fn check_lookups(
        &self,
        what: &str,
        numbers: Numbers,
        values: &S::Array<V>,
        found: &S::Found,
        expected: impl Fn(u64) -> Option<V>,
    ) -> Outcome<()> {
        let stretch = self.stretch(numbers.len);
        let values = self.site.copy(values, stretch.clone())?;
        let found = self.site.copy_found(found, stretch.clone())?;
        self.compared(values.len());
        for (index, (value, found)) in stretch.zip(values.into_iter().zip(found)) {
            let (number, answer) = (numbers.at(index), found.then_some(value));
            same(what, &self.key(number), &answer, &expected(number))?;
        }
        Ok(())
    }

    /// Looks some numbers up and compares.
    pub fn check_held(
        &self,
        what: &str,
        dictionary: &gpulsm::Snapshot<K, V>,
        numbers: Numbers,
        expected: impl Fn(u64) -> Option<V>,
    ) -> Outcome<()> {
        let lookup = |keys: &_, values: &mut _, found: &mut _| {
            self.site.lookup(dictionary, keys, values, found)
        };
        self.check_asked(what, numbers, lookup, expected)
    }

    /// Looks some numbers up in anything and compares.
    pub fn check_asked(
        &self,
        what: &str,
        numbers: Numbers,
        lookup: impl FnOnce(&S::Array<K>, &mut S::Array<V>, &mut S::Found) -> Outcome<()>,
        expected: impl Fn(u64) -> Option<V>,
    ) -> Outcome<()> {
        let numbers = numbers.first(4 * COMPARED);
        let keys = self.keys(numbers)?;
        let (mut values, mut found) =
            (self.site.zeroed(numbers.len)?, self.site.found(numbers.len)?);
        lookup(&keys, &mut values, &mut found)?;
        self.check_lookups(what, numbers, &values, &found, expected)
    }

    /// Ranges that begin at the keys of numbers and have `wide` keys if `live` are spread evenly.
    pub fn ranges(&self, numbers: Numbers, wide: u64, live: usize) -> Outcome<Ends<S, K, V>> {
        let spacing = (u128::from(K::MAX.wide()) + 1) / live.max(1) as u128;
        let by = (spacing * u128::from(wide)).min(u128::from(u64::MAX)) as u64;
        let key = self.scatter();
        let hi = self.site.array(numbers.map(|number| key(number).plus(by - 1)))?;
        Ok(Ends { lo: self.keys(numbers)?, hi, len: numbers.len })
    }

    /// Compares counts with those of the numbers below `limit`, of the `len` in order.
    pub fn check_counts(
        &self,
        what: &str,
        ranges: &Ends<S, K, V>,
        counts: &[u64],
        first: usize,
        (sorted, limit): (&[(K, u64)], u64),
    ) -> Outcome<()> {
        let part = first..first + counts.len();
        let (lo, hi) =
            (self.site.copy(&ranges.lo, part.clone())?, self.site.copy(&ranges.hi, part)?);
        let ends = lo.into_par_iter().zip(hi);
        let expected: Vec<u64> = ends
            .clone()
            .map(|(lo, hi)| {
                let start = sorted.partition_point(|&(key, _)| key < lo);
                let within = sorted[start..].iter().take_while(|&&(key, _)| key <= hi);
                within.filter(|&&(_, number)| number < limit).count() as u64
            })
            .collect();
        self.compared(counts.len());
        let ends: Vec<_> = ends.collect();
        (0..counts.len()).try_for_each(|i| same(what, &ends[i], &counts[i], &expected[i]))
    }

    /// Compares the pairs of a few ranges: as many as were counted, in order, within the ends, each with
    /// the value of its key.
    pub fn check_listed(
        &self,
        what: &str,
        ranges: &Ends<S, K, V>,
        answers: &Listed<S, K, V>,
        held: (&[(K, u64)], u64),
    ) -> Outcome<()> {
        let few = self.stretch(ranges.len);
        let few = few.start..few.end.min(few.start + 16);
        let offsets = self.site.copy(&answers.offsets, few.start..few.end + 1)?;
        let counts: Vec<u64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        self.check_counts(what, ranges, &counts, few.start, held)?;
        let all = offsets[0] as usize..offsets[counts.len()] as usize;
        let keys = self.site.copy(&answers.keys, all.clone())?;
        let values = self.site.copy(&answers.values, all)?;
        let (lo, hi) = (self.site.copy(&ranges.lo, few.clone())?, self.site.copy(&ranges.hi, few)?);
        let mut start = 0;
        for ((&count, lo), hi) in counts.iter().zip(lo).zip(hi) {
            let own = start..start + count as usize;
            let inside = keys[own.clone()].iter().all(|key| (lo..=hi).contains(key));
            let ordered = keys[own.clone()].is_sorted_by(|a, b| a < b);
            same(what, &(lo, hi), &(inside, ordered), &(true, true))?;
            start = own.end;
        }
        self.compared(keys.len());
        keys.iter().zip(values).try_for_each(|(key, value)| {
            same(what, key, &self.key(value.wide()), key) // The value is the number of the key.
        })
    }
}

/// An error if an answer is not what it should be.
pub fn same<Q: std::fmt::Debug, A: PartialEq + std::fmt::Debug>(
    what: &str,
    query: &Q,
    answer: &A,
    expected: &A,
) -> Outcome<()> {
    if answer == expected {
        return Ok(());
    }
    Err(format!("wrong answer: {what} of {query:?} is {answer:?}, but should be {expected:?}")
        .into())
}
