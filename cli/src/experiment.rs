//! The experiments: declared once, measured by `bench`, told by `report`.

use clap::ValueEnum;

/// What can be measured, in the order of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Table II: the rate of every batch on the way to n, all batch sizes; a sorted array beside it
    Insert,
    /// Fig. 4a: the time of every batch
    InsertTime,
    /// Streams of calls without waiting in between: inserts, deletes, with counts between, one long call
    Stream,
    /// Every batch by itself: keys of many shapes, a window that slides, calls for single keys
    Flushed,
    /// Fig. 4b: the effective rate against n
    Effective,
    /// Section IV-A: batches that are not full
    Partial,
    /// Building from pairs in any order; a sort and a hash table beside it
    Build,
    /// Table III: lookups of keys that all exist, or none; a sorted array and a hash table beside it
    Lookup,
    /// Table IV: counts of ranges of 8 and of 1,024
    Count,
    /// Table IV: the pairs of such ranges
    Range,
    /// Sums of the values of such ranges, beside listing their pairs; in one run and in eight
    Aggregate,
    /// Inserts that add to values beside those that replace them, and lookups in both kinds of dictionary
    Combine,
    /// Successors, ranks, selections
    Order,
    /// Section V-B: deletes, and mixed batches; ranges of keys that are deleted
    Delete,
    /// Ranges, scans and successors across areas of deleted keys, beside areas without deletions
    Dead,
    /// Section V-D: cleanup, against rebuilding, and lookups before and after
    Cleanup,
    /// A steady state of updates and queries, with memory, over time
    Mixed,
    /// Sorted, reversed, dense, narrow-band, Zipf and equal keys beside random ones
    Skew,
    /// Bytes per live pair after different histories
    Memory,
    /// Dictionaries in files beside plain files, and logged updates beside updates in memory
    Files,
    /// Dictionaries divided among several shards of one device, beside one without shards
    Shards,
    /// All of a GPU's memory, or of a memory limit: how many pairs fit, and what works when it is nearly full. Only
    /// measured if it is named, with --key u64 --value u64
    Full,
}

impl Experiment {
    /// Returns all experiments, in order.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns whether it is measured only if it is named: it takes all the memory that there is.
    pub fn must_be_named(self) -> bool {
        self == Experiment::Full
    }

    /// Returns the name on the command line, in rows and in gates.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Insert => "insert",
            Experiment::InsertTime => "insert-time",
            Experiment::Stream => "stream",
            Experiment::Flushed => "flushed",
            Experiment::Effective => "effective",
            Experiment::Partial => "partial",
            Experiment::Build => "build",
            Experiment::Lookup => "lookup",
            Experiment::Count => "count",
            Experiment::Range => "range",
            Experiment::Aggregate => "aggregate",
            Experiment::Combine => "combine",
            Experiment::Order => "order",
            Experiment::Delete => "delete",
            Experiment::Dead => "dead",
            Experiment::Cleanup => "cleanup",
            Experiment::Mixed => "mixed",
            Experiment::Skew => "skew",
            Experiment::Memory => "memory",
            Experiment::Files => "files",
            Experiment::Shards => "shards",
            Experiment::Full => "full",
        }
    }
}

/// What labels in the names of measurements mean, where they don't say it themselves.
const DEAD: &[(&str, &str)] = &[
    ("deadN", "2^N neighbouring keys were deleted; their entries and tombstones are still there"),
    ("op-one", "one range of 8 pairs in a call, across the deleted keys"),
    ("op-short", "many such ranges in a call"),
    ("op-long", "ranges of 1,024 pairs"),
    ("op-empty", "ranges without any pair"),
    ("op-scan", "a range over everything, counted by its pairs"),
    ("op-successor", "successors of deleted keys"),
    ("alive", "the same queries where those keys were replaced, not deleted: what deletions cost"),
];
const DELETE: &[(&str, &str)] = &[
    ("deletesN", "N percent of every batch deletes, and the rest inserts"),
    ("shareN", "N percent of all keys, which are neighbours"),
    ("range", "they are deleted as one range"),
    ("list", "they are deleted by a list of them"),
    ("inserts", "as many new keys are inserted"),
    (
        "window-",
        "a window over ascending keys slides a hundred times: the next ones are inserted, and the lowest go as a range",
    ),
];
const FLUSHED: &[(&str, &str)] = &[
    ("op-insert", "2^n inserts in batches of 2^b, each applied before the next"),
    (
        "op-window",
        "2^n keys are replaced batch by batch: one is inserted and the oldest deleted, and waited for",
    ),
    ("op-lookup-one", "calls that look up one key, from the host's memory"),
    ("op-insert-lookup-one", "the same, each after a call that inserts one pair"),
    ("keys-presorted", "each batch is sorted, but batches are not in order"),
    ("keys-few", "64 different keys"),
    ("keys-composite", "pairs of one of 64 symbols and a number of 20 bits"),
    ("keys-40-bit", "random numbers of 40 bits (of 20, if keys have 32)"),
    ("keys-times", "times that grow, but neighbours are out of order"),
    ("keys-ends", "in turns close to the least and to the greatest key"),
];
const AGGREGATE: &[(&str, &str)] = &[
    ("runsN", "all pairs in one run, or in 8: the first 8 levels are full"),
    (
        "stale-half",
        "almost every key is in two runs, so that values cannot be added without merging them",
    ),
    ("list", "the pairs of the same ranges are listed"),
];
const COMBINE: &[(&str, &str)] = &[
    ("op-stream", "2^n inserts in batches of 2^b"),
    ("op-batch", "2^n inserts in one batch"),
    ("keys-tenfold", "each key of a batch is in it ten times"),
    ("keys-equal", "all inserts are of one key"),
    ("runsN", "all pairs in one run, or in 8: the first 8 levels are full"),
    ("replace", "the same in a dictionary that replaces values"),
];
const FILES: &[(&str, &str)] = &[
    ("op-save", "everything is written into one file and synced"),
    ("op-load", "such a file is read, after the system has dropped it from its cache"),
    ("op-open", "a folder with one run is opened, likewise"),
    ("op-replay", "a folder whose log holds everything, in batches of 2^b, is opened"),
    ("op-update-os", "inserts in batches of 2^b, each handed to the system when it returns"),
    ("op-update-batch", "inserts in batches of 2^b, each on stable storage when it returns"),
    ("plain", "as many bytes are written, appended batch by batch, or read, and nothing else"),
    ("memory", "the same inserts into a dictionary in memory"),
    ("copy", "as many bytes are copied from where the dictionary is to fresh memory of the host"),
];
const SHARDS: &[(&str, &str)] = &[
    ("op-update", "inserts in 8 batches of 2^b"),
    ("op-lookup", "lookups of 2^b keys that exist"),
    ("shardsN", "N shards of the same device; on a CPU they share its threads"),
    ("one", "a dictionary without shards"),
];
const FULL: &[(&str, &str)] = &[
    ("op-held", "the memory for each pair that is held when the first insert fails"),
    (
        "op-update",
        "inserts in batches of 2^b, the mean of all batches while as many per cent are full",
    ),
    ("op-lookup", "lookups of keys that exist, drawn at random"),
    ("op-cleanup", "a cleanup when half of the entries are stale; the rate is that of all entries"),
    ("op-merge", "the memory for each pair that a merge of a quarter of the memory takes besides"),
    ("limitN", "under a memory limit of N, on a CPU"),
    ("fillN", "N per cent of the memory are taken by pairs"),
    (
        "run1/N",
        "all pairs are in one run of a power of two of bytes, at most that part of the memory",
    ),
];
const BASELINES: &[(&str, &str)] =
    &[("sa", "a sorted array"), ("hash", "a hash table"), ("sort", "a sort alone")];

impl Experiment {
    /// Returns labels in the names of its measurements, and what they mean.
    pub fn labels(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Experiment::Delete => DELETE,
            Experiment::Dead => DEAD,
            Experiment::Aggregate => AGGREGATE,
            Experiment::Flushed => FLUSHED,
            Experiment::Combine => COMBINE,
            Experiment::Files => FILES,
            Experiment::Shards => SHARDS,
            Experiment::Full => FULL,
            Experiment::Insert | Experiment::Effective => &BASELINES[..1],
            Experiment::Count | Experiment::Range => &BASELINES[..1],
            Experiment::Lookup => &BASELINES[..2],
            Experiment::Build => &BASELINES[1..],
            _ => &[],
        }
    }

    /// Returns what is measured, in a line.
    pub fn about(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_help().map(ToString::to_string).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_the_same_names() {
        for experiment in Experiment::all() {
            let value = experiment.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), experiment.name());
        }
    }
}
