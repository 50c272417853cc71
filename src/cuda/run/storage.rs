//! The memory of a run: one buffer, or, for a long run, mapped memory for each part, which merges in place reuse.

use crate::cuda::context::{Cuda, EnteredCuda};
use crate::cuda::driver::gpu::Entered;
use crate::cuda::driver::mapped::{Mapped, OwnedBlock};
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::Stream;
use crate::cuda::ffi::Address;
use crate::cuda::run::layout::{Layout, PartBytes};
use crate::error::Error;
use crate::stats::Bytes;

/// The memory of a run.
pub(crate) struct Storage {
    /// How many bytes each part needs at most.
    pub bytes: PartBytes,
    memory: Memory,
}

enum Memory {
    Buffer(Buffer, Layout),
    Mapped(Box<MappedParts>),
}

/// Mapped memory for each part of a run that grows with it. What a merge in place reads to the end, or writes here and
/// there, is in a buffer: the head and the outer fences, which are few.
pub(crate) struct MappedParts {
    fixed: Buffer,
    pub sections: [Mapped; SECTIONS],
}

/// The parts that are mapped: keys, inner fences, values and marks.
pub(crate) const SECTIONS: usize = 4;

/// Where each part of a run is.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    pub head: Address,
    pub keys: Address,
    pub inner: Address,
    pub outer: Address,
    pub values: Address,
    /// 0 if there are none.
    pub marks: Address,
}

impl PartBytes {
    /// Returns the bytes of each part that is mapped.
    pub fn sections(&self) -> [u64; SECTIONS] {
        [self.keys, self.inner, self.values, self.marks]
    }
}

impl Storage {
    /// Allocates memory for parts of these bytes.
    pub fn new(cuda: &EnteredCuda<'_>, bytes: PartBytes) -> Result<Self, Error> {
        let layout = Layout::new(&bytes);
        let policy = cuda.gpu().mapping();
        if !policy.maps(layout.end, cuda.budget()) {
            return Ok(Storage { bytes, memory: Memory::Buffer(cuda.alloc(layout.end)?, layout) });
        }
        let map = |bytes: u64| {
            let blocks = (0..bytes.div_ceil(policy.block_bytes))
                .map(|_| OwnedBlock::create(&cuda.account, cuda.gpu(), cuda.entered()))
                .collect::<Result<Vec<_>, _>>()?;
            Mapped::new(blocks, &cuda.account, &cuda.stream)
        };
        let [keys, inner, values, marks] = bytes.sections().map(map);
        Self::mapped(cuda, bytes, [keys?, inner?, values?, marks?])
    }

    /// Returns how many bytes parts of these bytes take.
    pub fn bytes_for(cuda: &Cuda, bytes: &PartBytes) -> u64 {
        let (end, policy) = (Layout::new(bytes).end, cuda.gpu().mapping());
        match policy.maps(end, cuda.budget()) {
            true => {
                let rounded = |bytes: u64| bytes.next_multiple_of(policy.block_bytes);
                fixed_bytes(bytes) + bytes.sections().map(rounded).iter().sum::<u64>()
            }
            false => end,
        }
    }

    /// Makes a run's memory of mapped parts.
    pub fn mapped(
        cuda: &EnteredCuda<'_>,
        bytes: PartBytes,
        sections: [Mapped; SECTIONS],
    ) -> Result<Self, Error> {
        let fixed = cuda.alloc(fixed_bytes(&bytes))?;
        Ok(Storage { bytes, memory: Memory::Mapped(Box::new(MappedParts { fixed, sections })) })
    }

    /// Returns where each part is.
    pub fn addresses(&self) -> Addresses {
        let has_marks = self.bytes.marks > 0;
        match &self.memory {
            Memory::Buffer(buffer, layout) => {
                let at = |offset: u64| buffer.address() + offset;
                Addresses {
                    head: at(0),
                    keys: at(layout.keys),
                    inner: at(layout.inner),
                    outer: at(layout.outer),
                    values: at(layout.values),
                    marks: if has_marks { at(layout.marks) } else { 0 },
                }
            }
            Memory::Mapped(parts) => {
                let MappedParts { fixed, sections: [keys, inner, values, marks] } = &**parts;
                Addresses {
                    head: fixed.address(),
                    outer: fixed.address() + OUTER,
                    keys: keys.address(),
                    inner: inner.address(),
                    values: values.address(),
                    marks: marks.address(),
                }
            }
        }
    }

    /// Returns how many bytes are allocated.
    pub fn allocated(&self) -> u64 {
        match &self.memory {
            Memory::Buffer(_, layout) => layout.end,
            Memory::Mapped(parts) => {
                parts.fixed.bytes() + parts.sections.iter().map(Mapped::bytes).sum::<u64>()
            }
        }
    }

    /// Returns the bytes of each part, without those of filters.
    pub fn stats(&self) -> Bytes {
        let [keys, inner, values, marks] = match &self.memory {
            Memory::Buffer(_, Layout { keys, inner, values, marks, end, .. }) => {
                [inner - keys, values - inner + keys, marks - values, end - marks]
            }
            Memory::Mapped(parts) => parts.sections.each_ref().map(Mapped::bytes),
        };
        let fixed = self.mapped_parts().map_or(0, |parts| parts.fixed.bytes());
        Bytes { keys, values, marks, fences: inner + fixed, filters: 0 }
    }

    /// Returns the buffer that all parts are in, with their offsets, unless they are mapped.
    pub(super) fn buffer(&self) -> Option<(&Buffer, &Layout)> {
        match &self.memory {
            Memory::Buffer(buffer, layout) => Some((buffer, layout)),
            Memory::Mapped(_) => None,
        }
    }

    pub fn mapped_parts(&self) -> Option<&MappedParts> {
        match &self.memory {
            Memory::Buffer(..) => None,
            Memory::Mapped(parts) => Some(parts),
        }
    }

    pub fn mapped_parts_mut(&mut self) -> Option<&mut MappedParts> {
        match &mut self.memory {
            Memory::Buffer(..) => None,
            Memory::Mapped(parts) => Some(parts),
        }
    }

    /// Frees mapped memory behind parts of these bytes, which nothing uses any more.
    pub fn truncate(&self, bytes: &PartBytes, entered: &Entered) {
        if let Some(parts) = self.mapped_parts() {
            for (section, bytes) in parts.sections.iter().zip(bytes.sections()) {
                section.truncate(bytes, entered);
            }
        }
    }

    /// Moves it to another stream, which has waited for its own.
    pub fn outlive(&mut self, stream: &Stream) {
        match &mut self.memory {
            Memory::Buffer(buffer, _) => buffer.outlive(stream),
            Memory::Mapped(parts) => {
                parts.fixed.outlive(stream);
                parts.sections.iter_mut().for_each(|section| section.outlive(stream));
            }
        }
    }
}

/// Where the outer fences begin in the fixed part.
const OUTER: u64 = 256;

fn fixed_bytes(bytes: &PartBytes) -> u64 {
    OUTER + bytes.outer
}
