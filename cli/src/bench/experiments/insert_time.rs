//! Figure 4a of the paper: the time of every batch.

use super::growth::Structure;
use crate::bench::harness::Case;
use crate::bench::scale::Scale;
use crate::experiment::Experiment;

pub fn cases(scale: &Scale) -> Vec<Case> {
    vec![Structure::Gpulsm.case(Experiment::InsertTime, scale, scale.inserted - 8)]
}
