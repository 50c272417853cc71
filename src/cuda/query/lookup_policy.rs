//! How lookups adapt to the size of a dictionary.

/// How lookups adapt to the size of a dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Fewer keys are looked up alike in every dictionary.
    pub min_keys: u64,
    /// From this many bytes of keys and values on, threads have more reads in flight.
    pub deep_bytes: u64,
    /// From this many keys on…
    pub bucket_keys: u64,
    /// …and this many bytes of keys and values, keys are ordered by buckets,
    pub bucket_bytes: u64,
    /// of which there are two to the power of this,
    pub bucket_bits: u32,
    /// for at most this many keys at a time, which bounds the memory.
    pub bucket_part: u64,
}

const USUAL: Policy = Policy {
    min_keys: 1 << 18,
    deep_bytes: (2 << 30) + 1,
    bucket_keys: 1 << 20,
    bucket_bytes: (2 << 30) + 1,
    bucket_bits: 8,
    bucket_part: 1 << 24,
};

#[cfg(not(feature = "testing"))]
pub(super) fn policy() -> Policy {
    USUAL
}

#[cfg(feature = "testing")]
pub(super) use chosen::policy;

#[cfg(feature = "testing")]
pub use chosen::{Bucketing, choose_bucketing};

/// Lets tests and measurements choose.
#[cfg(feature = "testing")]
mod chosen {
    use std::cell::Cell;
    use std::env;
    use std::sync::OnceLock;

    use super::{Policy, USUAL};

    /// Whether lookups order their keys by buckets, and have more reads in flight.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Bucketing {
        /// Where it pays.
        Usual,
        /// Whatever the number of keys and the size of the dictionary.
        Always {
            /// There are two to the power of this many buckets, 1 to 11.
            bits: u32,
            /// The most keys that are ordered at a time, up to 2^31.
            part: u64,
        },
        /// Not at all.
        Never,
    }

    thread_local! {
        static CHOSEN: Cell<Option<Bucketing>> = const { Cell::new(None) };
    }

    /// Chooses for the lookups of the calling thread. Without this, the environment variable `GPULSM_BUCKETS` does:
    /// `never`, `always`, or, for 2^10 buckets and 2^22 keys at a time, `always:10:22`. If `GPULSM_DEEP` is set, to
    /// `never` or `always`, that decides about the reads in flight.
    pub fn choose_bucketing(bucketing: Bucketing) {
        CHOSEN.set(Some(bucketing));
    }

    pub(in super::super) fn policy() -> Policy {
        static ENVIRONMENT: OnceLock<(Bucketing, Option<bool>)> = OnceLock::new();
        let (bucketing, deep) = ENVIRONMENT.get_or_init(|| {
            (chosen_by("GPULSM_BUCKETS", parse), chosen_by("GPULSM_DEEP", parse_deep))
        });
        let policy = match CHOSEN.get().unwrap_or(*bucketing) {
            Bucketing::Usual => USUAL,
            Bucketing::Always { bits, part } => Policy {
                deep_bytes: 0,
                bucket_keys: 1,
                bucket_bytes: 0,
                bucket_bits: bits,
                bucket_part: part,
                ..USUAL
            },
            Bucketing::Never => Policy { deep_bytes: u64::MAX, bucket_keys: u64::MAX, ..USUAL },
        };
        let deep_bytes = deep.map(|always| if always { 0 } else { u64::MAX });
        Policy { deep_bytes: deep_bytes.unwrap_or(policy.deep_bytes), ..policy }
    }

    fn chosen_by<T>(variable: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        let text = env::var(variable).unwrap_or_default();
        parse(&text).unwrap_or_else(|| panic!("{variable} is {text:?}: set it to never or always"))
    }

    fn parse(text: &str) -> Option<Bucketing> {
        let numbers = match text.split_once(':') {
            Some((text, numbers)) => (text == "always").then_some(numbers)?,
            None if text.is_empty() => return Some(Bucketing::Usual),
            None if text == "never" => return Some(Bucketing::Never),
            None => return (text == "always").then_some(always(USUAL.bucket_bits, 24)),
        };
        let (bits, part) = numbers.split_once(':').unwrap_or((numbers, "24"));
        let (bits, part) = (bits.parse().ok()?, part.parse().ok()?);
        ((1..=11).contains(&bits) && part <= 31).then(|| always(bits, part))
    }

    fn always(bits: u32, part: u32) -> Bucketing {
        Bucketing::Always { bits, part: 1 << part }
    }

    fn parse_deep(text: &str) -> Option<Option<bool>> {
        match text {
            "" => Some(None),
            "never" => Some(Some(false)),
            "always" => Some(Some(true)),
            _ => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_environment_may_choose() {
            assert_eq!(parse(""), Some(Bucketing::Usual));
            assert_eq!(parse("never"), Some(Bucketing::Never));
            assert_eq!(parse("always"), Some(always(8, 24)));
            assert_eq!(parse("always:10"), Some(always(10, 24)));
            assert_eq!(parse("always:10:22"), Some(always(10, 22)));
            for wrong in ["on", "always10", "always:0", "always:12", "always:8:32", "always:x"] {
                assert_eq!(parse(wrong), None, "{wrong}");
            }
            assert_eq!(parse_deep("always"), Some(Some(true)));
            assert_eq!(parse_deep("deep"), None);
        }
    }
}
