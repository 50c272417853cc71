//! What every experiment works with: the device, pairs made from numbers, clocks, checks of answers, and
//! progress.

mod check;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpulsm_backends::backend::{
    Array, Backend, Kind, LookupOut, NearestOut, Outcome, Pairs, RangeEnds, RangeOut,
};
use gpulsm_backends::numbers::{Numbers, Width};
use indicatif::ProgressBar;
use rayon::prelude::*;

use super::scale::Scale;
use crate::results::{Point, Row};

pub use check::same;

pub struct Harness {
    pub backend: Box<dyn Backend>,
    pub key: Width,
    pub value: Width,
    pub scale: Scale,
    /// Added to numbers before they become keys.
    pub seed: u64,
    pub progress: ProgressBar,
    /// A folder for files that are measured. It does not exist yet.
    pub scratch: PathBuf,
    /// Set when the user stops the run.
    stop: &'static AtomicBool,
    /// How many answers were compared.
    pub checked: Cell<u64>,
    pairs: Cached<Pairs>,
    sorted: Cached<Vec<(u64, u64)>>,
}

/// Something of a length, kept for the next experiment that needs it.
type Cached<T> = RefCell<Option<(usize, Rc<T>)>>;

/// A part of an experiment: rows that are measured together, or not at all.
pub struct Case {
    /// The rows, still without points.
    pub rows: Vec<Row>,
    /// An estimate of the time it takes, in a unit that all cases share.
    pub work: u64,
    /// Measures the points of each row.
    pub job: Job,
}

pub type Job = Box<dyn Fn(&Harness) -> Outcome<Vec<Vec<Point>>>>;

/// The error of a run that the user stopped.
#[derive(Debug)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl Error for Stopped {}

impl Harness {
    pub fn new(
        backend: Box<dyn Backend>,
        (key, value): (Width, Width),
        scale: Scale,
        seed: u64,
        progress: ProgressBar,
        scratch: PathBuf,
        stop: &'static AtomicBool,
    ) -> Self {
        Harness {
            backend,
            key,
            value,
            scale,
            seed: seed.wrapping_mul(0x9e37_79b9),
            progress,
            scratch,
            stop,
            checked: Cell::new(0),
            pairs: RefCell::default(),
            sorted: RefCell::default(),
        }
    }

    /// Reports finished work. Returns an error if the user has stopped the run.
    pub fn done(&self, work: u64) -> Outcome<()> {
        self.progress.inc(work);
        if self.stop.load(Ordering::Relaxed) { Err(Box::new(Stopped)) } else { Ok(()) }
    }

    /// Returns the key of a number.
    pub fn key_of(&self, number: u64) -> u64 {
        self.scatter()(number)
    }

    /// Returns the function from numbers to keys, for all cores.
    pub fn scatter(&self) -> impl Fn(u64) -> u64 + Copy + Send + Sync + use<> {
        let (key, seed) = (self.key, self.seed);
        move |number| key.scatter(number.wrapping_add(seed))
    }

    /// Returns the value of a number: the number, as far as it fits.
    pub fn value_of(&self, number: u64) -> u64 {
        self.value.truncate(number)
    }

    /// Makes an array of the keys of numbers.
    pub fn keys(&self, numbers: Numbers) -> Outcome<Array> {
        let key = self.scatter();
        self.backend.array(Kind::Key, numbers.len, &|i| key(numbers.at(i)))
    }

    /// Makes an array of these numbers.
    pub fn array(&self, kind: Kind, numbers: &[u64]) -> Outcome<Array> {
        self.backend.array(kind, numbers.len(), &|i| numbers[i])
    }

    /// Makes pairs of the keys of numbers, with the numbers as values.
    pub fn pairs_of(&self, numbers: Numbers) -> Outcome<Pairs> {
        let values = self.backend.array(Kind::Value, numbers.len, &|i| numbers.at(i))?;
        Ok(Pairs { keys: self.keys(numbers)?, values })
    }

    /// Returns the pairs of at least the numbers below `len`, from a cache if it has them.
    pub fn pairs(&self, len: usize) -> Outcome<Rc<Pairs>> {
        let cached = self.pairs.borrow().clone();
        if let Some((cached_len, pairs)) = cached
            && cached_len >= len
        {
            return Ok(pairs);
        }
        self.pairs.replace(None); // Frees the old pairs first.
        let pairs = Rc::new(self.pairs_of(Numbers::counting(0..len as u64))?);
        self.pairs.replace(Some((len, pairs.clone())));
        Ok(pairs)
    }

    /// Returns the keys of the numbers below `len`, in order, with their numbers: what answers are
    /// compared with.
    pub fn sorted(&self, len: usize) -> Rc<Vec<(u64, u64)>> {
        let cached = self.sorted.borrow().clone();
        if let Some((cached_len, sorted)) = cached
            && cached_len == len
        {
            return sorted;
        }
        let key = self.scatter();
        let mut sorted = Numbers::counting(0..len as u64).map(&|number| (key(number), number));
        sorted.par_sort_unstable();
        let sorted = Rc::new(sorted);
        self.sorted.replace(Some((len, sorted.clone())));
        sorted
    }

    /// Makes ranges that begin at the keys of numbers and hold `wide` of `live` evenly spread keys.
    pub fn ranges(&self, numbers: Numbers, wide: u64, live: usize) -> Outcome<RangeEnds> {
        let spacing = (u128::from(self.key.max()) + 1) / live.max(1) as u128;
        let by = (spacing * u128::from(wide)).min(u128::from(u64::MAX)) as u64;
        let (width, key) = (self.key, self.scatter());
        let end = |i: usize| width.saturating_add(key(numbers.at(i)), by - 1);
        let hi = self.backend.array(Kind::Key, numbers.len, &end)?;
        Ok(RangeEnds { lo: self.keys(numbers)?, hi, len: numbers.len })
    }

    pub fn lookup_out(&self, len: usize) -> Outcome<LookupOut> {
        let values = self.backend.zeroed(Kind::Value, len)?;
        Ok(LookupOut { values, found: self.backend.zeroed(Kind::Flag, len)? })
    }

    pub fn nearest_out(&self, len: usize) -> Outcome<NearestOut> {
        Ok(NearestOut {
            keys: self.backend.zeroed(Kind::Key, len)?,
            values: self.backend.zeroed(Kind::Value, len)?,
            found: self.backend.zeroed(Kind::Flag, len)?,
        })
    }

    /// Makes room for the answers to `ranges` ranges, `pairs` pairs in all.
    pub fn range_out(&self, ranges: usize, pairs: usize) -> Outcome<RangeOut> {
        Ok(RangeOut {
            offsets: self.backend.zeroed(Kind::Count, ranges + 1)?,
            keys: self.backend.zeroed(Kind::Key, pairs)?,
            values: self.backend.zeroed(Kind::Value, pairs)?,
        })
    }

    /// Returns how many seconds a job takes.
    pub fn time(&self, mut job: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
        self.backend.time(&mut job)
    }

    /// Times a job several times, after a warm-up.
    pub fn repeat(&self, mut job: impl FnMut() -> Outcome<()>) -> Outcome<Vec<f64>> {
        self.backend.time(&mut job)?;
        (0..self.scale.repeats).map(|_| self.backend.time(&mut job)).collect()
    }

    /// Times a job on a subject that is made anew each time, outside the clock, and checked each time.
    /// Returns the last subject too.
    pub fn repeat_anew<T>(
        &self,
        make: impl Fn() -> Outcome<T>,
        job: impl Fn(&mut T) -> Outcome<()>,
        check: impl Fn(&T) -> Outcome<()>,
    ) -> Outcome<(Vec<f64>, T)> {
        let once = || {
            let mut subject = make()?;
            let seconds = self.time(|| job(&mut subject))?;
            check(&subject)?;
            Outcome::Ok((seconds, subject))
        };
        let (_, mut subject) = once()?;
        let mut samples = Vec::new();
        for _ in 0..self.scale.repeats {
            let (seconds, last) = once()?;
            samples.push(seconds);
            subject = last;
        }
        Ok((samples, subject))
    }
}
