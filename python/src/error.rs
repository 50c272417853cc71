//! Which exception an error becomes.

use gpulsm::Error;
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, import_exception};

// Written in Python (`gpulsm/_errors.py`): each has two base classes, `gpulsm.Error` and a built-in one.
import_exception!(gpulsm._errors, CudaError);
import_exception!(gpulsm._errors, ForkError);
import_exception!(gpulsm._errors, InternalError);
import_exception!(gpulsm._errors, OutOfMemoryError);
import_exception!(gpulsm._errors, ThreadsError);

/// Returns the exception for an error. The dictionary is as it was.
pub fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::OutOfMemory { .. } => OutOfMemoryError::new_err(text),
        Error::Cuda { .. }
        | Error::NoCudaDevice { .. }
        | Error::BuiltWithoutCuda { .. }
        | Error::Capturing => CudaError::new_err(text),
        Error::Threads { .. } => ThreadsError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
