//! A run on the GPU: an immutable sorted array of entries with unique keys, in one buffer.

pub(super) mod filter;
pub(super) mod filter_policy;
#[cfg(feature = "testing")]
pub(super) mod inspect;
pub(super) mod layout;
mod readers;
pub(super) mod reading;
pub(super) mod removal;
pub(super) mod resolve;
pub(super) mod shrink;
pub(super) mod storage;
pub(super) mod unwritten;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cuda::context::Shared;
use crate::cuda::driver::gpu::Entered;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::pinned::PinnedHead;
use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::ffi::{Head, RunView, Source, SourceKind};
use crate::cuda::run::filter::{Filter, FilterKeys};
use crate::cuda::run::readers::LastReads;
use crate::cuda::run::storage::{Addresses, Storage};
use crate::error::Error;
use crate::stats::{Bytes, RunStats};

/// When this many streams have read a run, those that are done are forgotten: a snapshot may live long, and
/// be read on a new stream each time.
const MANY_READERS: usize = 16;

/// A merged run of at least this many entries inherits the searches of its sources.
const MIN_BOUND_TO_INHERIT: u64 = 1 << 28;

/// A run. Clones share their memory.
#[derive(Clone)]
pub(crate) struct Run(Arc<Parts>);

struct Parts {
    /// No other run has the same.
    id: u64,
    storage: Storage,
    marks: MarkStorage,
    /// Marks that were computed after the entries were written.
    lazy_marks: OnceLock<LazyMarks>,
    filter: OnceLock<Filter>,
    /// A filter of this run together with the runs next to it, all older.
    joint_filter: OnceLock<Filter>,
    /// How many searches were made in it.
    searches: AtomicU64,
    /// An upper bound of the number of entries…
    bound: u64,
    /// …and a lower bound of the sum of their marks, whatever the GPU computes.
    least_sum: i64,
    head: PinnedHead,
    /// The stream that wrote the run…
    home: Stream,
    /// …and the end of that.
    written: Event,
    /// When other streams read it last.
    readers: Mutex<LastReads<Stream, Arc<Event>>>,
    /// Dropped last, when the memory is freed.
    _shared: Arc<Shared>,
}

/// How the marks of a run are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkStorage {
    /// Not at all: every entry is new.
    None,
    /// In the run's buffer, written with the entries.
    Inline,
    /// In a buffer of their own, once a query needs them: which entries are shadows is unknown before, and
    /// most runs are merged into another first. Every entry is live.
    Lazy,
}

/// Marks that were computed after the entries were written.
pub(crate) struct LazyMarks {
    marks: Buffer,
    head: PinnedHead,
    written: Event,
}

impl Run {
    /// Returns whether no clone shares its memory.
    pub fn is_unshared(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }

    /// Returns whether a clone shares it now.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Frees its filters and the marks that queries computed, once nobody reads them: this waits for that. Returns
    /// whether there were any; a run that a clone shares keeps them.
    pub fn free_caches(&mut self, entered: &Entered) -> bool {
        let Some(parts) = Arc::get_mut(&mut self.0) else { return false };
        let marks = parts.lazy_marks.get();
        if parts.filter.get().or(parts.joint_filter.get()).is_none() && marks.is_none() {
            return false;
        }
        let readers = parts.readers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_idle = parts.home.synchronize().is_ok()
            && marks.is_none_or(|later| later.written.synchronize(entered).is_ok())
            && readers.points().all(|done| done.synchronize(entered).is_ok());
        let freed =
            is_idle && (parts.filter.take().is_some() | parts.joint_filter.take().is_some());
        freed | (is_idle && parts.lazy_marks.take().is_some())
    }

    /// Makes what is put on the stream from now on happen after all work that uses the run, which no clone shares.
    pub fn before_overwriting(&self, stream: &Stream, entered: &Entered) -> Result<(), Error> {
        self.before_reading(stream, entered)?;
        stream.wait_for(&self.0.home)?;
        let readers = self.0.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.points().try_for_each(|done| stream.wait(done, entered))
    }

    /// Returns the run's memory.
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// Returns the run's memory, if no clone shares it.
    pub fn storage_mut(&mut self) -> Option<&mut Storage> {
        Arc::get_mut(&mut self.0).map(|parts| &mut parts.storage)
    }

    /// Returns the run as kernels see it.
    pub fn view(&self) -> RunView {
        let Addresses { head, keys, inner, outer, values, marks } = self.0.storage.addresses();
        let marks = self.0.lazy_marks.get().map_or(marks, |later| later.marks.address());
        RunView { keys, values, marks, inner, outer, head }
    }

    /// Returns the run as a source of a merge.
    pub fn source(&self) -> Source {
        let RunView { keys, values, marks, head, .. } = self.view();
        Source { keys, values, marks, len: head, kind: SourceKind::Run, ..Source::default() }
    }

    /// Returns the run's keys as those of a filter.
    pub fn filter_keys(&self) -> FilterKeys {
        let RunView { keys, head, .. } = self.view();
        FilterKeys { run: self.0.id, keys, len: head, bound: self.bound() }
    }

    /// Returns an upper bound of the number of entries, as far as the host knows now.
    pub fn bound(&self) -> u64 {
        self.0.head.get().map_or(self.0.bound, |head| head.len)
    }

    /// Returns the sum of its marks, if the host knows it now.
    pub fn sum_if_known(&self) -> Option<i64> {
        let head = if self.lacks_marks() { None } else { self.pinned_head().get() };
        head.map(|head| head.sum)
    }

    /// Returns a lower bound of the sum of its marks, as far as the host knows now.
    pub fn least_sum(&self) -> i64 {
        self.sum_if_known().unwrap_or(self.0.least_sum)
    }

    /// Returns whether its marks are still to be computed.
    pub fn lacks_marks(&self) -> bool {
        self.0.marks == MarkStorage::Lazy && self.0.lazy_marks.get().is_none()
    }

    /// Sets the marks that it lacked. A second thread's would be the same.
    pub fn set_marks(&self, marks: LazyMarks) {
        self.0.lazy_marks.set(marks).ok();
    }

    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns its filter, which `make` may make now.
    pub fn filter(&self, make: impl FnOnce() -> Option<Filter>) -> Option<&Filter> {
        get_or_make(&self.0.filter, make)
    }

    /// Returns the filter that it shares with the runs next to it, which `make` may make now.
    pub fn joint_filter(&self, make: impl FnOnce() -> Option<Filter>) -> Option<&Filter> {
        get_or_make(&self.0.joint_filter, make)
    }

    /// Counts searches in it.
    pub fn count_searches(&self, searches: u64) {
        self.0.searches.fetch_add(searches, Ordering::Relaxed);
    }

    /// Begins anew to count searches in it.
    pub fn forget_searches(&self) {
        self.0.searches.store(0, Ordering::Relaxed);
    }

    /// Counts the searches that were made in the runs that it was merged of, if it is long: a filter that pays for
    /// them would pay for it, too, and it would take long to find that out again.
    pub fn inherit_searches(self, sources: &[Run]) -> Self {
        if self.bound() >= MIN_BOUND_TO_INHERIT {
            self.count_searches(sources.iter().map(Run::searches).sum());
        }
        self
    }

    /// Returns how many searches were made in it.
    pub fn searches(&self) -> u64 {
        self.0.searches.load(Ordering::Relaxed)
    }

    /// Returns the head that was, or will be, written last.
    fn pinned_head(&self) -> &PinnedHead {
        self.0.lazy_marks.get().map_or(&self.0.head, |later| &later.head)
    }

    /// Returns the point after which all of it is written.
    fn written(&self) -> &Event {
        self.0.lazy_marks.get().map_or(&self.0.written, |later| &later.written)
    }

    /// Returns the head, once the run is written: this waits for that. The run lacks no marks.
    pub fn head(&self, entered: &Entered) -> Result<Head, Error> {
        assert!(!self.lacks_marks(), "marks are computed before they are summed");
        if let Some(head) = self.pinned_head().get() {
            return Ok(head);
        }
        self.wait_until_written(entered)?;
        self.pinned_head().get().ok_or_else(|| Error::Cuda {
            call: "a merge",
            reason: "it ended without writing the head of its run".to_string().into(),
        })
    }

    /// Waits until all of it is written.
    pub fn wait_until_written(&self, entered: &Entered) -> Result<(), Error> {
        self.written().synchronize(entered)
    }

    /// Makes what is put on the stream from now on happen after the run is written.
    pub fn before_reading(&self, stream: &Stream, entered: &Entered) -> Result<(), Error> {
        if self.is_foreign_to(stream) { stream.wait(self.written(), entered) } else { Ok(()) }
    }

    /// Keeps the run's memory until the stream, which reads it, has passed the point of that number.
    pub fn after_reading(
        &self,
        stream: &Stream,
        number: u64,
        done: &Arc<Event>,
        entered: &Entered,
    ) {
        if !self.is_foreign_to(stream) {
            return; // Memory is freed in the order of that stream anyway.
        }
        let mut readers = self.0.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() >= MANY_READERS {
            readers.retain(|done| !done.is_done(entered));
        }
        readers.note(stream, number, done);
    }

    /// Returns whether the stream is another than the one that wrote the run.
    pub fn is_foreign_to(&self, stream: &Stream) -> bool {
        self.0.home != *stream
    }

    /// Returns what the run holds and how many bytes it takes, once it is written.
    pub fn stats(&self, entered: &Entered) -> Result<RunStats, Error> {
        let head = self.head(entered)?;
        Ok(RunStats { entries: head.len, tombstones: head.tombstones, bytes: self.bytes() })
    }

    /// Returns how many bytes it takes.
    pub fn bytes(&self) -> Bytes {
        let bytes = self.0.storage.stats();
        let lazy_marks = self.0.lazy_marks.get().map_or(0, |later| later.marks.bytes());
        let filters = self.0.filter.get().into_iter().chain(self.0.joint_filter.get());
        Bytes {
            marks: bytes.marks + lazy_marks,
            filters: filters.map(Filter::bytes).sum(),
            ..bytes
        }
    }
}

/// Returns the number of live keys of these runs, which are all there are and lack no marks, once they are
/// written: this waits for that.
pub(crate) fn live_keys(runs: &[Run], entered: &Entered) -> Result<u64, Error> {
    let sums = runs.iter().map(|run| run.head(entered).map(|head| head.sum));
    Ok(sums.sum::<Result<i64, Error>>()?.cast_unsigned())
}

/// Returns what the cell has, or what `make` makes. A second thread's would be the same.
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
        let marks = self.lazy_marks.get_mut().map(|later| &mut later.marks);
        let filters = [self.filter.get_mut(), self.joint_filter.get_mut()].into_iter().flatten();
        let mut later: Vec<&mut Buffer> =
            marks.into_iter().chain(filters.map(Filter::words_mut)).collect();
        let is_at_home = later.iter().all(|buffer| *buffer.stream() == self.home);
        if readers.len() == 0 && is_at_home {
            return;
        }
        let Ok(entered) = self.home.enter() else { return };
        // Other streams may still be reading. The home stream must not wait for them, since its next batch
        // has nothing to do with them: a stream of its own does, and frees the memory.
        let last = Stream::on(self.home.gpu(), &entered).and_then(|last| {
            readers.points().try_for_each(|done| last.wait(done, &entered))?;
            last.wait_for(&self.home)?;
            Ok(last)
        });
        match last {
            Ok(last) => {
                self.storage.outlive(&last);
                later.iter_mut().for_each(|buffer| buffer.outlive(&last));
            }
            // Where no stream can be made, the host waits.
            Err(_) => readers.points().for_each(|done| drop(done.synchronize(&entered))),
        }
    }
}
