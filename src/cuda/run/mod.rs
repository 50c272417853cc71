//! A run on the GPU: an immutable sorted array of entries with unique keys, in one buffer.

pub(super) mod filter;
#[cfg(feature = "testing")]
pub(super) mod inspect;
pub(super) mod resolve;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cuda::context::{Cuda, Shared};
use crate::cuda::driver::gpu::Slot;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::ffi::{self, Address, Head, NODE, RunOutput, RunView, SECTOR, Source};
use crate::cuda::run::filter::Filter;
use crate::error::Error;
use crate::stats::{Bytes, RunStats};

/// Parts of a run begin at multiples of this, so that vector loads are aligned.
const ALIGNMENT: u64 = 256;

/// A run that needs less than its memory by so many bytes, and by such a part of it, is put into less.
const WASTE: u64 = 1 << 16;
const WASTED_PART: u64 = 8;

/// From this many streams on that have read a run, those that are done are forgotten: a snapshot may live long,
/// and be read on a new stream each time.
const MANY_READERS: usize = 16;

/// A run. Clones share their memory.
#[derive(Clone)]
pub struct Run(Arc<Parts>);

/// What the next run is called.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

struct Parts {
    /// No other run has the same.
    id: u64,
    buffer: Option<Buffer>,
    layout: Layout,
    marks: Marks,
    /// Marks that were found out later.
    found: OnceLock<Found>,
    filter: OnceLock<Filter>,
    /// Of this run and some that are next to it, all older.
    joint_filter: OnceLock<Filter>,
    /// How many searches have asked it.
    asked: AtomicU64,
    /// At most so many entries…
    bound: u64,
    /// …and at least this sum of their marks, whatever the GPU finds.
    least_sum: i64,
    figures: Slot,
    /// The stream that wrote the run…
    home: Stream,
    /// …and when it was done.
    written: Event,
    /// When other streams read it last.
    readers: Mutex<LastReads<Stream, Arc<Event>>>,
    /// Whose run it is. Dropped last, when the memory is given back.
    _family: Arc<Shared>,
}

/// What becomes of a run's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Every entry is new, and needs none.
    Needless,
    /// They are written with the entries.
    Within,
    /// Every entry is live. Which ones are shadows is found out when somebody needs to know: most runs
    /// are merged into another before.
    Later,
}

/// Marks that were found out after the entries were written.
pub(crate) struct Found {
    pub marks: Buffer,
    pub figures: Slot,
    pub written: Event,
}

/// Where each part of a run lies in its buffer.
#[derive(Clone, Copy)]
struct Layout {
    keys: u64,
    inner: u64,
    outer: u64,
    values: u64,
    marks: u64,
    /// Where the marks would end; where they begin if there are none.
    end: u64,
}

impl Layout {
    fn new(bound: u64, key_width: u64, value_width: u64, marks: bool) -> Self {
        let nodes = bound.div_ceil(NODE);
        let after = |offset: u64, bytes: u64| (offset + bytes).next_multiple_of(ALIGNMENT);
        let keys = after(0, size_of::<Head>() as u64);
        let inner = after(keys, nodes * NODE * key_width);
        let outer = after(inner, nodes.next_multiple_of(NODE) * key_width);
        let values = after(outer, nodes.div_ceil(NODE) * key_width);
        let marks_at = after(values, bound * value_width);
        let sectors = if marks { sectors_for(bound) } else { 0 };
        let end = after(marks_at, sectors * size_of::<ffi::Sector>() as u64);
        Layout { keys, inner, outer, values, marks: marks_at, end }
    }

    fn has_marks(&self) -> bool {
        self.end > self.marks
    }

    /// Sectors of marks that there is room for.
    fn sectors(&self) -> u64 {
        (self.end - self.marks) / size_of::<ffi::Sector>() as u64
    }
}

/// Sectors that so many entries need.
pub(crate) fn sectors_for(bound: u64) -> u64 {
    bound / SECTOR + 1
}

/// A run that kernels are about to write.
pub(crate) struct Unwritten {
    buffer: Buffer,
    layout: Layout,
    marks: Marks,
    bound: u64,
    figures: Slot,
    filter: Option<Filter>,
}

impl Unwritten {
    /// Room for `bound` entries.
    pub fn new(cuda: &Cuda, bound: u64, marks: Marks) -> Result<Self, Error> {
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        let layout = Layout::new(bound, key_width, value_width, marks == Marks::Within);
        let buffer = Buffer::counted(layout.end, cuda)?;
        let figures = cuda.gpu().take_figures()?;
        Ok(Unwritten { buffer, layout, marks, bound, figures, filter: None })
    }

    /// Returns how many bytes a run of `bound` entries takes.
    pub fn bytes(cuda: &Cuda, bound: u64, marks: Marks) -> u64 {
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        Layout::new(bound, key_width, value_width, marks == Marks::Within).end
    }

    /// The same with a filter that the merge makes on the way, as it does with marks, if there is memory for it.
    pub fn with_filter(self, cuda: &Cuda) -> Self {
        assert_eq!(self.marks, Marks::Within, "only a merge with marks makes a filter");
        Unwritten { filter: Filter::of_unwritten(cuda, self.bound), ..self }
    }

    /// Where kernels write it.
    pub fn output(&self) -> RunOutput {
        let at = |offset: u64| self.buffer.address() + offset;
        let (filter, filter_len) = self.filter.as_ref().map(Filter::place).unwrap_or_default();
        RunOutput {
            keys: at(self.layout.keys),
            values: at(self.layout.values),
            marks: if self.layout.has_marks() { at(self.layout.marks) } else { 0 },
            inner: at(self.layout.inner),
            outer: at(self.layout.outer),
            head: self.buffer.address(),
            sectors: self.layout.sectors(),
            figures: self.figures.address(),
            filter,
            filter_len,
        }
    }

    /// Calls `launch`, which puts the kernel that tells the run's figures on the stream as the last thing
    /// it does, or fails.
    pub fn write(
        &mut self,
        stream: &Stream,
        launch: impl FnOnce(&RunOutput) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let output = self.output();
        self.figures.written_by(stream, || launch(&output))
    }

    /// The run, once the kernels that write it are on the stream.
    pub fn written(self, cuda: &Cuda, least_sum: i64) -> Result<Run, Error> {
        let Unwritten { buffer, layout, marks, bound, figures, filter } = self;
        Ok(Run(Arc::new(Parts {
            buffer: Some(buffer),
            layout,
            marks,
            found: OnceLock::new(),
            filter: filter.map_or_else(OnceLock::new, OnceLock::from),
            joint_filter: OnceLock::new(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            asked: AtomicU64::new(0),
            bound,
            least_sum,
            figures,
            home: cuda.stream.clone(),
            written: Event::record(&cuda.stream)?,
            readers: Mutex::new(LastReads(Vec::new())),
            _family: cuda.shared.clone(),
        })))
    }
}

impl Run {
    fn at(&self, offset: u64) -> Address {
        self.0.buffer.as_ref().expect("taken only when dropped").address() + offset
    }

    /// The run as kernels see it.
    pub(crate) fn view(&self) -> RunView {
        let layout = &self.0.layout;
        let within = if layout.has_marks() { self.at(layout.marks) } else { 0 };
        RunView {
            keys: self.at(layout.keys),
            values: self.at(layout.values),
            marks: self.0.found.get().map_or(within, |found| found.marks.address()),
            inner: self.at(layout.inner),
            outer: self.at(layout.outer),
            head: self.at(0),
        }
    }

    /// The run as something to merge.
    pub(crate) fn source(&self) -> Source {
        let RunView { keys, values, marks, head, .. } = self.view();
        Source { keys, values, marks, len: head, kind: ffi::SourceKind::Run, ..Source::default() }
    }

    /// At most so many entries, as far as the host knows now.
    pub(crate) fn bound(&self) -> u64 {
        self.0.figures.get().map_or(self.0.bound, |head| head.len)
    }

    /// The sum of its marks, if the host knows it now.
    pub(crate) fn sum_if_known(&self) -> Option<i64> {
        let figures = if self.lacks_marks() { None } else { self.figures().get() };
        figures.map(|head| head.sum)
    }

    /// At least this sum of marks, as far as the host knows now.
    pub(crate) fn least_sum(&self) -> i64 {
        self.sum_if_known().unwrap_or(self.0.least_sum)
    }

    /// Whether its marks are still to be found out.
    pub(crate) fn lacks_marks(&self) -> bool {
        self.0.marks == Marks::Later && self.0.found.get().is_none()
    }

    /// Gives it the marks that it lacked. Who comes second comes with the same.
    pub(crate) fn set_marks(&self, found: Found) {
        self.0.found.set(found).ok();
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Its filter, which may be made now.
    pub(crate) fn filter(&self, make: impl FnOnce() -> Option<Filter>) -> Option<&Filter> {
        get_or_make(&self.0.filter, make)
    }

    /// The same of the one that it has with the runs next to it.
    pub(crate) fn joint_filter(&self, make: impl FnOnce() -> Option<Filter>) -> Option<&Filter> {
        get_or_make(&self.0.joint_filter, make)
    }

    /// So many more searches ask it.
    pub(crate) fn asked(&self, searches: u64) {
        self.0.asked.fetch_add(searches, Ordering::Relaxed);
    }

    /// How many searches have asked it.
    pub(crate) fn times_asked(&self) -> u64 {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// What the host knows last.
    fn figures(&self) -> &Slot {
        self.0.found.get().map_or(&self.0.figures, |found| &found.figures)
    }

    /// When the last of it was written.
    fn written(&self) -> &Event {
        self.0.found.get().map_or(&self.0.written, |found| &found.written)
    }

    /// What the run holds, once it is written: this waits for that. It lacks no marks.
    pub(crate) fn head(&self) -> Result<Head, Error> {
        assert!(!self.lacks_marks(), "marks are found out before sums are asked for");
        if let Some(head) = self.figures().get() {
            return Ok(head);
        }
        self.written().synchronize()?;
        self.figures().get().ok_or_else(|| Error::Cuda {
            call: "a merge",
            reason: "it ended without saying how much it left".into(),
        })
    }

    /// Waits until every entry is there.
    pub(crate) fn wait_until_written(&self) -> Result<(), Error> {
        self.written().synchronize()
    }

    /// Makes what is put on the stream from now on happen after the run is written.
    pub(crate) fn before_reading(&self, stream: &Stream) -> Result<(), Error> {
        if self.0.home == *stream { Ok(()) } else { stream.wait(self.written()) }
    }

    /// Keeps the run's memory until the stream, which reads it, is done with what was on it at the note
    /// of that number.
    pub(crate) fn after_reading(&self, stream: &Stream, number: u64, done: &Arc<Event>) {
        if self.0.home == *stream {
            return; // Memory is given back in the order of that stream anyway.
        }
        let mut readers = self.0.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.0.len() >= MANY_READERS {
            readers.0.retain(|(.., done)| !done.is_done());
        }
        readers.note(stream, number, done);
    }

    /// Whether the stream is another than the one that wrote the run.
    pub(crate) fn is_foreign_to(&self, stream: &Stream) -> bool {
        self.0.home != *stream
    }

    /// A copy of the run in as much memory as it needs, if it has far more, as far as the host knows now.
    pub(crate) fn shrink_to_fit(&self, cuda: &Cuda) -> Result<Option<Run>, Error> {
        // Others may be finding out its marks: they are looked for once.
        let found = self.0.found.get();
        let Some(head) = found.map_or(&self.0.figures, |found| &found.figures).get() else {
            return Ok(None);
        };
        let marks = if found.is_some() { Marks::Within } else { self.0.marks };
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        let needed = Layout::new(head.len, key_width, value_width, marks == Marks::Within);
        let taken = self.0.layout.end + found.map_or(0, |found| found.marks.bytes());
        if head.len == 0 || needed.end + WASTE.max(taken / WASTED_PART) > taken {
            return Ok(None);
        }
        let _entered = cuda.gpu().enter()?;
        let compact = Unwritten::new(cuda, head.len, marks)?;
        compact.figures.set(head);
        let (from, to) = (self.view(), compact.layout);
        let nodes = head.len.div_ceil(NODE);
        let marks_bytes = compact.layout.sectors().min(sectors_for(head.len));
        for (offset, from, bytes) in [
            (0, from.head, size_of::<Head>() as u64),
            (to.keys, from.keys, nodes * NODE * key_width),
            (to.inner, from.inner, nodes.next_multiple_of(NODE) * key_width),
            (to.outer, from.outer, nodes.div_ceil(NODE) * key_width),
            (to.values, from.values, head.len * value_width),
            (to.marks, from.marks, marks_bytes * size_of::<ffi::Sector>() as u64),
        ] {
            compact.buffer.copy(offset, from, bytes)?;
        }
        compact.written(cuda, self.0.least_sum).map(Some)
    }

    fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.0.filter.get().into_iter().chain(self.0.joint_filter.get())
    }

    pub(crate) fn stats(&self) -> Result<RunStats, Error> {
        let Layout { keys, inner, values, marks, end, .. } = self.0.layout;
        let head = self.head()?;
        Ok(RunStats {
            entries: head.len,
            tombstones: head.tombstones,
            bytes: Bytes {
                keys: inner - keys,
                values: marks - values,
                marks: end - marks + self.0.found.get().map_or(0, |found| found.marks.bytes()),
                fences: values - inner + keys, // and the head
                filters: self.filters().map(Filter::bytes).sum(),
            },
        })
    }
}

/// For each stream the last point at which it still was reading. Threads that share a stream may come here
/// in another order than their work is on the stream.
struct LastReads<S, E>(Vec<(S, u64, E)>);

impl<S: Clone + PartialEq, E: Clone> LastReads<S, E> {
    /// Notes a point on a stream; of one stream, later points have larger numbers.
    fn note(&mut self, stream: &S, number: u64, done: &E) {
        match self.0.iter_mut().find(|(other, ..)| other == stream) {
            Some((_, last, _)) if *last > number => {}
            Some((_, last, at)) => (*last, *at) = (number, done.clone()),
            None => self.0.push((stream.clone(), number, done.clone())),
        }
    }

    fn points(&self) -> impl Iterator<Item = &E> {
        self.0.iter().map(|(.., done)| done)
    }
}

/// What is there, or can be made. Who comes second comes with the same.
fn get_or_make<T>(cell: &OnceLock<T>, make: impl FnOnce() -> Option<T>) -> Option<&T> {
    if cell.get().is_none()
        && let Some(made) = make()
    {
        cell.set(made).ok();
    }
    cell.get()
}

impl Drop for Parts {
    fn drop(&mut self) {
        let readers = self.readers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let marks = self.found.get_mut().map(|found| &mut found.marks);
        let filters = [self.filter.get_mut(), self.joint_filter.get_mut()].into_iter().flatten();
        let mut later: Vec<&mut Buffer> =
            marks.into_iter().chain(filters.map(Filter::words_mut)).collect();
        let is_at_home = later.iter().all(|part| *part.stream() == self.home);
        if readers.0.is_empty() && is_at_home {
            return;
        }
        // Other streams may still be reading. The home stream must not wait for them, for its next
        // batch is none of their business: a stream of its own does, and gives the memory back.
        let last = Stream::on(self.home.gpu()).and_then(|last| {
            readers.points().try_for_each(|done| last.wait(done))?;
            last.wait_for(&self.home)?;
            Ok(last)
        });
        match last {
            Ok(last) => {
                self.buffer.iter_mut().for_each(|part| part.outlive(&last));
                later.iter_mut().for_each(|part| part.outlive(&last));
            }
            // Where there is none to be had, the host waits.
            Err(_) => readers.points().for_each(|done| drop(done.synchronize())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread recorded its event, another one of the same stream recorded and noted a later one, and
    /// then the first note took the place of the second: the run was freed under the second's kernel.
    #[test]
    fn an_earlier_read_never_takes_the_place_of_a_later_one() {
        let mut reads = LastReads(Vec::new());
        for (stream, number, done) in [("a", 2, 20), ("b", 1, 10), ("a", 1, 11), ("b", 3, 30)] {
            reads.note(&stream, number, &done);
        }
        assert_eq!(reads.points().copied().collect::<Vec<i32>>(), [20, 30]);
    }
}
