//! `gpulsm`, the program: parses its arguments, runs a command, reports errors. It is a library so that it
//! compiles beside the dictionary: a binary would wait until that is finished.

mod bench;
mod byte_size;
mod check;
mod completions;
mod devices;
mod experiment;
mod info;
mod key_type;
mod man;
mod progress;
mod report;
mod results;
mod shell;
mod started;
mod stored;
mod tour;
mod verify;

use std::io;
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, Subcommand};
use started::how_started;

/// A dynamic, ordered dictionary for GPUs and CPUs, from the terminal.
#[derive(Parser)]
#[command(name = "gpulsm", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// See what the dictionary does: build, stream batches, query, check every answer
    Tour(tour::Tour),
    /// Talk to a dictionary, a command a line
    Shell(shell::Shell),
    /// Say what the files of a dictionary contain
    Info(info::Info),
    /// Check the files of a dictionary for damage
    Check(check::Check),
    /// Check random operation lists against the model
    Verify(verify::Verify),
    /// Measure what the paper measures, on this machine
    Bench(Box<bench::Bench>),
    /// Make a page and tables of what `bench` measured, or compare runs
    Report(report::Report),
    /// List the devices that a dictionary can live on
    Devices(devices::Devices),
    /// Print a script that makes a shell complete this program's arguments
    Completions(completions::Completions),
    /// Print the manual page
    Man(man::Man),
}

const EXAMPLES: &str = "\
Examples:
  gpulsm tour                                      the best place to start
  gpulsm shell                                     a dictionary to talk to
  gpulsm shell --open prices                       … that is there the next time, even after a crash
  gpulsm check prices                              whether its files are sound
  echo 'insert 1 10 3 30' | gpulsm shell --json    … from a program
  gpulsm verify --ops 100000 --seed 7              a long check, with another seed
  gpulsm bench --quick                             how fast it is here, beside the paper's figures
  gpulsm completions bash > ~/.local/share/bash-completion/completions/gpulsm
  gpulsm man | man -l -                            the manual";

/// Runs the program.
pub fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Tour(tour) => tour.run(),
        Command::Shell(shell) => shell.run(),
        Command::Info(info) => info.run(),
        Command::Check(check) => check.run(),
        Command::Verify(verify) => verify.run(),
        Command::Bench(bench) => bench.run(),
        Command::Report(report) => report.run(),
        Command::Devices(devices) => devices.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    };
    outcome.unwrap_or_else(|error| match error.downcast_ref::<io::Error>() {
        // The reader of our output has stopped reading.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => {
            eprintln!("gpulsm: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Returns the parser of batch sizes.
fn batch_size() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=gpulsm::MAX_BATCH_SIZE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_make_sense() {
        Arguments::command().debug_assert();
    }
}
