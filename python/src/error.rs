//! Which exception an error becomes.

use std::path::PathBuf;

use gpulsm::Error;
use pyo3::exceptions::{PyFileExistsError, PyOSError, PyTypeError, PyValueError};
use pyo3::{PyErr, import_exception};

// Written in Python (`package/gpulsm/_errors.py`): each has two base classes, `gpulsm.Error` and a built-in one.
import_exception!(gpulsm._errors, CorruptFile);
import_exception!(gpulsm._errors, CudaError);
import_exception!(gpulsm._errors, ForkError);
import_exception!(gpulsm._errors, InternalError);
import_exception!(gpulsm._errors, Locked);
import_exception!(gpulsm._errors, OutOfMemoryError);
import_exception!(gpulsm._errors, ThreadsError);
import_exception!(gpulsm._errors, UpdatesRefused);

/// The code of the error that a file exists, on every system.
const EEXIST: i32 = 17;

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
        Error::Io { path, code: Some(code), reason, .. } => {
            os_error(code, &reason.to_string(), path)
        }
        Error::Io { .. } => PyOSError::new_err(text),
        Error::CorruptFile { path, offset, .. } => {
            CorruptFile::new_err((text, path.into_os_string(), offset))
        }
        Error::Locked { path } => Locked::new_err((text, path.into_os_string())),
        Error::UpdatesRefused { .. } => UpdatesRefused::new_err(text),
        Error::WrongType { .. } => PyTypeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Returns the exception for an error of the system: of the class that its number has.
pub fn os_error(code: i32, text: &str, path: PathBuf) -> PyErr {
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((code, text, path.into_os_string()))
}

/// Returns the exception for a file that exists and is not to be replaced; `with` is the argument that replaces it.
pub fn file_exists(path: PathBuf, with: &str) -> PyErr {
    let text = format!("this file exists; to replace it, give {with}");
    PyFileExistsError::new_err((EEXIST, text, path.into_os_string()))
}
