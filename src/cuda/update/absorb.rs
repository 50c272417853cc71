//! Applying a batch: sort it and remove duplicates, find shadows where they are needed now, and merge it
//! with the carried runs, all on the stream; nothing is waited for.

use std::sync::atomic::Ordering;

use crate::batch::Order;
use crate::cuda::context::EnteredCuda;
use crate::cuda::ffi::{
    Combiner, CutBy, Filters, MAX_PARTS, RunOutput, ShadowQueries, Sources, View,
};
use crate::cuda::merge::{self, ALL_TILES, MergeInput, OlderRuns, output_marks};
use crate::cuda::run::filter_policy::run_filters;
use crate::cuda::run::reading::Reading;
use crate::cuda::run::resolve::compute_missing;
use crate::cuda::run::unwritten::Unwritten;
use crate::cuda::run::{MarkStorage, Run, live_keys};
use crate::cuda::update::batch::Batch;
use crate::cuda::update::buffer::WriteBuffer;
use crate::cuda::update::plan::{Plan, Shadows};
use crate::cuda::update::scratch::{Scratch, ScratchLayout};
use crate::cuda::update::sort::MAX_TILED;
use crate::error::Error;

/// Batches up to this length are short: they use filters to find their shadows, and find them at once if
/// the next query will need them.
const MAX_SHORT: u64 = MAX_TILED;

/// For the searches of short batches, a run gets a filter after one for every eight entries (see
/// `run/filter_policy.rs`): they wait longer for each search than lookups do.
const ENTRIES_PER_SEARCH: u64 = 8;

/// The merge of a short batch of more updates than this that looks for shadows also writes a filter: the
/// next batch will need it. (Fewer searches are hidden behind other work before the merge.)
const MAX_UNFILTERED: u64 = 1 << 14;

/// Merges the batch and the carried runs into one run on top of the older ones.
pub(crate) fn absorb(
    cuda: &EnteredCuda<'_>,
    batch: &Batch,
    carried: &[Run],
    older: &[Run],
) -> Result<Option<Run>, Error> {
    cuda.refuse_capture()?;
    if batch.can_be_numbered() {
        // One sort of inserts and deletes costs half of what two do.
        let mut buffer = WriteBuffer::default();
        buffer.append(cuda, batch)?;
        return absorb(cuda, &buffer.batch(), carried, older);
    }
    let is_wanted = cuda.shared.wants_marks.swap(false, Ordering::Relaxed);
    let is_short = batch.len() <= MAX_SHORT;
    let marks = output_marks(!batch.only_adds(), is_wanted && is_short, carried, older);
    let finds_shadows = marks == MarkStorage::Inline;
    if finds_shadows {
        let runs: Vec<Run> = carried.iter().chain(older).cloned().collect();
        compute_missing(cuda, &runs)?;
    }
    // Bounds shrink when heads arrive: what is known later fits into what was known before.
    let entries = batch.len() + carried.iter().map(Run::bound).sum::<u64>();
    let bound = output_bound(cuda, batch, carried, older)?;
    if bound == 0 {
        return Ok(None);
    }
    let least_sum = carried.iter().map(Run::least_sum).sum::<i64>() - batch.deletes.cast_signed();
    let mut layout = ScratchLayout::default();
    let shadows = match finds_shadows {
        false => Shadows::Unneeded,
        // Where nothing is carried, keys that are live are live in the older runs.
        true if batch.order == Order::LiveDeletes && carried.is_empty() => Shadows::All,
        true => Shadows::Searched,
    };
    let mut plan = Plan::new(cuda, batch, carried, older, entries, shadows, &mut layout);
    let scratch = layout.allocate(cuda)?;
    let mut run = Unwritten::new(cuda, bound, marks)?;
    if finds_shadows && is_short && batch.len() > MAX_UNFILTERED {
        run = run.with_filter(cuda);
    }
    for part in &mut plan.parts {
        part.sort_whole(cuda, &scratch, &run.output())?;
    }
    let reading = Reading::begin(cuda, carried.iter().chain(older))?;
    let searched = if shadows == Shadows::Searched { older } else { &[] };
    let searched = searched_runs(cuda, batch, searched)?;
    run.write(cuda, |output| write(cuda, &plan, &scratch, carried, &searched, output))?;
    reading.end()?;
    run.written(cuda, least_sum).map(Some)
}

/// Returns an upper bound of the number of entries of the new run.
fn output_bound(
    cuda: &EnteredCuda<'_>,
    batch: &Batch,
    carried: &[Run],
    older: &[Run],
) -> Result<u64, Error> {
    if batch.len() == 0 && older.is_empty() {
        // A cleanup leaves only live entries. It waits to know how many, and allocates just that.
        compute_missing(cuda, carried)?;
        return live_keys(carried, cuda.entered());
    }
    // The oldest run has no tombstones.
    let deletes = if older.is_empty() { 0 } else { batch.deletes };
    Ok(batch.inserts + deletes + carried.iter().map(Run::bound).sum::<u64>())
}

/// Returns the runs that the shadows of a batch are looked for in.
fn searched_runs(cuda: &EnteredCuda<'_>, batch: &Batch, runs: &[Run]) -> Result<OlderRuns, Error> {
    let filters = match batch.len() {
        len @ ..=MAX_SHORT => run_filters(cuda, runs, len, ENTRIES_PER_SEARCH)?,
        _ => Filters::default(), // Many sorted keys are found as fast without.
    };
    Ok(OlderRuns { view: View::new(runs.iter().map(Run::view), Combiner::NONE), filters })
}

/// Writes the new run: a batch by itself, or one merge of all parts and the carried runs. Shadows are looked
/// for in the older runs only: where a carried run has the key too, the merge takes the shadow of the oldest
/// entry, which says the same.
fn write(
    cuda: &EnteredCuda<'_>,
    plan: &Plan,
    scratch: &Scratch,
    carried: &[Run],
    older: &OlderRuns,
    output: &RunOutput,
) -> Result<(), Error> {
    let Some(merge) = &plan.merge else {
        return plan.parts[0].launch_into(cuda, scratch, output);
    };
    let merge_scratch = scratch.address(merge.scratch);
    let is_tiled = matches!(&plan.parts[..], [part] if part.is_tiled());
    // (Shadows are looked for only where there are marks.)
    let chain = match is_tiled {
        true => merge.size.chain_to_zero(cuda, merge_scratch, output.marks != 0),
        false => None,
    };
    let mut sources = Sources::new();
    let mut shadows = [ShadowQueries::default(); MAX_PARTS];
    for (part, queries) in plan.parts.iter().zip(&mut shadows) {
        let source = part.launch(cuda, scratch, chain)?;
        let len = if part.is_tiled() {
            sources.push_tiles(source, part.sources());
            0
        } else {
            sources.push(source);
            source.len
        };
        if part.searches_shadows() {
            let bound = part.part.len;
            *queries = ShadowQueries { keys: source.keys, len, bound, shadows: source.shadows };
        }
    }
    carried.iter().for_each(|run| sources.push(run.source()));
    let input = MergeInput {
        size: merge.size,
        sources: &sources,
        shadows: &shadows,
        older,
        combiner: cuda.raw_combiner(),
        cut_by: if chain.is_some() { CutBy::Tiles } else { CutBy::Kernel },
    };
    merge::launch(cuda, &input, ALL_TILES, merge_scratch, output)
}
