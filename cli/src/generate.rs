//! What can be made from the arguments' description: completion scripts and manual pages.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Page;

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

/// Prints the manual page.
#[derive(Args)]
pub struct Man {
    /// Write a page for the program and one for each command into this folder instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        match &self.out {
            Some(folder) => {
                std::fs::create_dir_all(folder)?;
                clap_mangen::generate_to(Arguments::command(), folder)?;
                Ok(ExitCode::SUCCESS)
            }
            None => {
                let mut page = Vec::new();
                Page::new(Arguments::command()).render(&mut page)?;
                io::stdout().write_all(&page)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
