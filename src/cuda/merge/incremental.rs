//! An incremental merge: some tiles at a time. The kernels' scratch, which chains tiles to those before
//! them, stays in place in between.

use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{CutBy, MAX_PARTS, RunOutput, ShadowQueries, Sources};
use crate::cuda::merge::{MergeInput, MergeSize, OlderRuns, launch, marks_of_merge, sources_of};
use crate::cuda::run::Run;
use crate::cuda::run::reading::Reading;
use crate::cuda::run::unwritten::Unwritten;
use crate::engine::MergeProgress;
use crate::error::Error;

/// A merge of runs that is under way.
pub(crate) struct Merge {
    run: Unwritten,
    scratch: Buffer,
    /// The runs as they were at the start: whether they lack marks must not change on the way.
    sources: Box<Sources>,
    size: MergeSize,
    /// The number of tiles…
    tiles: u64,
    /// …and how many of them are merged.
    merged: u64,
    /// Dropped last: they keep alive what the memory above is freed to.
    runs: Vec<Run>,
}

impl Merge {
    /// Starts one, with nothing merged yet.
    pub fn new(cuda: &EnteredCuda<'_>, runs: &[Run], older: &[Run]) -> Result<Self, Error> {
        cuda.refuse_capture()?;
        let marks = marks_of_merge(cuda, runs, older)?;
        let (sources, size) = (sources_of(runs), MergeSize::of(runs));
        Ok(Merge {
            runs: runs.to_vec(),
            size,
            tiles: size.tiles(cuda),
            merged: 0,
            scratch: cuda.alloc(size.scratch_bytes(cuda))?,
            run: Unwritten::new(cuda, size.bound, marks)?,
            sources,
        })
    }

    /// Merges about this many entries more. Nothing is waited for.
    pub fn advance(
        mut self,
        cuda: &EnteredCuda<'_>,
        entries: usize,
    ) -> Result<MergeProgress<Self, Run>, Error> {
        cuda.refuse_capture()?;
        let share = u128::from(self.tiles) * entries as u128 / u128::from(self.size.bound);
        let count = u64::try_from(share).unwrap_or(u64::MAX).clamp(1, self.tiles - self.merged);
        let tiles = self.merged..self.merged + count;
        let is_last = tiles.end == self.tiles;
        let reading = Reading::begin(cuda, self.runs.iter())?;
        let Merge { run, scratch, sources, size, .. } = &mut self;
        let input = MergeInput {
            size: *size,
            sources,
            shadows: &[ShadowQueries::default(); MAX_PARTS],
            older: &OlderRuns::none(),
            combiner: cuda.raw_combiner(),
            cut_by: CutBy::Kernel,
        };
        let write = |out: &RunOutput| launch(cuda, &input, tiles.clone(), scratch.address(), out);
        // The last tile writes the head of the run.
        match is_last {
            true => run.write(cuda, write)?,
            false => write(&run.output())?,
        }
        self.merged = tiles.end;
        reading.end()?;
        if !is_last {
            return Ok(MergeProgress::Partial(self));
        }
        let least_sum = self.runs.iter().map(Run::least_sum).sum();
        let run = self.run.written(cuda, least_sum)?;
        Ok(MergeProgress::Done(Some(run.inherit_searches(&self.runs))))
    }

    /// Returns whether these are the runs that it merges.
    pub fn merges(&self, runs: &[Run]) -> bool {
        self.runs.iter().map(Run::id).eq(runs.iter().map(Run::id))
    }
}
