//! `gpulsm check`: reads all files of a dictionary, and verifies every checksum.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use gpulsm::Error as Failure;
use gpulsm::files::{Info, check_with};
use indicatif::HumanBytes;

use crate::progress::Bar;
use crate::stored::{counted, size, what_else};

const NOTES: &str = "\
Examples:
  gpulsm check prices                 the folder of `gpulsm shell --open prices`
  gpulsm check prices.gpulsm          a file that `save` wrote
  gpulsm check prices && cp -r prices backup

The exit status is 0 if everything is sound, 1 if something is damaged, and 2 if it cannot be checked: no such
file, no permission, in use. Nothing is changed, and nothing is repaired: a damaged file is restored from a copy.
An incomplete update at the end of the log is what a crash leaves, and no damage.";

/// Checks the files of a dictionary: reads everything, and verifies every checksum.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Check {
    /// The folder that a dictionary lives in, or a saved file
    path: PathBuf,
}

/// The exit status if nothing is known of the files.
const CANNOT_CHECK: u8 = 2;

impl Check {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        if let Some(other) = what_else(&self.path) {
            return Err(other.into());
        }
        let started = Instant::now();
        let mut bar = Bar::new("checking");
        let checked = check_with(&self.path, &mut |done, total| bar.tell(done, total));
        drop(bar);
        match checked {
            Ok(info) => {
                let seconds = started.elapsed().as_secs_f64();
                let size = HumanBytes(size(&self.path, &info));
                writeln!(io::stdout(), "{}; {size} read in {seconds:.1} s", report(&info))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(damage @ Failure::CorruptFile { .. }) => Err(damage.into()),
            Err(error) => {
                eprintln!("gpulsm: {error}");
                Ok(ExitCode::from(CANNOT_CHECK))
            }
        }
    }
}

/// Says what is sound.
fn report(info: &Info) -> String {
    let pairs = counted(info.entries(), "pair");
    let mut text = match info.updates {
        0 => format!("sound: {pairs}"),
        updates => format!("sound: {pairs} in runs, and {} in the log", counted(updates, "update")),
    };
    if info.torn_bytes > 0 {
        let torn = HumanBytes(info.torn_bytes);
        text += &format!(", and {torn} of an incomplete update, as a crash leaves it");
    }
    text
}
