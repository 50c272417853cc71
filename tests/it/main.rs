//! Every test of the library as its users see it, in one binary.

mod aggregates;
mod api;
mod asof;
mod at_the_limit;
mod batches;
mod beyond_u32;
#[cfg(feature = "cuda")]
mod buckets;
mod buffer;
mod checks;
#[cfg(feature = "cuda")]
mod columns;
mod combine;
mod combine_large;
mod corpus;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod cuda_files;
#[cfg(feature = "cuda")]
mod cuda_in_place;
#[cfg(feature = "cuda")]
mod cuda_shards;
mod dead;
mod deferred;
mod edges;
mod faults;
mod files;
mod files_crashes;
mod files_faults;
#[cfg(unix)]
mod files_forks;
mod files_giving_way;
mod files_space;
mod files_types;
mod filters;
mod golden;
mod holders;
#[cfg(target_os = "linux")]
mod in_place;
mod large;
mod limits;
mod merging;
mod model;
mod parity;
mod range_deletes;
mod readers;
mod regressions;
mod shards;
mod small_limits;
mod sorting;
mod wide;

/// Returns the path of what is kept in the checkout, or in the folder that `GPULSM_CHECKOUT` names.
fn of_checkout(path: &str) -> std::path::PathBuf {
    let checkout = std::env::var_os("GPULSM_CHECKOUT");
    let checkout = checkout.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/..").into());
    std::path::PathBuf::from(checkout).join(path)
}

/// Returns what a dictionary holds and takes. What else takes the device's memory changes at any time.
fn figures<K: gpulsm::Key, V: gpulsm::Value>(d: &gpulsm::Dictionary<K, V>) -> gpulsm::Stats {
    let mut stats = d.stats().unwrap();
    stats.memory = None;
    stats.shards.iter_mut().for_each(|shard| shard.memory = None);
    stats
}

/// Runs the same test on every device of this build: `each_device! { fn name(device) { … } }`.
#[macro_export]
macro_rules! each_device {
    ($($(#[$meta:meta])* fn $name:ident($device:ident) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn body($device: gpulsm::Device) $body

            $(#[$meta])*
            #[test]
            fn cpu() {
                body(gpulsm::Device::cpu());
            }

            $(#[$meta])*
            #[cfg(feature = "cuda")]
            #[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn cuda() {
                body(gpulsm::Device::cuda(0).unwrap());
            }
        }
    )*};
}
