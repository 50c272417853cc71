//! Ctrl-C at the terminal.

use std::sync::atomic::{AtomicBool, Ordering};

static PRESSED: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C known to [`is_pressed`] instead of ending the program.
pub fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| PRESSED.store(true, Ordering::Relaxed))
}

/// Returns whether Ctrl-C was pressed since it was last forgotten.
pub fn is_pressed() -> bool {
    PRESSED.load(Ordering::Relaxed)
}

/// Forgets Ctrl-C; returns whether it was pressed.
pub fn forget() -> bool {
    PRESSED.swap(false, Ordering::Relaxed)
}
