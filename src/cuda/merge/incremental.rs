//! Merging runs in slices: so many tiles at a time.

use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::{self, Filters, RunOutput, ShadowQueries, Sources, View, check};
use crate::cuda::run::resolve::find_all;
use crate::cuda::run::{Marks, Run, Unwritten};
use crate::cuda::update::absorb::{marks, merge_scratch};
use crate::engine::MergeProgress;
use crate::error::Error;

/// A merge of runs that has come so far.
pub(crate) struct Merge {
    run: Unwritten,
    scratch: Buffer,
    /// The runs as they were at first: whether they lacked marks is not to change on the way.
    sources: Box<Sources>,
    /// At most so many entries…
    bound: u64,
    /// …in so many tiles, of which some are done.
    tiles: u64,
    done: u64,
    /// Dropped last: they keep what the memory is given back to.
    runs: Vec<Run>,
}

impl Merge {
    /// With nothing merged yet.
    pub fn new(cuda: &Cuda, runs: &[Run], older: &[Run]) -> Result<Self, Error> {
        cuda.stream.refuse_capture()?;
        let _entered = cuda.gpu().enter()?;
        let marks = marks(0, false, runs, older);
        if marks == Marks::Within {
            let all: Vec<Run> = runs.iter().chain(older).cloned().collect();
            find_all(cuda, &all)?;
        }
        let mut sources = Box::new(Sources::new());
        runs.iter().for_each(|run| sources.push(run.source()));
        let bound = runs.iter().map(Run::bound).sum::<u64>().max(1);
        let room = merge_scratch(cuda, sources.count, bound);
        Ok(Merge {
            runs: runs.to_vec(),
            bound,
            // SAFETY: no pointers.
            tiles: unsafe {
                let (key_width, value_width) = (cuda.key_width, cuda.value_width);
                ffi::gpulsm_merge_tiles(key_width, value_width, sources.count, bound)
            },
            done: 0,
            scratch: Buffer::counted(room, cuda)?,
            run: Unwritten::new(cuda, bound, marks)?,
            sources,
        })
    }

    /// Merges about so many entries more. Nothing is waited for.
    pub fn advance(
        mut self,
        cuda: &Cuda,
        entries: usize,
    ) -> Result<MergeProgress<Self, Run>, Error> {
        cuda.stream.refuse_capture()?;
        let _entered = cuda.gpu().enter()?;
        let share = u128::from(self.tiles) * entries as u128 / u128::from(self.bound);
        let tiles = u64::try_from(share).unwrap_or(u64::MAX).clamp(1, self.tiles - self.done);
        let reading = cuda.read(self.runs.iter())?;
        let is_last = self.done + tiles == self.tiles;
        let Merge { run, scratch, sources, bound, done, .. } = &mut self;
        let launch = |out: &RunOutput| {
            // SAFETY: the sources are alive, have at most `bound` entries, and are written before what this
            // stream does now; the output has room for all of them; the same stream has merged the tiles
            // before these, with the same to work in, of which there is as much as is asked for.
            check("merging runs", unsafe {
                ffi::gpulsm_merge(
                    cuda.key_width,
                    cuda.value_width,
                    &**sources,
                    *bound,
                    *done,
                    tiles,
                    &[ShadowQueries::default(); 2],
                    &View::new([].into_iter()),
                    &Filters::default(),
                    scratch.address(),
                    out,
                    cuda.stream.raw(),
                )
            })
        };
        // The last tile's figures are the run's.
        match is_last {
            true => run.write(&cuda.stream, launch)?,
            false => launch(&run.output())?,
        }
        self.done += tiles;
        reading.end()?;
        if self.done < self.tiles {
            return Ok(MergeProgress::Partial(self));
        }
        let least_sum = self.runs.iter().map(Run::least_sum).sum();
        self.run.written(cuda, least_sum).map(|run| MergeProgress::Done(Some(run)))
    }

    /// Returns whether these are the runs that it merges.
    pub fn merges(&self, runs: &[Run]) -> bool {
        self.runs.iter().map(Run::id).eq(runs.iter().map(Run::id))
    }
}
