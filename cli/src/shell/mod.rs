//! `gpulsm shell`: a dictionary to talk to, a command a line.

mod answer;
mod arguments;
mod beginning;
mod command;
mod editor;
mod failure;
mod files;
mod interpreter;
mod interrupt;
mod people;
mod script;
mod snapshots;
mod storing;
mod talk;
mod type_options;

use std::error::Error;
use std::io::{self, BufWriter, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use answer::{Form, Source};
use beginning::Beginning;
use interpreter::Interpreter;
use script::Script;

/// At most this many pairs are listed on a terminal, unless a command says otherwise.
const MOST_ON_TERMINAL: u64 = 1000;

const NOTES: &str = "\
Examples:
  gpulsm shell                               type commands; `help` lists them, Tab completes them
  gpulsm shell --key i64 --value f64         signed keys, values that are floats
  gpulsm shell --key u32,i64 --value f64     keys of two parts, written 7:100
  gpulsm shell --value none                  a set
  gpulsm shell --combine add                 counters: an insert adds to what the key has
  gpulsm shell --open prices                 keep it in the folder `prices`: it is there the next time
  gpulsm shell --load prices.gpulsm          begin with what the command `save` wrote
  gpulsm shell --import prices.csv           begin with the pairs of a file
  gpulsm shell --import prices.csv -c len -c 'range 0 99'
                                             execute these commands, and end
  gpulsm shell --strict < script             stop at the first error, with exit status 1
  echo 'insert 1 10 3 30
  count 0 9' | gpulsm shell --json           for programs: an answer in JSON for each command

A key of several parts is written with colons, 7:100, and compared from the first part on. An end of a
range may have its first parts alone, for the first or the last key that begins with them: with --key
u32,i64, `count 7 7` counts the keys 7:…, and `range 7:100 7` lists those from 7:100 on. In JSON such a key
is an array. Bytes are written as text, with zeros added at the end, or as 0x and two hexadecimal digits for
each byte; so are those printed that are not a word.

Empty lines and lines that begin with # are skipped. What goes wrong is an answer too: the dictionary
is as it was, and the next line is read; the exit status stays 0, unless there is --strict. Of commands
given with -c all are executed, and the status is 1 if one of them failed.

In JSON an error is {\"error\": MESSAGE, \"code\": CODE, \"line\": NUMBER}. The codes are
unknown_command, wrong_argument, file, snapshot (no such name, or taken), read_only (an update while a
snapshot is in use), dictionary (too little memory, a device that failed, a log that can't be written),
unreadable_line and stopped.

At the prompt Ctrl-C clears the line and Ctrl-D ends the shell. While a command runs or prints, Ctrl-C
ends that command alone: the dictionary is as it was before it. (An export or a save may still finish its
file. A change of a dictionary in a folder is finished, unless it is an import that still reads.) Lines that are
typed or pasted while a command runs are executed after it, unless Ctrl-C ends it: then they are forgotten. Of
what is typed meanwhile, the terminal keeps about 4,000 bytes.

With --open every change is logged in the folder before it is answered: what was answered is there the next time,
whatever happens to the program (`--durability os`) and to the machine (`--durability batch`, the default). `quit`
is answered when the folder is closed; if that fails, with the error, and the exit status is 1. The folder remembers
the types. One program has it open at a time. Snapshots are in memory. `gpulsm info` and
`gpulsm check` look at folders and saved files.

Tables (import, export): .csv, .tsv, .tab (with .gz: compressed), .parquet. Columns named key and value
(of keys of several parts: key1, key2 and so on) are found among others; else there must be just these (a
set has keys alone), or choose:
  import orders.csv --key-column order_id --value-column 3    by name or number, counted from 1
  import quotes.csv --key-column symbol --key-column time     a column for each part of keys
  import orders.csv --separator ; --header no                 other text
  import orders.csv --missing skip                            rows without a key or value
  export orders.parquet --force                               replace a file
A row that doesn't fit the types is named by line and column, and nothing is imported.";

/// Talks to a dictionary, a command a line.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Shell {
    /// Answer in JSON, one line each
    #[arg(long)]
    json: bool,

    /// Execute this command and end, instead of reading commands; may be given again
    #[arg(short, value_name = "COMMAND")]
    commands: Vec<String>,

    /// Import a file before the first command; may be given again. A file that needs options is read by
    /// the command `import` instead. What was rounded, replaced or skipped is reported on standard error
    #[arg(long, value_name = "FILE")]
    import: Vec<PathBuf>,

    /// Stop at the first error, with exit status 1
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    beginning: Beginning,
}

impl Shell {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let to_terminal = io::stdout().is_terminal();
        let form = match self.json {
            true => Form::Json,
            false => {
                let unwanted = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
                Form::People { colour: to_terminal && !unwanted }
            }
        };
        let typed = self.commands.is_empty() && to_terminal && io::stdin().is_terminal();
        let opened = self.beginning.open()?;
        if typed && !self.json {
            println!("{}", opened.summary);
        }
        let limit = to_terminal.then_some(MOST_ON_TERMINAL);
        let mut interpreter = Interpreter::new(opened, limit);
        for file in &self.import {
            match interpreter.import_file(file) {
                Ok(imported) if typed && !self.json => println!("{}: {imported}", file.display()),
                // Standard output has the answers to commands alone.
                Ok(imported) if imported.is_notable() => {
                    eprintln!("{}: {imported}", file.display());
                }
                Ok(_) => {}
                Err(failure) => {
                    form.write_failure(&mut io::stdout(), &failure, Source::Prompt)?;
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        let succeeded = if typed {
            talk::talk(&mut interpreter, form, self.strict)?
        } else if self.commands.is_empty() {
            let succeeded = self.script(&mut interpreter, form).listen(&mut io::stdin().lock())?;
            // A program reads of errors in the answers.
            succeeded || !self.strict
        } else {
            self.script(&mut interpreter, form).execute(&self.commands)?
        };
        interpreter.close()?;
        Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn script<'a>(
        &self,
        interpreter: &'a mut Interpreter,
        form: Form,
    ) -> Script<'a, BufWriter<io::StdoutLock<'static>>> {
        let out = BufWriter::new(io::stdout().lock());
        Script { interpreter, form, out, strict: self.strict }
    }
}
