//! The shell at a terminal. Ctrl-C ends the command that runs, and neither the shell nor the dictionary.

use std::error::Error;
use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::answer::{Answer, Form, Source};
use super::editor::Prompt;
use super::failure::{Code, Failure};
use super::interpreter::Interpreter;
use super::interrupt;

/// How often a running command looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(20);

/// What a person is told whose dictionary cannot be closed.
const STILL_OPEN: &str = "The dictionary is still open: make room and say `quit` again, or `save` it elsewhere. A second \
                          `quit` leaves in any case; what is not durable then is lost.";

/// Executes what a person types. Returns whether all commands succeeded, as far as that matters.
pub fn talk(
    interpreter: &mut Interpreter,
    form: Form,
    strict: bool,
) -> Result<bool, Box<dyn Error>> {
    interrupt::listen()?;
    let mut prompt = Prompt::new()?;
    if form != Form::Json {
        println!(
            "`help` lists the commands, Tab completes them, Ctrl-C ends a command, Ctrl-D the shell."
        );
    }
    let mut was_refused = false;
    loop {
        // At the prompt Ctrl-C is a key: what is pressed from here on is meant for the next command.
        interrupt::forget();
        let presses = interrupt::presses();
        let Some(text) = prompt.line(interpreter.snapshots())? else { break };
        // Several lines may be pasted at once.
        for line in text.lines() {
            match execute(interpreter, line.to_string()) {
                Ok(None) => {}
                Ok(Some(Answer::Quit)) => {
                    match interpreter.close() {
                        Ok(()) => write(form, &Answer::Quit)?,
                        Err(error) if !was_refused => {
                            was_refused = true;
                            println!("{error}. {STILL_OPEN}");
                            continue;
                        }
                        // Whoever says it twice means it; the error is reported at the end.
                        Err(_) => {}
                    }
                    return Ok(true);
                }
                Ok(Some(answer)) => write(form, &answer)?,
                Err(failure) => {
                    form.write_failure(&mut io::stdout(), &failure, Source::Prompt)?;
                    if strict && failure.code != Code::Stopped {
                        return Ok(false);
                    }
                }
            }
            // Who stops a command does not want the next ones that are typed or pasted already.
            if interrupt::presses() != presses {
                prompt.forget_typed_ahead()?;
                break;
            }
        }
    }
    Ok(true)
}

/// Executes a line, up to Ctrl-C. But what changes a dictionary in a folder is executed to its end, because it is
/// logged; of an import, that is all but the reading.
fn execute(interpreter: &mut Interpreter, line: String) -> Result<Option<Answer>, Failure> {
    if !interpreter.changes_folder(&line) {
        let mut copy = interpreter.fork();
        let (copy, outcome) = abandonable(move || {
            let outcome = copy.run(&line);
            (copy, outcome)
        })?;
        interpreter.adopt(copy);
        return outcome;
    }
    let outcome = match interpreter.reader(&line) {
        Some(read) => abandonable(read)?.and_then(|rows| interpreter.insert_rows(rows)).map(Some),
        None => interpreter.run(&line),
    };
    if interrupt::forget() {
        println!(); // The terminal shows ^C in the line.
    }
    outcome
}

/// Does something in a thread of its own, which is abandoned at Ctrl-C: a call of the library cannot be ended
/// halfway.
fn abandonable<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        sender.send(work()).ok(); // Nobody waits for it after Ctrl-C.
    });
    loop {
        let received = receiver.recv_timeout(LOOK);
        if interrupt::is_pressed() {
            println!(); // The terminal shows ^C in the line.
            let message = "stopped by Ctrl-C: the dictionary is as it was before this command";
            return Err(Failure::new(Code::Stopped, message));
        }
        match received {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let panic = worker.join().expect_err("it ended without an answer");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Writes an answer, up to Ctrl-C.
fn write(form: Form, answer: &Answer) -> io::Result<()> {
    match form.write(&mut Stoppable(io::stdout()), answer) {
        Err(error) if interrupt::is_pressed() && error.kind() == STOPPED => {
            println!("\nstopped by Ctrl-C: the rest of the answer is not shown");
            Ok(())
        }
        outcome => outcome,
    }
}

/// The kind of error that Ctrl-C makes of writing; `Interrupted` would be tried again.
const STOPPED: io::ErrorKind = io::ErrorKind::Other;

/// Writes until Ctrl-C is pressed.
struct Stoppable<W>(W);

impl<W: Write> Write for Stoppable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if interrupt::is_pressed() {
            return Err(STOPPED.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
