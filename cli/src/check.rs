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
use serde_json::{Map, Value, json};

use crate::info::object;
use crate::progress::Bar;
use crate::stored::{Refusal, counted, read, size};

const NOTES: &str = "\
Examples:
  gpulsm check prices                 the folder of `gpulsm shell --open prices`
  gpulsm check prices.gpulsm          a file that `save` wrote
  gpulsm check prices && cp -r prices backup
  gpulsm check prices --json          for programs

The exit status is 0 if everything is sound, 1 if something is damaged, or a file is of another kind (as one that
lost its beginning seems to be), and 2 if it cannot be checked: no such file, no permission, in use. Nothing is changed, and nothing is repaired: a damaged file is restored from a copy.
An incomplete update at the end of the log is what a crash leaves, and no damage.

In JSON the answer is \"sound\": true with what `gpulsm info --json` says, or {\"sound\": false or null (not known),
\"path\": PATH, \"error\": MESSAGE, \"code\": CODE}. The codes are damaged (with \"file\" and \"offset\"), not_a_dictionary,
in_use, io (with \"file\"; no such file, no permission), unsupported_version and other.";

/// Checks the files of a dictionary: reads everything, and verifies every checksum.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Check {
    /// The folder that a dictionary lives in, or a saved file
    path: PathBuf,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// The exit status if nothing is known of the files.
const CANNOT_CHECK: u8 = 2;

impl Check {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let started = Instant::now();
        let mut bar = Bar::new("checking");
        let checked =
            read(&self.path, |path| check_with(path, &mut |done, total| bar.tell(done, total)));
        drop(bar);
        let seconds = started.elapsed().as_secs_f64();
        match &checked {
            checked if self.json => writeln!(io::stdout(), "{}", self.object(checked, seconds))?,
            Ok(info) => {
                let size = HumanBytes(size(&self.path, info));
                writeln!(io::stdout(), "{}; {size} read in {seconds:.1} s", report(info))?;
            }
            Err(refusal) => eprintln!("gpulsm: {refusal}"),
        }
        Ok(match checked {
            Ok(_) => ExitCode::SUCCESS,
            Err(Refusal::OtherFile(_) | Refusal::Failed(Failure::CorruptFile { .. })) => {
                ExitCode::FAILURE
            }
            Err(Refusal::Failed(_)) => ExitCode::from(CANNOT_CHECK),
        })
    }

    /// Returns the outcome for programs.
    fn object(&self, checked: &Result<Info, Refusal>, seconds: f64) -> Value {
        let (sound, mut found) = match checked {
            Ok(info) => (Some(true), object(&self.path, info)),
            Err(refusal) => {
                let is_damaged = matches!(refusal, Refusal::Failed(Failure::CorruptFile { .. }));
                (is_damaged.then_some(false), refusal.object(&self.path))
            }
        };
        let mut answer = Map::from_iter([("sound".to_string(), json!(sound))]);
        answer.append(&mut found);
        answer.insert("seconds".into(), seconds.into());
        answer.into()
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
