//! Which exception an error becomes.

use gpulsm::Error;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    gpulsm,
    OutOfMemory,
    PyMemoryError,
    "The device, or the dictionary's memory limit, has no room; the dictionary is as it was."
);
create_exception!(
    gpulsm,
    CudaError,
    PyRuntimeError,
    "A GPU that can't be used, or one that reports an error."
);

/// The exception for an error. The dictionary is as it was.
pub fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::OutOfMemory { .. } => OutOfMemory::new_err(text),
        Error::Cuda { .. }
        | Error::NoCudaDevice { .. }
        | Error::BuiltWithoutCuda { .. }
        | Error::Capturing => CudaError::new_err(text),
        Error::Threads { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
