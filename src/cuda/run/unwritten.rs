//! A run that kernels are about to write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::pinned::{PinnedHead, take_pinned_head};
use crate::cuda::driver::stream::Event;
use crate::cuda::ffi::RunOutput;
use crate::cuda::run::filter::Filter;
use crate::cuda::run::layout::PartBytes;
use crate::cuda::run::readers::LastReads;
use crate::cuda::run::storage::{Addresses, Storage};
use crate::cuda::run::{MarkStorage, Parts, Run};
use crate::error::Error;

/// The id of the next run.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// Returns an id that no other run has.
pub(super) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// A run that kernels are about to write.
pub(crate) struct Unwritten {
    pub(crate) storage: Storage,
    marks: MarkStorage,
    bound: u64,
    pub(super) head: PinnedHead,
    filter: Option<Filter>,
}

impl Unwritten {
    /// Allocates a run of at most `bound` entries.
    pub fn new(cuda: &EnteredCuda<'_>, bound: u64, marks: MarkStorage) -> Result<Self, Error> {
        Self::in_storage(cuda, bound, marks, Storage::new(cuda, part_bytes(cuda, bound, marks))?)
    }

    /// Makes a run of at most `bound` entries in memory that has room for them.
    pub fn in_storage(
        cuda: &EnteredCuda<'_>,
        bound: u64,
        marks: MarkStorage,
        storage: Storage,
    ) -> Result<Self, Error> {
        let head = take_pinned_head(cuda.entered())?;
        Ok(Unwritten { storage, marks, bound, head, filter: None })
    }

    /// Returns how many bytes a run of at most `bound` entries takes.
    pub fn bytes(cuda: &Cuda, bound: u64, marks: MarkStorage) -> u64 {
        Storage::bytes_for(cuda, &part_bytes(cuda, bound, marks))
    }

    /// Adds a filter, which the merge writes with the entries, if there is memory for it.
    pub fn with_filter(self, cuda: &EnteredCuda<'_>) -> Self {
        assert_eq!(self.marks, MarkStorage::Inline, "only a merge with marks makes a filter");
        Unwritten { filter: Filter::of_unwritten(cuda, self.bound), ..self }
    }

    /// Returns where kernels write it.
    pub fn output(&self) -> RunOutput {
        let Addresses { head, keys, inner, outer, values, marks } = self.storage.addresses();
        let (filter, filter_len) = self.filter.as_ref().map(Filter::words).unwrap_or_default();
        RunOutput {
            keys,
            values,
            marks,
            inner,
            outer,
            head,
            sectors: self.storage.bytes.sectors(),
            pinned_head: self.head.address(),
            filter,
            filter_len,
        }
    }

    /// Calls `launch`, which launches the kernel that writes the run's head as the last thing it does, or
    /// fails.
    pub fn write(
        &mut self,
        cuda: &EnteredCuda<'_>,
        launch: impl FnOnce(&RunOutput) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let output = self.output();
        self.head.written_by(&cuda.stream, || launch(&output))
    }

    /// Returns the run, once the kernels that write it are on the stream.
    pub fn written(self, cuda: &EnteredCuda<'_>, least_sum: i64) -> Result<Run, Error> {
        let Unwritten { storage, marks, bound, head, filter } = self;
        Ok(Run(Arc::new(Parts {
            storage,
            marks,
            lazy_marks: OnceLock::new(),
            filter: filter.map_or_else(OnceLock::new, OnceLock::from),
            joint_filter: OnceLock::new(),
            id: next_id(),
            searches: AtomicU64::new(0),
            bound,
            least_sum,
            head,
            home: cuda.stream.clone(),
            written: Event::record(&cuda.stream, cuda.entered())?,
            readers: Mutex::new(LastReads::new()),
            _shared: cuda.shared.clone(),
        })))
    }
}

/// Returns the bytes of each part of a run of at most `bound` entries.
pub(crate) fn part_bytes(cuda: &Cuda, bound: u64, marks: MarkStorage) -> PartBytes {
    let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
    PartBytes::new(bound, key_width, value_width, marks == MarkStorage::Inline)
}
