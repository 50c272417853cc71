//! `gpulsm shell`: a dictionary to talk to, a command a line.

mod answer;
mod arguments;
mod command;
mod editor;
mod files;
mod interpreter;

use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use gpulsm::Device;

use crate::batch_size;
use crate::dictionary;
use crate::types::{KeyType, Types, ValueType};
use answer::{Answer, Form};
use editor::Prompt;
use interpreter::Interpreter;

/// Lines longer than this many bytes are refused, so that memory stays bounded.
const LONGEST_LINE: usize = 1 << 28;

const EXAMPLES: &str = "\
Examples:
  gpulsm shell                               type commands; `help` lists them, Tab completes them
  gpulsm shell --key i64 --value f64         signed keys, values that are floats
  gpulsm shell --value none                  a set
  echo 'insert 1 10 3 30
  count 0 9' | gpulsm shell --json           for programs: an answer in JSON for each command

Empty lines and lines that begin with # are skipped. What goes wrong is an answer too: the dictionary
is as it was, and the next line is read; the exit status stays 0.

Files (import, export): .csv, .tsv, .tab (with .gz: compressed), .parquet. Columns named key and value
are found among others; else there must be just these two (a set has keys alone), or choose:
  import orders.csv --key-column order_id --value-column 3    by name or number, counted from 1
  import orders.csv --separator ; --header no                 other text
  import orders.csv --missing skip                            rows without a key or value
  export orders.parquet --force                               replace a file
A row that doesn't fit the types is named by line and column, and nothing is imported.";

/// Talks to a dictionary, a command a line.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Shell {
    /// Answer in JSON, one line each
    #[arg(long)]
    json: bool,

    /// The type of keys
    #[arg(long, value_enum, default_value_t = KeyType::U32)]
    key: KeyType,

    /// The type of values; none for a set
    #[arg(long, value_enum, default_value_t = ValueType::U32)]
    value: ValueType,

    /// The batch size b of the dictionary
    #[arg(long, value_name = "B", value_parser = batch_size(), default_value_t = 1 << 16)]
    batch_size: u64,

    /// Where the dictionary lives: best, cpu, cuda or cuda:N
    #[arg(long, default_value = "best")]
    device: Device,
}

impl Shell {
    pub fn run(&self) -> Result<ExitCode, Box<dyn std::error::Error>> {
        let mut interpreter = self.interpreter()?;
        let to_terminal = io::stdout().is_terminal();
        let form = match self.json {
            true => Form::Json,
            false => {
                let unwanted = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
                Form::People { colour: to_terminal && !unwanted }
            }
        };
        if to_terminal && io::stdin().is_terminal() {
            talk(&mut interpreter, form)?;
        } else {
            listen(&mut interpreter, form)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn interpreter(&self) -> Result<Interpreter, gpulsm::Error> {
        let types = Types { key: self.key, value: self.value };
        let dictionary = dictionary::open(types, self.device, self.batch_size as usize)?;
        Ok(Interpreter::new(dictionary, types))
    }
}

/// Whether to read another line.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

/// Executes what a person types.
fn talk(interpreter: &mut Interpreter, form: Form) -> io::Result<()> {
    let mut prompt = Prompt::new().map_err(io::Error::other)?;
    if form != Form::Json {
        println!("`help` lists the commands, Tab completes them, Ctrl-D leaves.");
    }
    while let Some(line) = prompt.line().map_err(io::Error::other)? {
        if answer(interpreter, form, &mut io::stdout(), Ok(&line))? == Next::Stop {
            break;
        }
    }
    Ok(())
}

/// Executes what a program or a file provides.
fn listen(interpreter: &mut Interpreter, form: Form) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    for number in 1.. {
        let Some(fits) = read_line(&mut input, &mut line, LONGEST_LINE)? else { break };
        let text = match std::str::from_utf8(&line) {
            _ if !fits => Err(format!("line {number} is longer than {LONGEST_LINE} bytes")),
            Ok(text) => Ok(text),
            Err(error) => {
                Err(format!("line {number} is not UTF-8 text from byte {} on", error.valid_up_to()))
            }
        };
        let next = answer(interpreter, form, &mut out, text)?;
        // A client may wait for this answer before it sends the next line.
        out.flush()?;
        if next == Next::Stop {
            break;
        }
    }
    out.flush()
}

/// Answers one line.
fn answer(
    interpreter: &mut Interpreter,
    form: Form,
    out: &mut impl Write,
    line: Result<&str, String>,
) -> io::Result<Next> {
    match line.and_then(|line| interpreter.run(line)) {
        Ok(None) => {}
        Ok(Some(answer)) => {
            form.write(out, &answer)?;
            if matches!(answer, Answer::Quit) {
                return Ok(Next::Stop);
            }
        }
        Err(error) => form.write_error(out, &error)?,
    }
    Ok(Next::Go)
}

/// Reads a line without its end. Returns whether it was short enough to be kept, and `None` at the end
/// of input.
fn read_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    max_len: usize,
) -> io::Result<Option<bool>> {
    line.clear();
    let (mut fits, mut any) = (true, false);
    loop {
        let bytes = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(any.then_some(fits));
        }
        any = true;
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let taken = &bytes[..end.unwrap_or(bytes.len())];
        fits &= line.len() + taken.len() <= max_len;
        if fits {
            line.extend_from_slice(taken);
        } else {
            *line = Vec::new();
        }
        let used = taken.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(fits));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_or_refused() {
        let mut input = io::BufReader::with_capacity(3, &b"short\n\nmuch too long\nlast"[..]);
        let mut line = Vec::new();
        let mut read =
            || read_line(&mut input, &mut line, 5).unwrap().map(|fits| (fits, line.clone()));
        assert_eq!(read(), Some((true, b"short".to_vec())));
        assert_eq!(read(), Some((true, Vec::new())));
        assert_eq!(read(), Some((false, Vec::new())));
        assert_eq!(read(), Some((true, b"last".to_vec())));
        assert_eq!(read(), None);
    }
}
