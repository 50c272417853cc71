//! Panics, as exceptions that `except Exception` catches.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;

use crate::error::InternalError;

/// How many calls of [`detached`] are in progress, in all threads.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The messages of the latest panics during such calls, and where they happened: the payload that an
/// unwind carries from a worker thread to the caller is the message alone.
static LATEST: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// The most messages that are kept: one call may panic in every worker thread.
const MOST_NOTED: usize = 64;

/// Runs `work` without the GIL. Raises an `InternalError` if it panics.
///
/// Nothing is left half done by that: a dictionary replaces its levels only when a call has succeeded,
/// and the locks of [`Typed`](crate::typed::Typed) ignore poisoning.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch(work)).map_err(|what| {
        InternalError::new_err(format!(
            "gpulsm panicked: {what}. This is a bug in gpulsm, or another thread changed an array during \
             the call. The dictionary is as it was before the call"
        ))
    })
}

/// Keeps panics that [`detached`] reports from being printed as well, unless `RUST_BACKTRACE` asks for
/// that. The hook is that of this library's own copy of `std`: those of other modules and of programs
/// that embed Python stay as they are.
pub fn silence_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_reported = RUNNING.load(Ordering::Relaxed) > 0;
        let wants_backtrace = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
        if wants_backtrace || !is_reported {
            print(info);
        }
        // Not waited for: a process that was forked may have got it locked.
        if let (true, Some(location), Ok(mut latest)) =
            (is_reported, info.location(), LATEST.try_lock())
            && latest.len() < MOST_NOTED
        {
            latest.push((message(info.payload()), location.to_string()));
        }
    }));
}

/// Runs `work`, or returns what it panicked with, and where.
fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    RUNNING.fetch_add(1, Ordering::Relaxed);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    done.map_err(|payload| {
        let text = message(&*payload);
        let latest = LATEST.try_lock().map(|mut latest| std::mem::take(&mut *latest));
        match latest.unwrap_or_default().into_iter().find(|(noted, _)| *noted == text) {
            Some((_, location)) => format!("{text}, at {location}"),
            None => text,
        }
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
