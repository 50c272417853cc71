//! The CUDA engine: the host's side of `kernels/`, one verb a file.

use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::ffi::{self, View};
use super::gpu::Gpu;
use super::log::Log;
use super::long_merge::Merge;
use super::memory::{Buffer, download};
use super::resident::CudaStore;
use super::run::Run;
use super::stream::Stream;
use super::{absorb, count, entries, lookup, nearest, range, resolve, select};
use crate::batch::Updates;
use crate::budget::{Account, Allowance, Budget};
use crate::device::{Engine, Mark, Merged, PairsOut, Query, RunStats};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::store::Store;

/// What every step needs: the stream that it runs on, where memory is counted, and widths in bytes.
#[derive(Clone)]
pub struct Cuda {
    pub(super) stream: Stream,
    pub(super) family: Arc<Family>,
    pub(super) account: Account,
    pub(super) key_width: i32,
    pub(super) value_width: i32,
}

/// What a dictionary, its clones and its snapshots have in common.
pub(super) struct Family {
    /// How much room the last sort wanted, and for which width of values and length: batches are often alike.
    pub sort_room: Mutex<Option<((i32, u64), usize)>>,
    /// Whether anybody needed marks since the last batch.
    pub wants_marks: AtomicBool,
    stream: Stream,
}

impl Drop for Family {
    fn drop(&mut self) {
        // Memory is given back in the order of the stream: once all is done, it can leave the pool.
        let is_captured = self.stream.is_capturing() != Ok(false);
        if !is_captured && self.stream.synchronize().is_ok() {
            self.stream.gpu().give_back();
        }
    }
}

impl Cuda {
    pub fn new(stream: Stream, limit: Option<u64>, key_width: usize, value_width: usize) -> Self {
        let family = Arc::new(Family {
            sort_room: Mutex::default(),
            wants_marks: AtomicBool::new(false),
            stream: stream.clone(),
        });
        let account = Account::new(limit);
        let (key_width, value_width) = (key_width as i32, value_width as i32);
        Cuda { stream, family, account, key_width, value_width }
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        self.account.budget()
    }

    pub(super) fn gpu(&self) -> &'static Gpu {
        self.stream.gpu()
    }

    /// Lets the stream read these runs, until the answer is dropped or ended.
    pub(super) fn read<'a>(
        &self,
        runs: impl Iterator<Item = &'a Run>,
    ) -> Result<Reading<'_>, Error> {
        let is_captured = self.stream.is_capturing()?;
        let mut foreign = Vec::new();
        for run in runs {
            if is_captured {
                // The graph may be launched anywhere, and waits for nothing: the run must be there.
                run.wait_until_written()?;
            } else if run.is_foreign_to(&self.stream) {
                run.before_reading(&self.stream)?;
                foreign.push(run.clone());
            }
        }
        Ok(Reading { stream: &self.stream, foreign })
    }

    /// The bytes of so many pairs.
    pub(super) fn pair_bytes(&self, len: usize) -> u64 {
        len as u64 * (self.key_width + self.value_width) as u64
    }

    /// The bytes of so many values.
    pub(super) fn value_bytes(&self, len: usize) -> u64 {
        len as u64 * self.value_width as u64
    }
}

/// Runs of other streams that this stream reads.
#[must_use]
pub(super) struct Reading<'a> {
    stream: &'a Stream,
    foreign: Vec<Run>,
}

impl Reading<'_> {
    /// Keeps the runs' memory until what is on the stream now is done.
    pub fn end(mut self) -> Result<(), Error> {
        self.keep()
    }

    fn keep(&mut self) -> Result<(), Error> {
        if self.foreign.is_empty() {
            return Ok(());
        }
        let foreign = std::mem::take(&mut self.foreign);
        match self.stream.gpu().note_read(self.stream) {
            Ok((number, done)) => {
                let done = Arc::new(done);
                foreign.iter().for_each(|run| run.after_reading(self.stream, number, &done));
                Ok(())
            }
            Err(_) => self.stream.synchronize(),
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.keep().ok(); // After an error: what was begun may still be reading.
    }
}

/// Merging so many bytes takes about as long as the rest of a batch of 2^16 updates, on an H200.
const BYTES_MERGED_AT_ONCE: usize = 32 << 20;

/// A GPU as a device for keys `B`.
pub(crate) struct CudaEngine<B> {
    pub(super) cuda: Cuda,
    keys: PhantomData<fn() -> B>,
}

impl<B> CudaEngine<B> {
    pub fn new(cuda: Cuda) -> Self {
        CudaEngine { cuda, keys: PhantomData }
    }
}

impl<B: OrderedKey> CudaEngine<B> {
    /// Does something with a copy of the host's batch.
    fn upload<T>(
        &self,
        updates: &Updates<'_, B>,
        job: impl FnOnce(&absorb::Updates) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _entered = self.cuda.gpu().enter()?;
        let stream = &self.cuda.stream;
        stream.refuse_capture()?;
        let keys = Buffer::upload(&updates.keys, stream)?;
        let values = Buffer::upload(updates.values, stream)?;
        let deletes = Buffer::upload(&updates.deletes, stream)?;
        job(&absorb::Updates {
            keys: keys.address(),
            values: values.address(),
            inserts: updates.keys.len() as u64,
            delete_keys: deletes.address(),
            deletes: updates.deletes.len() as u64,
            numbers: 0,
            order: updates.order,
        })
    }
}

impl<B> Clone for CudaEngine<B> {
    fn clone(&self) -> Self {
        CudaEngine::new(self.cuda.clone())
    }
}

impl<B: OrderedKey> Engine for CudaEngine<B> {
    type Key = B;
    type Run = Run;
    type Log = Log;
    type Merge = Merge;

    const MOST_WAITING: usize = 1 << 25;

    fn bound(&self, run: &Run) -> usize {
        run.bound() as usize
    }

    fn absorb(
        &self,
        updates: &Updates<'_, B>,
        carried: &[Run],
        older: &[Run],
    ) -> Result<Option<Run>, Error> {
        self.upload(updates, |updates| absorb::absorb(&self.cuda, updates, carried, older))
    }

    fn append(&self, log: &mut Log, updates: &Updates<'_, B>) -> Result<(), Error> {
        self.upload(updates, |updates| log.append(&self.cuda, updates))
    }

    fn absorb_log(&self, log: &Log, carried: &[Run], older: &[Run]) -> Result<Option<Run>, Error> {
        absorb::absorb(&self.cuda, &log.updates(), carried, older)
    }

    fn merged_at_once(&self) -> usize {
        BYTES_MERGED_AT_ONCE / self.cuda.pair_bytes(1) as usize
    }

    fn is_roomy_for_merge(&self, entries: usize) -> bool {
        self.cuda.budget().is_spare(self.cuda.pair_bytes(entries))
    }

    fn begin_merge(&self, runs: &[Run], older: &[Run]) -> Result<Merge, Error> {
        Merge::new(&self.cuda, runs, older)
    }

    fn go_on(&self, merge: Merge, entries: usize) -> Result<Merged<Merge, Run>, Error> {
        merge.go_on(&self.cuda, entries)
    }

    fn bytes_to_apply(&self, updates: usize, runs: &[Run]) -> u64 {
        absorb::working_bytes(&self.cuda, updates as u64, runs)
    }

    fn drawing_on(&self, allowance: &Arc<Allowance>) -> Self {
        let account = self.cuda.account.drawing_on(allowance);
        CudaEngine::new(Cuda { account, ..self.cuda.clone() })
    }

    fn budget(&self) -> &Arc<Budget> {
        self.cuda.budget()
    }

    fn len(&self, runs: &[Run]) -> Result<u64, Error> {
        count::len(&self.cuda, runs)
    }

    fn len_at_least(&self, runs: &[Run]) -> u64 {
        runs.iter().map(Run::least_sum).sum::<i64>().max(0).cast_unsigned()
    }

    fn len_if_known(&self, runs: &[Run]) -> Option<u64> {
        runs.iter().map(Run::sum_if_known).sum::<Option<i64>>().map(i64::cast_unsigned)
    }

    fn answer(&self, runs: &[Run], query: Query<'_, B>) -> Result<(), Error> {
        let cuda = &self.cuda;
        let _entered = cuda.gpu().enter()?;
        cuda.stream.refuse_capture()?;
        if !matches!(query, Query::Lookup { .. }) {
            resolve::resolve(cuda, runs)?;
        }
        let reading = cuda.read(runs.iter())?;
        let view = View::new(runs.iter().map(Run::view));
        match query {
            Query::Lookup { keys, values, found } => {
                lookup::answer(cuda, runs, keys, values, found)
            }
            Query::Count { lo, hi, counts } => count::answer(cuda, &view, lo, hi, counts),
            Query::Rank { keys, ranks } => count::answer_rank(cuda, &view, keys, ranks),
            Query::RangeOffsets { lo, hi, offsets } => {
                range::answer_offsets(cuda, &view, lo, hi, offsets).map(drop)
            }
            Query::Range { lo, hi, offsets, keys, values } => {
                range::answer(cuda, &view, (lo, hi), offsets, keys, values)
            }
            Query::Select { indices, pairs } => select::answer(cuda, &view, indices, pairs),
            Query::Nearest { side, keys, pairs } => nearest::answer(cuda, &view, side, keys, pairs),
        }?;
        reading.end()
    }

    fn run_stats(&self, run: &Run) -> Result<RunStats, Error> {
        run.stats()
    }

    fn compacted(&self, run: &Run) -> Option<Run> {
        if run.is_foreign_to(&self.cuda.stream) || self.cuda.stream.is_capturing() != Ok(false) {
            return None;
        }
        run.compacted(&self.cuda).ok().flatten() // Without memory for it, all stays as it is.
    }

    fn entries(&self, run: &Run) -> Result<Vec<(B, Mark)>, Error> {
        entries::entries(&self.cuda, run)
    }

    fn validate_run(&self, run: &Run) -> Result<(), String> {
        entries::validate::<B>(&self.cuda, run)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.cuda.stream.synchronize()
    }

    fn cuda_store(store: &Store<Self>) -> Option<&dyn CudaStore<B>> {
        Some(store)
    }

    fn cuda_store_mut(store: &mut Store<Self>) -> Option<&mut dyn CudaStore<B>> {
        Some(store)
    }
}

/// Answers of at most one pair per query on their way to the host.
pub(super) struct PairsBuffers {
    keys: Buffer,
    values: Buffer,
    found: Buffer,
}

impl PairsBuffers {
    pub fn new<B>(cuda: &Cuda, len: usize) -> Result<Self, Error> {
        Ok(PairsBuffers {
            keys: Buffer::uncounted((len * size_of::<B>()) as u64, &cuda.stream)?,
            values: Buffer::uncounted(cuda.value_bytes(len), &cuda.stream)?,
            found: Buffer::uncounted(len as u64, &cuda.stream)?,
        })
    }

    pub fn addresses(&self) -> ffi::Pairs {
        let [keys, values, found] = [&self.keys, &self.values, &self.found].map(Buffer::address);
        ffi::Pairs { keys, values, found }
    }

    pub fn download<B>(&self, cuda: &Cuda, out: PairsOut<'_, B>) -> Result<(), Error> {
        let PairsOut { keys, values, found } = out;
        // SAFETY: the buffers are as long as what goes into them, `found` is 0 or 1, and the stream
        // is synchronized before anything is read.
        let begun = unsafe {
            download(self.keys.address(), keys, &cuda.stream)
                .and_then(|()| download(self.values.address(), values, &cuda.stream))
                .and_then(|()| download(self.found.address(), found, &cuda.stream))
        };
        // Whatever was begun must be done before the caller has its memory back.
        cuda.stream.synchronize().and(begun)
    }
}
