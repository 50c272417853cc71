//! Giving back the memory that a run does not need: behind mapped parts, or by copying it.

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::ffi::{Head, NODE};
use crate::cuda::run::layout::{Layout, mark_bytes};
use crate::cuda::run::unwritten::{Unwritten, part_bytes};
use crate::cuda::run::{MarkStorage, Run};
use crate::error::Error;

/// A run that needs less than its memory by at least this many bytes, and by this part of it, is copied.
const MIN_EXCESS: u64 = 1 << 16;
const MIN_EXCESS_PART: u64 = 8;

/// A run that has much more memory than it needs.
pub(crate) struct Oversized<'a> {
    run: &'a Run,
    head: Head,
    marks: MarkStorage,
}

impl<'a> Oversized<'a> {
    /// Returns the run if it has much more memory than it needs, as far as the host knows now.
    pub fn new(cuda: &Cuda, run: &'a Run) -> Option<Self> {
        // Other threads may be computing its marks: this looks for them only once.
        let deferred = run.0.lazy_marks.get();
        let head = deferred.map_or(&run.0.head, |later| &later.head).get()?;
        let marks = if deferred.is_some() { MarkStorage::Inline } else { run.0.marks };
        let needed = Layout::new(&part_bytes(cuda, head.len, marks)).end;
        let taken = run.0.storage.allocated() + deferred.map_or(0, |later| later.marks.bytes());
        let is_oversized = needed + MIN_EXCESS.max(taken / MIN_EXCESS_PART) <= taken;
        (head.len > 0 && is_oversized).then_some(Oversized { run, head, marks })
    }

    /// Frees the blocks behind its parts, if they are mapped; returns whether they are. Kernels write and read nothing
    /// behind the entries that are left.
    pub fn truncate(&self, cuda: &EnteredCuda<'_>) -> bool {
        let Oversized { run, head, .. } = self;
        let bytes = part_bytes(cuda, head.len, run.0.marks);
        run.0.storage.truncate(&bytes, cuda.entered());
        run.0.storage.mapped_parts().is_some()
    }

    /// Copies it, on the stream that wrote it, into as much memory as it needs.
    pub fn copy(self, cuda: &EnteredCuda<'_>) -> Result<Run, Error> {
        cuda.refuse_capture()?;
        let Oversized { run, head, marks } = self;
        let copy = Unwritten::new(cuda, head.len, marks)?;
        copy.head.set(head);
        let (key_width, value_width) = (cuda.key_width as u64, cuda.value_width as u64);
        let from = run.view();
        let Some((buffer, to)) = copy.storage.buffer() else {
            // It would be mapped now, and stays as it is.
            return Err(Error::OutOfMemory {
                wanted: copy.storage.allocated(),
                free: None,
                memory: None,
            });
        };
        let nodes = head.len.div_ceil(NODE);
        for (offset, from, bytes) in [
            (0, from.head, size_of::<Head>() as u64),
            (to.keys, from.keys, nodes * NODE * key_width),
            (to.inner, from.inner, nodes.next_multiple_of(NODE) * key_width),
            (to.outer, from.outer, nodes.div_ceil(NODE) * key_width),
            (to.values, from.values, head.len * value_width),
            (
                to.marks,
                from.marks,
                if copy.storage.bytes.marks > 0 { mark_bytes(head.len) } else { 0 },
            ),
        ] {
            buffer.copy(offset, from, bytes, cuda.entered())?;
        }
        copy.written(cuda, run.0.least_sum)
    }
}
