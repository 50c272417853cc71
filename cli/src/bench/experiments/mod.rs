//! How each experiment is measured: a file for each, named as in the report.

mod aggregate;
mod build;
mod cleanup;
mod combine;
mod count;
mod dead;
mod delete;
mod effective;
mod files;
mod filling;
mod flushed;
mod full;
mod full_levels;
mod growth;
mod insert;
mod insert_time;
mod lookup;
mod memory;
mod mixed;
mod order;
mod partial;
mod range;
mod shards;
mod skew;
mod stream;

use gpulsm_backends::backend::Backend;

use super::harness::Case;
use super::scale::Scale;
use crate::experiment::Experiment;

/// Returns the cases of an experiment.
pub fn cases(experiment: Experiment, scale: &Scale, backend: &dyn Backend) -> Vec<Case> {
    match experiment {
        Experiment::Insert => insert::cases(scale),
        Experiment::InsertTime => insert_time::cases(scale),
        Experiment::Stream => stream::cases(scale),
        Experiment::Flushed => flushed::cases(scale),
        Experiment::Effective => effective::cases(scale),
        Experiment::Partial => partial::cases(scale),
        Experiment::Build => build::cases(scale),
        Experiment::Lookup => lookup::cases(scale),
        Experiment::Count => count::cases(scale),
        Experiment::Range => range::cases(scale, backend.max_listed_factor()),
        Experiment::Aggregate => aggregate::cases(scale, backend.max_listed_factor()),
        Experiment::Combine => combine::cases(scale),
        Experiment::Order => order::cases(scale),
        Experiment::Delete => delete::cases(scale),
        Experiment::Dead => dead::cases(scale),
        Experiment::Cleanup => cleanup::cases(scale),
        Experiment::Mixed => mixed::cases(scale),
        Experiment::Skew => skew::cases(scale),
        Experiment::Memory => memory::cases(scale),
        Experiment::Files => files::cases(scale),
        Experiment::Shards => shards::cases(scale, backend.is_cuda()),
        Experiment::Full => full::cases(scale, backend.is_cuda()),
    }
}
