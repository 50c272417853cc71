//! Files in memory for tests, which know what a crash may leave of them.
//!
//! What was written but not synced is kept apart from what is durable: the contents of files, and the names in
//! folders. [`Moment::crash`] returns a storage as a crash may leave it. Calls can be made to fail, and the
//! states after all calls can be recorded, so that a crash after each of them can be tried without running
//! the calls before it again.

mod calls;
mod control;
mod random;
mod seal;
mod state;

pub use control::{Fault, Moment, Simulated};
pub use random::Random;
pub use seal::{seal_folder, seal_saved};
pub use state::Survivors;
