//! Commands that nobody types: from standard input, or from the program's arguments.

use std::io::{self, BufRead, Write};

use super::answer::{Answer, Form, Source};
use super::failure::{Code, Failure};
use super::interpreter::Interpreter;

/// Lines longer than this many bytes are refused, so that memory stays bounded.
const LONGEST_LINE: usize = 1 << 28;

/// What some editors begin a file with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Executes command after command, and writes the answers.
pub struct Script<'a, W> {
    pub interpreter: &'a mut Interpreter,
    pub form: Form,
    pub out: W,
    /// Whether the first error ends it.
    pub strict: bool,
}

impl<W: Write> Script<'_, W> {
    /// Executes every line of the input. Returns whether all commands succeeded.
    pub fn listen(&mut self, input: &mut impl BufRead) -> io::Result<bool> {
        let (mut line, mut succeeded) = (Vec::new(), true);
        for number in 1.. {
            let Some(fits) = read_line(input, &mut line, LONGEST_LINE)? else { break };
            let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1).unwrap_or(&line);
            let next = self.answer(text(line, fits), Source::Line(number))?;
            succeeded &= !next.is_failure();
            if self.ends(next) {
                break;
            }
        }
        Ok(succeeded)
    }

    /// Executes these commands, a line each. Returns whether all succeeded.
    pub fn execute(&mut self, commands: &[String]) -> io::Result<bool> {
        let mut succeeded = true;
        for (number, line) in (1..).zip(commands.iter().flat_map(|text| text.lines())) {
            let next = self.answer(Ok(line), Source::Argument(number))?;
            succeeded &= !next.is_failure();
            if self.ends(next) {
                break;
            }
        }
        Ok(succeeded)
    }

    fn ends(&self, next: Next) -> bool {
        match next {
            Next::Go => false,
            Next::Quit | Next::NotClosed => true,
            Next::Failed => self.strict,
        }
    }

    /// Answers one line. A client may wait for the answer before it sends the next line.
    fn answer(&mut self, line: Result<&str, Failure>, source: Source) -> io::Result<Next> {
        let (next, outcome) = match line.and_then(|line| self.interpreter.run(line)) {
            Ok(Some(Answer::Quit)) => self.close(),
            Ok(answer) => (Next::Go, Ok(answer)),
            Err(failure) => (Next::Failed, Err(failure)),
        };
        match outcome {
            Ok(answer) => answer.iter().try_for_each(|it| self.form.write(&mut self.out, it))?,
            Err(failure) => self.form.write_failure(&mut self.out, &failure, source)?,
        }
        self.out.flush()?;
        Ok(next)
    }

    /// Closes the dictionary before `quit` is answered.
    fn close(&mut self) -> (Next, Result<Option<Answer>, Failure>) {
        match self.interpreter.close() {
            Ok(()) => (Next::Quit, Ok(Some(Answer::Quit))),
            Err(error) => (Next::NotClosed, Err(error.into())),
        }
    }
}

/// What a command leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Quit,
    /// The shell ends, but the dictionary could not be closed.
    NotClosed,
    Failed,
}

impl Next {
    fn is_failure(self) -> bool {
        matches!(self, Next::NotClosed | Next::Failed)
    }
}

/// Returns a line as text, or what is wrong with it.
fn text(line: &[u8], fits: bool) -> Result<&str, Failure> {
    if !fits {
        let message = format!("longer than {LONGEST_LINE} bytes: split the command");
        return Err(Failure::new(Code::UnreadableLine, message));
    }
    std::str::from_utf8(line).map_err(|error| {
        let message = format!("not UTF-8 text from byte {} on", error.valid_up_to());
        Failure::new(Code::UnreadableLine, message)
    })
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
