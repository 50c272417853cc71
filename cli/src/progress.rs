//! Bars for what takes long with files.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// What takes less time has no bar.
const SHORT: Duration = Duration::from_millis(300);

const STYLE: &str = "{msg} {bar:30} {bytes} of {total_bytes}, {eta} to go";

/// A bar on standard error, if that is a terminal. It appears when the work takes long, and vanishes at its end.
pub struct Bar {
    what: &'static str,
    started: Instant,
    bar: Option<ProgressBar>,
    is_hidden: fn() -> bool,
}

impl Bar {
    /// Makes a bar of work that is named by a word such as `saving`.
    pub fn new(what: &'static str) -> Self {
        Bar { what, started: Instant::now(), bar: None, is_hidden: || false }
    }

    /// Lets the bar vanish early: when this is so, nobody waits for the work any more.
    pub fn hidden_when(mut self, is_hidden: fn() -> bool) -> Self {
        self.is_hidden = is_hidden;
        self
    }

    /// Shows how many bytes are done, of how many.
    pub fn tell(&mut self, done: u64, total: u64) {
        if (self.is_hidden)() {
            self.is_hidden = || true;
            self.vanish();
        } else if self.started.elapsed() >= SHORT {
            let bar = self.bar.get_or_insert_with(|| {
                let style = ProgressStyle::with_template(STYLE).expect("a template");
                ProgressBar::new(total).with_style(style).with_message(self.what)
            });
            bar.set_position(done);
        }
    }

    fn vanish(&mut self) {
        self.bar.take().inspect(ProgressBar::finish_and_clear);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.vanish();
    }
}
