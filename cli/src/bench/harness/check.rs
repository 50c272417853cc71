//! Checks of answers. Of each measurement a stretch of answers is compared with what they should be.

use std::fmt::Debug;
use std::ops::Range;

use gpulsm_backends::backend::{Array, LookupOut, Outcome, RangeEnds, RangeOut};
use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::numbers::Numbers;
use gpulsm_backends::parallel::{Task, run_all};

use super::Harness;

/// How many answers of one measurement are compared.
const COMPARED: usize = 1 << 12;

/// How many counts, and how many ranges with their pairs.
const COUNTS: usize = 64;
const RANGES: usize = 16;

/// What a dictionary holds: the keys of numbers below a limit, out of these in key order.
pub type Held<'a> = (&'a [(u64, u64)], u64);

impl Harness {
    /// Returns which of `len` answers to compare: a stretch that moves from call to call.
    pub fn stretch(&self, len: usize) -> Range<usize> {
        let compared = len.min(COMPARED);
        let positions = (len - compared + 1) as u64;
        let start = (self.checked.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % positions;
        start as usize..start as usize + compared
    }

    /// Adds to the number of answers compared.
    pub fn compared(&self, answers: usize) {
        self.checked.set(self.checked.get() + answers as u64);
    }

    /// Compares the answers to lookups of some numbers with what they should be.
    pub fn check_lookups(
        &self,
        what: &str,
        numbers: Numbers,
        out: &LookupOut,
        expected: impl Fn(u64) -> Option<u64>,
    ) -> Outcome<()> {
        let stretch = self.stretch(numbers.len);
        let values = out.values.copy(stretch.clone())?;
        let found = out.found.copy(stretch.clone())?;
        self.compared(values.len());
        for (index, (value, found)) in stretch.zip(values.into_iter().zip(found)) {
            let (number, answer) = (numbers.at(index), (found != 0).then_some(value));
            same(what, &self.key_of(number), &answer, &expected(number))?;
        }
        Ok(())
    }

    /// Looks up the keys of some numbers in a dictionary, and compares.
    pub fn check_held(
        &self,
        dictionary: &dyn AnyDictionary,
        numbers: Numbers,
        expected: impl Fn(u64) -> Option<u64>,
    ) -> Outcome<()> {
        let lookup = |keys: &_, out: &mut _| self.backend.lookup(dictionary, keys, out);
        self.check_with("lookup", numbers, lookup, expected)
    }

    /// Checks that a dictionary holds the first `len` numbers and nothing else.
    pub fn check_filled(&self, dictionary: &dyn AnyDictionary, len: usize) -> Outcome<()> {
        same("length", &"the dictionary", &dictionary.len()?, &len)?;
        let numbers = Numbers::shuffled(0..len as u64, len);
        self.check_held(dictionary, numbers, |number| Some(self.value_of(number)))
    }

    /// Looks up the keys of some numbers with a function, and compares.
    pub fn check_with(
        &self,
        what: &str,
        numbers: Numbers,
        lookup: impl FnOnce(&Array, &mut LookupOut) -> Outcome<()>,
        expected: impl Fn(u64) -> Option<u64>,
    ) -> Outcome<()> {
        let numbers = numbers.first(4 * COMPARED);
        let keys = self.keys(numbers)?;
        let mut out = self.lookup_out(numbers.len)?;
        lookup(&keys, &mut out)?;
        self.check_lookups(what, numbers, &out, expected)
    }

    /// Compares a few counts.
    pub fn check_some_counts(
        &self,
        what: &str,
        ranges: &RangeEnds,
        counts: &Array,
        held: Held<'_>,
    ) -> Outcome<()> {
        let part = self.stretch(ranges.len);
        let part = part.start..part.end.min(part.start + COUNTS);
        let counts = counts.copy(part.clone())?;
        self.check_counts(what, ranges, &counts, part.start, held)
    }

    /// Compares the counts of the ranges from `first` on.
    pub fn check_counts(
        &self,
        what: &str,
        ranges: &RangeEnds,
        counts: &[u64],
        first: usize,
        (sorted, limit): Held<'_>,
    ) -> Outcome<()> {
        let part = first..first + counts.len();
        let (lo, hi) = (ranges.lo.copy(part.clone())?, ranges.hi.copy(part)?);
        // A task for each range: a range may hold most of the pairs.
        let mut expected = vec![0; counts.len()];
        let tasks = expected.iter_mut().zip(lo.iter().zip(&hi)).map(|(count, (&lo, &hi))| {
            Box::new(move || {
                let start = sorted.partition_point(|&(key, _)| key < lo);
                let within = sorted[start..].iter().take_while(|&&(key, _)| key <= hi);
                *count = within.filter(|&&(_, number)| number < limit).count() as u64;
            }) as Task<'_>
        });
        run_all(tasks.collect());
        self.compared(counts.len());
        (0..counts.len()).try_for_each(|i| same(what, &(lo[i], hi[i]), &counts[i], &expected[i]))
    }

    /// Compares the pairs of a few ranges: as many as expected, in order, within the ends, each with the
    /// value of its key.
    pub fn check_ranges(
        &self,
        what: &str,
        ranges: &RangeEnds,
        out: &RangeOut,
        held: Held<'_>,
    ) -> Outcome<()> {
        let few = self.stretch(ranges.len);
        let few = few.start..few.end.min(few.start + RANGES);
        let offsets = out.offsets.copy(few.start..few.end + 1)?;
        let counts: Vec<u64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        self.check_counts(what, ranges, &counts, few.start, held)?;
        let all = offsets[0] as usize..offsets[counts.len()] as usize;
        let (keys, values) = (out.keys.copy(all.clone())?, out.values.copy(all)?);
        let (lo, hi) = (ranges.lo.copy(few.clone())?, ranges.hi.copy(few)?);
        let mut start = 0;
        for ((&count, lo), hi) in counts.iter().zip(lo).zip(hi) {
            let own = start..start + count as usize;
            let inside = keys[own.clone()].iter().all(|key| (lo..=hi).contains(key));
            let ordered = keys[own.clone()].is_sorted_by(|a, b| a < b);
            same(what, &(lo, hi), &(inside, ordered), &(true, true))?;
            start = own.end;
        }
        self.compared(keys.len());
        self.check_values(what, &keys, &values)
    }

    /// Compares a few sums of the values of ranges.
    pub fn check_sums(
        &self,
        ranges: &RangeEnds,
        sums: &Array,
        (sorted, limit): Held<'_>,
    ) -> Outcome<()> {
        let part = self.stretch(ranges.len);
        let part = part.start..part.end.min(part.start + COUNTS);
        let (lo, hi) = (ranges.lo.copy(part.clone())?, ranges.hi.copy(part.clone())?);
        for ((lo, hi), sum) in lo.into_iter().zip(hi).zip(sums.copy(part)?) {
            let start = sorted.partition_point(|&(key, _)| key < lo);
            let within = sorted[start..].iter().take_while(|&&(key, _)| key <= hi);
            let values = within.filter(|&&(_, number)| number < limit);
            let expected = values.map(|&(_, number)| self.value_of(number)).sum::<u64>();
            same("sum", &(lo, hi), &sum, &expected)?;
            self.compared(1);
        }
        Ok(())
    }

    /// Checks that each value is the number of its key.
    pub fn check_values(&self, what: &str, keys: &[u64], values: &[u64]) -> Outcome<()> {
        let mut pairs = keys.iter().zip(values);
        pairs.try_for_each(|(key, &value)| same(what, key, &self.key_of(value), key))
    }
}

/// Returns an error if an answer is not what it should be.
pub fn same<Q: Debug, A: PartialEq + Debug>(
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
