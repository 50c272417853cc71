//! When lookups order their keys by buckets, and how.

/// When keys are ordered by buckets, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// From this many keys on…
    pub min_keys: u64,
    /// …in a dictionary of at least this many bytes of keys and values.
    pub min_bytes: u64,
    /// There are two to the power of this many buckets.
    pub bits: u32,
    /// The most keys that are ordered at a time, which bounds the memory.
    pub max_part: u64,
}

const USUAL: Policy =
    Policy { min_keys: 1 << 20, min_bytes: (2 << 30) + 1, bits: 8, max_part: 1 << 24 };

/// From as many keys on, more buckets are worth what it takes to order by them.
const MANY_KEYS: u64 = 1 << 23;
const MANY_BITS: u32 = 10;

/// Returns the usual policy for this many keys.
fn usual(keys: u64) -> Policy {
    Policy { bits: if keys >= MANY_KEYS { MANY_BITS } else { USUAL.bits }, ..USUAL }
}

#[cfg(not(feature = "testing"))]
pub(super) fn policy(keys: u64) -> Policy {
    usual(keys)
}

#[cfg(feature = "testing")]
pub(super) use chosen::policy;

#[cfg(feature = "testing")]
pub use chosen::{Bucketing, choose_bucketing};

/// Lets tests and measurements choose.
#[cfg(feature = "testing")]
mod chosen {
    use std::cell::Cell;
    use std::sync::OnceLock;

    use super::{Policy, USUAL, usual};

    /// Whether lookups order their keys by buckets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Bucketing {
        /// Where it pays.
        Usual,
        /// Whatever the number of keys and the size of the dictionary.
        Always {
            /// There are two to the power of this many buckets, 1 to 11.
            bits: u32,
            /// The most keys that are ordered at a time, up to 2^31.
            max_part: u64,
        },
        /// Not at all.
        Never,
    }

    thread_local! {
        static CHOSEN: Cell<Option<Bucketing>> = const { Cell::new(None) };
    }

    /// Chooses for the lookups of the calling thread. Without this, the environment variable `GPULSM_BUCKETS` does:
    /// `never`, `always`, or, for 2^10 buckets and 2^22 keys at a time, `always:10:22`.
    pub fn choose_bucketing(bucketing: Bucketing) {
        CHOSEN.set(Some(bucketing));
    }

    pub(in super::super) fn policy(keys: u64) -> Policy {
        static ENVIRONMENT: OnceLock<Bucketing> = OnceLock::new();
        let environment = || {
            let text = std::env::var("GPULSM_BUCKETS").unwrap_or_default();
            parse(&text).unwrap_or_else(|| {
                panic!("GPULSM_BUCKETS is {text:?}: set it to never, always, or always:10:22")
            })
        };
        match CHOSEN.get().unwrap_or_else(|| *ENVIRONMENT.get_or_init(environment)) {
            Bucketing::Usual => usual(keys),
            Bucketing::Always { bits, max_part } => {
                Policy { min_keys: 1, min_bytes: 0, bits, max_part }
            }
            Bucketing::Never => Policy { min_keys: u64::MAX, ..USUAL },
        }
    }

    fn parse(text: &str) -> Option<Bucketing> {
        let numbers = match text.split_once(':') {
            Some((text, numbers)) => (text == "always").then_some(numbers)?,
            None if text.is_empty() => return Some(Bucketing::Usual),
            None if text == "never" => return Some(Bucketing::Never),
            None => {
                return (text == "always").then_some(always(USUAL.bits, USUAL.max_part.ilog2()));
            }
        };
        let (bits, part) = numbers.split_once(':').unwrap_or((numbers, "24"));
        let (bits, part) = (bits.parse().ok()?, part.parse().ok()?);
        ((1..=11).contains(&bits) && part <= 31).then(|| always(bits, part))
    }

    fn always(bits: u32, part: u32) -> Bucketing {
        Bucketing::Always { bits, max_part: 1 << part }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_environment_may_choose_buckets() {
            assert_eq!(parse(""), Some(Bucketing::Usual));
            assert_eq!(parse("never"), Some(Bucketing::Never));
            assert_eq!(parse("always"), Some(always(8, 24)));
            assert_eq!(parse("always:10"), Some(always(10, 24)));
            assert_eq!(parse("always:10:22"), Some(always(10, 22)));
            for wrong in ["on", "always10", "always:0", "always:12", "always:8:32", "always:x"] {
                assert_eq!(parse(wrong), None, "{wrong}");
            }
        }
    }
}
