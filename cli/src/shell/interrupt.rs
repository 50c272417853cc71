//! Ctrl-C at the terminal.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many times Ctrl-C was pressed, and how many of them are forgotten.
static PRESSES: AtomicUsize = AtomicUsize::new(0);
static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

/// Makes Ctrl-C known to [`is_pressed`] instead of ending the program.
pub fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        PRESSES.fetch_add(1, Ordering::Relaxed);
    })
}

/// Returns how many times Ctrl-C was pressed, those forgotten included.
pub fn presses() -> usize {
    PRESSES.load(Ordering::Relaxed)
}

/// Returns whether Ctrl-C was pressed since it was last forgotten.
pub fn is_pressed() -> bool {
    presses() != FORGOTTEN.load(Ordering::Relaxed)
}

/// Forgets Ctrl-C; returns whether it was pressed.
pub fn forget() -> bool {
    let presses = presses();
    FORGOTTEN.swap(presses, Ordering::Relaxed) != presses
}
