//! Who holds runs of a dictionary besides itself: counted, so that errors can name them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What may hold runs of a dictionary besides itself. While anything holds them, they can't be merged in the memory
/// that they have. Shown as text, it is a list: `2 snapshots and 1 view`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holders {
    /// Snapshots of the dictionary or of its clones.
    pub snapshots: usize,
    /// Clones of the dictionary, and dictionaries made of its snapshots.
    pub clones: usize,
    /// Iterators over pairs.
    pub iterators: usize,
    /// Views for users' own kernels.
    pub views: usize,
    /// States that CUDA graphs were captured of. They are held for as long as what was queried lives.
    pub graphs: usize,
    /// Checkpoints that are being written.
    pub checkpoints: usize,
}

impl Holders {
    /// Returns whether nothing else holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Holders::default()
    }

    /// Returns how many there are of each kind, and its name, for one of them and for several.
    fn kinds(&self) -> [(usize, &'static str, &'static str); 6] {
        [
            (self.snapshots, "snapshot", "snapshots"),
            (self.clones, "clone", "clones"),
            (self.iterators, "iterator", "iterators"),
            (self.views, "view", "views"),
            (self.graphs, "graph", "graphs"),
            (self.checkpoints, "checkpoint", "checkpoints"),
        ]
    }

    /// Returns how to get rid of them.
    pub(crate) fn release(&self) -> String {
        let mut steps = Vec::new();
        let dropped = Holders { graphs: 0, checkpoints: 0, ..*self };
        if !dropped.is_empty() {
            let kinds = dropped.kinds().into_iter().filter(|&(count, ..)| count > 0);
            let names = kinds.map(|(count, one, many)| if count == 1 { one } else { many });
            steps.push(format!("drop the {}", listed(names.map(str::to_string).collect())));
        }
        if self.graphs > 0 {
            steps.push("drop what graphs were captured of".into());
        }
        if self.checkpoints > 0 {
            steps.push("update in smaller batches, which are logged".into());
        }
        steps.join(", or ")
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds().into_iter().filter(|&(count, ..)| count > 0);
        let counted = kinds
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
        f.write_str(&listed(counted.collect()))
    }
}

/// Joins items: `a, b and c`.
fn listed(items: Vec<String>) -> String {
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => items.concat(),
    }
}

/// A kind of holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderKind {
    /// A dictionary: the first one, or a clone.
    Dictionary,
    /// A snapshot.
    Snapshot,
    /// An iterator.
    Iterator,
    /// A view for users' own kernels.
    View,
    /// A state that a CUDA graph was captured of.
    Graph,
    /// A checkpoint that is being written.
    Checkpoint,
}

/// Counts one holder for as long as it lives, among all that may share runs: a dictionary, its clones, their
/// snapshots and so on.
pub(crate) struct Hold {
    kind: HolderKind,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    dictionaries: AtomicUsize,
    snapshots: AtomicUsize,
    iterators: AtomicUsize,
    views: AtomicUsize,
    graphs: AtomicUsize,
    checkpoints: AtomicUsize,
}

impl Counts {
    fn of(&self, kind: HolderKind) -> &AtomicUsize {
        match kind {
            HolderKind::Dictionary => &self.dictionaries,
            HolderKind::Snapshot => &self.snapshots,
            HolderKind::Iterator => &self.iterators,
            HolderKind::View => &self.views,
            HolderKind::Graph => &self.graphs,
            HolderKind::Checkpoint => &self.checkpoints,
        }
    }
}

impl Hold {
    /// Counts a new dictionary, which shares nothing with others.
    pub fn of_dictionary() -> Self {
        Self::new(HolderKind::Dictionary, Arc::default())
    }

    /// Counts another holder of what this one holds.
    pub fn share(&self, kind: HolderKind) -> Self {
        Self::new(kind, self.counts.clone())
    }

    fn new(kind: HolderKind, counts: Arc<Counts>) -> Self {
        counts.of(kind).fetch_add(1, Ordering::Relaxed);
        Hold { kind, counts }
    }

    /// Returns what there is besides the dictionary and this holder.
    pub fn others(&self) -> Holders {
        let count = |kind| self.counts.of(kind).load(Ordering::Relaxed);
        let others = |kind| count(kind) - usize::from(self.kind == kind);
        Holders {
            snapshots: others(HolderKind::Snapshot),
            clones: count(HolderKind::Dictionary).saturating_sub(1),
            iterators: others(HolderKind::Iterator),
            views: count(HolderKind::View),
            graphs: count(HolderKind::Graph),
            // Also the one that is part of an update: the dictionary holds its runs meanwhile.
            checkpoints: count(HolderKind::Checkpoint),
        }
    }
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        self.share(self.kind)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.counts.of(self.kind).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_counted_while_they_live() {
        let dictionary = Hold::of_dictionary();
        assert!(dictionary.others().is_empty());
        let snapshots = [(); 3].map(|()| dictionary.share(HolderKind::Snapshot));
        let (clone, iterator) = (dictionary.clone(), snapshots[0].share(HolderKind::Iterator));
        let expected = Holders { snapshots: 3, clones: 1, iterators: 1, ..Holders::default() };
        assert_eq!(dictionary.others(), expected);
        assert_eq!(snapshots[0].others(), Holders { snapshots: 2, ..expected });
        assert_eq!(expected.to_string(), "3 snapshots, 1 clone and 1 iterator");
        assert_eq!(expected.release(), "drop the snapshots, clone and iterator");
        drop((snapshots, clone));
        assert_eq!(dictionary.others().to_string(), "1 iterator");
        drop(iterator);
        assert!(dictionary.others().is_empty());
    }

    #[test]
    fn what_to_do_depends_on_who_holds_runs() {
        let graphs = Holders { graphs: 2, views: 1, ..Holders::default() };
        assert_eq!(graphs.to_string(), "1 view and 2 graphs");
        assert_eq!(graphs.release(), "drop the view, or drop what graphs were captured of");
        let checkpoint = Holders { checkpoints: 1, ..Holders::default() };
        assert_eq!(checkpoint.release(), "update in smaller batches, which are logged");
    }
}
