//! When a batch is sorted by splitters, and how.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crate::cuda::ffi;
use crate::cuda::update::batch::BatchPart;

/// When a part of a batch is sorted by splitters, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// From this many updates on, up to as many as the kernels sort.
    pub min_len: u64,
    /// The most keys of a bucket that are sorted at a time; 0 for as many as there is room for.
    pub max_window: u32,
}

/// Shorter batches are sorted in tiles.
pub(super) const MIN_LEN: u64 = (1 << 17) + 1;

const USUAL: Policy = Policy { min_len: MIN_LEN, max_window: 0 };

/// Returns whether a part, which is not sorted, is sorted by splitters. (Where values combine, those of all equal keys
/// count, not the last one's.)
pub(super) fn are_used_for(part: &BatchPart) -> bool {
    // SAFETY: no pointers.
    let most = unsafe { ffi::gpulsm_splitter_sort_most(part.key_width) };
    !part.combines() && (policy().min_len..=most).contains(&part.len)
}

/// Returns the number that the sample of a batch, which splitters come from, depends on. It differs from process to
/// process: no keys can be chosen such that the sample misses them.
pub(super) fn salt() -> u32 {
    static SALT: OnceLock<u32> = OnceLock::new();
    *SALT.get_or_init(|| RandomState::new().hash_one(0) as u32)
}

#[cfg(not(feature = "testing"))]
pub(super) fn policy() -> Policy {
    USUAL
}

#[cfg(feature = "testing")]
pub(super) use chosen::policy;

#[cfg(feature = "testing")]
pub use chosen::sort_by_splitters;

/// Lets tests choose.
#[cfg(feature = "testing")]
mod chosen {
    use std::cell::Cell;
    use std::sync::OnceLock;

    use super::{Policy, USUAL};

    thread_local! {
        static CHOSEN: Cell<Option<Policy>> = const { Cell::new(None) };
    }

    /// Has the batches of the calling thread sorted by splitters if there are as many updates or more, at most this many
    /// keys of a bucket at a time. Without this, the environment variable `GPULSM_SPLITTERS` chooses: `1:64` for all
    /// batches and 64 keys, `1` for all batches and as many keys as there is room for.
    pub fn sort_by_splitters(min_len: u64, max_window: u32) {
        CHOSEN.set(Some(Policy { min_len: min_len.max(1), max_window }));
    }

    pub(in super::super) fn policy() -> Policy {
        static ENVIRONMENT: OnceLock<Policy> = OnceLock::new();
        let environment = || {
            let text = std::env::var("GPULSM_SPLITTERS").unwrap_or_default();
            parse(&text).unwrap_or_else(|| {
                panic!("GPULSM_SPLITTERS is {text:?}: set it to 1 or 1:64, for example")
            })
        };
        CHOSEN.get().unwrap_or_else(|| *ENVIRONMENT.get_or_init(environment))
    }

    fn parse(text: &str) -> Option<Policy> {
        if text.is_empty() {
            return Some(USUAL);
        }
        let (min_len, max_window) = text.split_once(':').unwrap_or((text, "0"));
        let (min_len, max_window) = (min_len.parse().ok()?, max_window.parse().ok()?);
        (min_len > 0).then_some(Policy { min_len, max_window })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_environment_may_choose_splitters() {
            assert_eq!(parse(""), Some(USUAL));
            assert_eq!(parse("1"), Some(Policy { min_len: 1, max_window: 0 }));
            assert_eq!(parse("300:64"), Some(Policy { min_len: 300, max_window: 64 }));
            for wrong in ["on", "0", "1:", "1:x", ":64", "-1"] {
                assert_eq!(parse(wrong), None, "{wrong}");
            }
        }
    }
}
