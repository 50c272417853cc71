//! A run that kernels are about to write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::pinned::{PinnedHead, take_pinned_head};
use crate::cuda::driver::stream::Event;
use crate::cuda::ffi::RunOutput;
use crate::cuda::run::filter::Filter;
use crate::cuda::run::layout::Layout;
use crate::cuda::run::readers::LastReads;
use crate::cuda::run::{MarkStorage, Parts, Run};
use crate::error::Error;

/// The id of the next run.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A run that kernels are about to write.
pub(crate) struct Unwritten {
    pub(super) buffer: Buffer,
    pub(super) layout: Layout,
    marks: MarkStorage,
    bound: u64,
    pub(super) head: PinnedHead,
    filter: Option<Filter>,
}

impl Unwritten {
    /// Allocates a run of at most `bound` entries.
    pub fn new(cuda: &EnteredCuda<'_>, bound: u64, marks: MarkStorage) -> Result<Self, Error> {
        let layout = layout(cuda, bound, marks);
        let buffer = cuda.alloc(layout.end)?;
        let head = take_pinned_head(cuda.entered())?;
        Ok(Unwritten { buffer, layout, marks, bound, head, filter: None })
    }

    /// Returns how many bytes a run of at most `bound` entries takes.
    pub fn bytes(cuda: &Cuda, bound: u64, marks: MarkStorage) -> u64 {
        layout(cuda, bound, marks).end
    }

    /// Adds a filter, which the merge writes with the entries, if there is memory for it.
    pub fn with_filter(self, cuda: &EnteredCuda<'_>) -> Self {
        assert_eq!(self.marks, MarkStorage::Inline, "only a merge with marks makes a filter");
        Unwritten { filter: Filter::of_unwritten(cuda, self.bound), ..self }
    }

    /// Returns where kernels write it.
    pub fn output(&self) -> RunOutput {
        let at = |offset: u64| self.buffer.address() + offset;
        let (filter, filter_len) = self.filter.as_ref().map(Filter::words).unwrap_or_default();
        RunOutput {
            keys: at(self.layout.keys),
            values: at(self.layout.values),
            marks: if self.layout.has_marks() { at(self.layout.marks) } else { 0 },
            inner: at(self.layout.inner),
            outer: at(self.layout.outer),
            head: self.buffer.address(),
            sectors: self.layout.sectors(),
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
        let Unwritten { buffer, layout, marks, bound, head, filter } = self;
        Ok(Run(Arc::new(Parts {
            buffer,
            layout,
            marks,
            lazy_marks: OnceLock::new(),
            filter: filter.map_or_else(OnceLock::new, OnceLock::from),
            joint_filter: OnceLock::new(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
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

/// Returns the layout of a run of at most `bound` entries.
pub(super) fn layout(cuda: &Cuda, bound: u64, marks: MarkStorage) -> Layout {
    let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
    Layout::new(bound, key_width, value_width, marks == MarkStorage::Inline)
}
