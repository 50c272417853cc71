//! `gpulsm man`: manual pages.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_mangen::Man as Page;

use crate::Arguments;

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
                std::fs::create_dir_all(folder)
                    .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
                    .map_err(|error| format!("{}: {error}", folder.display()))?;
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
