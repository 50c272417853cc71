//! Filters: which runs a lookup need not search, nor a batch that looks for its shadows. A run gets one when
//! it was asked so often that it pays, or is born with one where that is foreseen (`absorb.rs`); the newest runs,
//! which are short and many, get one together besides.

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::Event;
use crate::cuda::ffi::{self, Address, Filters, check};
use crate::cuda::run::Run;
use crate::error::Error;

/// Bits for each entry.
const BITS: u64 = 12;

/// A run gets a filter once it was asked so many times, and by lookups for this part of its entries besides:
/// making one takes as long as that many searches.
const OFTEN: u64 = 1 << 18;
const PART: u64 = 2;

/// The newest runs have a filter together if they are so many, and have no more than this part of all
/// entries.
const FEWEST_JOINT: usize = 3;
const JOINT_PART: u64 = 8;

/// A filter of all keys of a run, or of several.
pub(crate) struct Filter {
    words: Buffer,
    /// When it was written, if not with its run.
    written: Option<Event>,
    /// Whose keys they are: those who have one together may change.
    runs: Vec<u64>,
}

impl Filter {
    /// One that is written with its run, by the merge that makes both. None where there is no memory for it.
    pub fn of_unwritten(cuda: &Cuda, bound: u64) -> Option<Self> {
        let words = cuda.budget().allows_filter().then(|| Filter::room(cuda, bound).ok())??;
        Some(Filter { words, written: None, runs: Vec::new() })
    }

    /// Room for a filter of so many entries; its words are a multiple of 16 bytes.
    fn room(cuda: &Cuda, entries: u64) -> Result<Buffer, Error> {
        let len = (entries * BITS).div_ceil(u64::from(u64::BITS)).max(1).next_multiple_of(2);
        Buffer::counted(len * 8, cuda)
    }

    fn new(cuda: &Cuda, runs: &[Run]) -> Result<Self, Error> {
        let words = Filter::room(cuda, runs.iter().map(Run::bound).sum())?;
        words.zero(0, words.bytes())?;
        for run in runs {
            let (view, stream) = (run.view(), cuda.stream.raw());
            let (bound, len) = (run.bound(), len_of(&words));
            // SAFETY: the run has at most `bound` keys, is alive and written before what this stream does
            // now; there are so many words, and they are zeros by then.
            check("making a filter", unsafe {
                let (key_width, to) = (cuda.key_width, words.address());
                ffi::gpulsm_filter(key_width, view.keys, view.head, bound, to, len, stream)
            })?;
        }
        let runs = runs.iter().map(Run::id).collect();
        Ok(Filter { words, written: Some(Event::record(&cuda.stream)?), runs })
    }

    /// None where there is no memory for it, or no time: what it is for does without.
    fn if_roomy(cuda: &Cuda, runs: &[Run]) -> Option<Self> {
        let may_make = cuda.stream.is_capturing() == Ok(false) && cuda.budget().allows_filter();
        if may_make { Filter::new(cuda, runs).ok() } else { None }
    }

    pub fn words_mut(&mut self) -> &mut Buffer {
        &mut self.words
    }

    pub fn bytes(&self) -> u64 {
        self.words.bytes()
    }

    /// Where it is, and how many words.
    pub fn place(&self) -> (Address, u32) {
        (self.words.address(), len_of(&self.words))
    }

    /// Lets the stream, which has waited for the runs, read it; where it is, and how many words.
    fn read(&self, cuda: &Cuda) -> Result<(Address, u32), Error> {
        if let Some(written) = &self.written {
            if cuda.stream.is_capturing()? {
                written.synchronize()?;
            } else if *self.words.stream() != cuda.stream {
                cuda.stream.wait(written)?;
            }
        }
        Ok(self.place())
    }
}

/// How many words of a filter these are.
fn len_of(words: &Buffer) -> u32 {
    u32::try_from(words.bytes() / 8).expect("no GPU has room for more")
}

/// The filters for so many lookups on this stream, which has waited for the runs.
pub(crate) fn filters(cuda: &Cuda, runs: &[Run], lookups: u64) -> Result<Filters, Error> {
    if runs.len() < 2 {
        return Ok(Filters::default()); // To search the only run is all there is to do.
    }
    let mut filters = run_filters(cuda, runs, lookups, PART)?;
    let newest = &runs[..newest(runs)];
    if newest.len() < FEWEST_JOINT
        || filters.words[..newest.len()].contains(&0)
        || !was_asked_enough(&newest[0], PART)
    {
        return Ok(filters);
    }
    // Older runs hardly ever change without a newer one: it can stay with the newest.
    let joint = newest[0].joint_filter(|| Filter::if_roomy(cuda, newest));
    if let Some(joint) =
        joint.filter(|joint| joint.runs.iter().copied().eq(newest.iter().map(Run::id)))
    {
        (filters.joint, filters.joint_len) = joint.read(cuda)?;
        filters.joint_runs = newest.len() as u32;
    }
    Ok(filters)
}

/// The filters of the runs themselves, for so many searches on this stream. One is made if `OFTEN` searches asked
/// the run, and for this part of its entries besides.
pub(crate) fn run_filters(
    cuda: &Cuda,
    runs: &[Run],
    searches: u64,
    part: u64,
) -> Result<Filters, Error> {
    let mut filters = Filters::default();
    for (at, run) in runs.iter().enumerate() {
        run.asked(searches);
        let is_due = was_asked_enough(run, part);
        let make = || if is_due { Filter::if_roomy(cuda, &runs[at..=at]) } else { None };
        if let Some(filter) = run.filter(make) {
            (filters.words[at], filters.len[at]) = filter.read(cuda)?;
        }
    }
    Ok(filters)
}

/// Whether so many searches asked the run that a filter pays.
fn was_asked_enough(run: &Run, part: u64) -> bool {
    run.times_asked() >= run.bound() / part + OFTEN
}

/// How many of the newest runs have few entries together.
fn newest(runs: &[Run]) -> usize {
    let all: u64 = runs.iter().map(Run::bound).sum();
    let mut entries = 0;
    let is_few = |run: &&Run| {
        entries += run.bound();
        entries <= all / JOINT_PART
    };
    runs.iter().take_while(is_few).count()
}
