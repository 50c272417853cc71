//! Errors of the driver.

use std::ffi::CStr;

use cudarc::driver::result::{DriverError, mem_get_info};

use crate::error::Error;

/// Returns what a call of the driver returned, or an error with the driver's own description.
pub(crate) fn check<T>(call: &'static str, outcome: Result<T, DriverError>) -> Result<T, Error> {
    outcome.map_err(|error| Error::Cuda { call, reason: describe(error).into() })
}

/// Returns the error that there is no memory for this many bytes, with how many are free.
pub(crate) fn out_of_memory(wanted: u64) -> Error {
    let free = mem_get_info().ok().map(|(free, _)| free as u64);
    Error::OutOfMemory { wanted, free, memory: None }
}

/// Returns the driver's description and name of an error.
pub(crate) fn describe(error: DriverError) -> String {
    let text = |text: Result<&CStr, DriverError>| {
        text.map_or_else(|_| "unknown".into(), |text| text.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(error.error_string()), text(error.error_name()))
}
