//! Calls without the GIL: panics become exceptions that `except Exception` catches, and threads that are in
//! a call when the program ends do no harm.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::InternalError;

/// How many calls of [`detached`] are in progress, in all threads.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How many threads have given up the GIL for a call and not taken it back yet.
static WITHOUT_GIL: AtomicUsize = AtomicUsize::new(0);

/// Whether the program ends: from then on no call gives up the GIL.
static IS_EXITING: AtomicBool = AtomicBool::new(false);

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
    let done = if IS_EXITING.load(Ordering::SeqCst) {
        catch(work)
    } else {
        WITHOUT_GIL.fetch_add(1, Ordering::SeqCst);
        let done = py.detach(|| catch(work));
        WITHOUT_GIL.fetch_sub(1, Ordering::SeqCst);
        done
    };
    done.map_err(|what| {
        InternalError::new_err(format!(
            "gpulsm panicked: {what}. This is a bug in gpulsm, or another thread changed an array during \
             the call. The dictionary is as it was before the call"
        ))
    })
}

/// To be called when the program ends. Waits until every thread has its GIL back: once the interpreter shuts
/// down, Python ends a thread that asks for the GIL on the spot, by an unwind that native code does not survive.
pub fn at_exit(py: Python<'_>) {
    IS_EXITING.store(true, Ordering::SeqCst);
    while WITHOUT_GIL.load(Ordering::SeqCst) > 0 {
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
    }
}

/// To be called in a process that was just forked, which has one thread.
pub fn after_fork() {
    WITHOUT_GIL.store(0, Ordering::SeqCst);
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
