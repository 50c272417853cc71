//! `gpulsm completions`: scripts for shells.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Arguments;

/// Prints a script that makes a shell complete this program's arguments.
#[derive(Args)]
pub struct Completions {
    /// The shell to write it for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "gpulsm", &mut script);
        io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
