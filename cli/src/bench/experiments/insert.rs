//! Table II of the paper: the rate of every batch on the way to n, for all sizes of batches.

use super::growth::{Structure, batch_sizes};
use crate::bench::harness::Case;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;

pub fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for b in batch_sizes(scale) {
        for structure in [Structure::Gpulsm, Structure::SortedArray] {
            cases.push(structure.case(Experiment::Insert, scale, b));
        }
    }
    cases
}
