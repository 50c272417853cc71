//! `gpulsm`, the program: parse, run, say how it went.

mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A dynamic, ordered dictionary for GPUs and CPUs, from the terminal.
#[derive(Parser)]
#[command(name = "gpulsm", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check random operation lists against the model
    Verify(verify::Verify),
}

const EXAMPLES: &str = "\
Examples:
  gpulsm verify                                    a quick check on the best device
  gpulsm verify --ops 100000 --seed 7              a longer one, with another seed
  gpulsm verify --key f64 --value u128 --batch-size 8";

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Verify(verify) => verify.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("gpulsm: {error}");
        ExitCode::FAILURE
    })
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
