//! The shell at a terminal, as a person uses it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// A shell, and the terminal that it talks to.
struct Terminal {
    child: Child,
    screen: File,
    /// What was read and not yet waited for.
    text: String,
    /// Keeps the history apart.
    state: tempfile::TempDir,
}

/// Opens a terminal: returns the end of the person, and that of the program.
fn open() -> (File, OwnedFd) {
    let (mut person, mut program) = (0, 0);
    // SAFETY: both descriptors are written; the other arguments may be null.
    let opened =
        unsafe { libc::openpty(&mut person, &mut program, null_mut(), null_mut(), null_mut()) };
    assert_eq!(opened, 0, "{}", io::Error::last_os_error());
    // SAFETY: the descriptors are open, and nobody else owns them.
    unsafe { (File::from_raw_fd(person), OwnedFd::from_raw_fd(program)) }
}

impl Terminal {
    /// Starts a shell.
    fn start(arguments: &[&str]) -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let (screen, program) = open();
        let end = || program.try_clone().expect("another descriptor");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpulsm"));
        command.arg("shell").args(arguments).current_dir(state.path());
        command.env("TERM", "xterm").env("NO_COLOR", "1").env("XDG_STATE_HOME", state.path());
        command.stdin(end()).stdout(end()).stderr(end());
        let controlled = || {
            // SAFETY: only system calls between fork and exec; standard input is the terminal.
            match unsafe { libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 } {
                true => Err(io::Error::last_os_error()),
                false => Ok(()),
            }
        };
        // SAFETY: the closure allocates nothing and takes no lock.
        unsafe { command.pre_exec(controlled) };
        let child = command.spawn().expect("the program starts");
        Terminal { child, screen, text: String::new(), state }
    }

    fn press(&mut self, keys: &str) {
        self.screen.write_all(keys.as_bytes()).expect("the terminal is open");
    }

    /// Types something at the prompt.
    #[track_caller]
    fn enter(&mut self, keys: &str) {
        self.wait_for(READING);
        self.press(keys);
    }

    /// Types a command, and waits for a text that follows.
    #[track_caller]
    fn say(&mut self, line: &str, expected: &str) -> String {
        self.enter(&format!("{line}\r"));
        self.wait_for(expected)
    }

    /// Reads until a text is on the screen, and returns all up to its end.
    #[track_caller]
    fn wait_for(&mut self, expected: &str) -> String {
        loop {
            if let Some(at) = self.text.find(expected) {
                let rest = self.text.split_off(at + expected.len());
                return std::mem::replace(&mut self.text, rest);
            }
            let mut ready =
                libc::pollfd { fd: self.screen.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor, which is open.
            let count = unsafe { libc::poll(&mut ready, 1, 60_000) };
            assert_eq!(count, 1, "{expected:?} does not follow {:?}", self.text);
            let mut bytes = [0; 1 << 12];
            let read = self.screen.read(&mut bytes).unwrap_or(0);
            assert!(read > 0, "the shell ended before {expected:?}: {:?}", self.text);
            self.text += &String::from_utf8_lossy(&bytes[..read]);
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.state.path().join(name), text).expect("a file can be written");
    }

    /// Presses Ctrl-D, and expects a good end.
    fn end(mut self) {
        self.enter("\x04");
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok(); // After a test that failed.
    }
}

const CTRL_C: &str = "\x03";

/// What the editor writes before it reads keys, and once a line is read: Ctrl-C is a signal again.
const READING: &str = "\x1b[?2004h";
const LINE_READ: &str = "\x1b[?2004l\r\n";

/// The pairs (0, 0), (1, 1), … as a file.
fn pairs(count: u32) -> String {
    (0..count).map(|key| format!("{key},{key}\n")).collect()
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

#[test]
fn ctrl_c_ends_a_command_and_keeps_the_dictionary() {
    let mut terminal = Terminal::start(&[]);
    terminal.say("insert 1 10 2 20", "ok");
    make_pipe(&terminal.state.path().join("endless.csv"));
    // Nobody writes into the pipe: this would take forever.
    terminal.say("import endless.csv", LINE_READ);
    terminal.press(CTRL_C);
    terminal.wait_for("stopped by Ctrl-C: the dictionary is as it was before this command");
    terminal.say("len", "2 keys");
    terminal.say("insert 3 30", "ok");
    terminal.say("len", "3 keys");
    terminal.end();
}

#[test]
fn lines_that_are_pasted_or_typed_ahead_are_executed_in_turn() {
    let mut terminal = Terminal::start(&[]);
    // A terminal without bracketed paste sends lines at once, as if they were typed.
    terminal.enter("insert 1 10\rinsert 2 20\rlen\r");
    terminal.wait_for("2 keys");
    // A terminal with it sends them as one text.
    terminal.enter("\x1b[200~insert 3 30\ninsert 4 40\nlen\x1b[201~\r");
    terminal.wait_for("4 keys");
    // A longer paste than the editor reads at once.
    let lines: String = (0..200).map(|key| format!("insert {key} {key}\r")).collect();
    terminal.enter(&lines[..lines.len() / 2]);
    terminal.press(&lines[lines.len() / 2..]);
    terminal.press("len\r");
    terminal.wait_for("200 keys");

    // While a command runs.
    let pipe = terminal.state.path().join("pairs.csv");
    make_pipe(&pipe);
    terminal.say("import pairs.csv", LINE_READ);
    terminal.press("insert 500 1\rlen\rcontains 5");
    std::fs::write(pipe, "300,300\n").expect("the shell reads it");
    terminal.wait_for("ok, 1 row");
    terminal.wait_for("202 keys");
    terminal.press("00\r");
    terminal.wait_for("500  yes");
    terminal.end();
}

#[test]
fn ctrl_c_forgets_the_lines_that_follow_a_command() {
    let mut terminal = Terminal::start(&[]);
    make_pipe(&terminal.state.path().join("endless.csv"));
    for (before, between, after) in [("", "\r", "\r"), ("\x1b[200~", "\n", "\x1b[201~\r")] {
        let lines = ["import endless.csv", "insert 1 10", "insert 2 20"].join(between);
        terminal.enter(&format!("{before}{lines}{after}"));
        terminal.wait_for(LINE_READ);
        terminal.press(CTRL_C);
        terminal.wait_for("stopped by Ctrl-C");
        terminal.say("len", "0 keys");
    }
    terminal.say("insert 1 10", "ok");
    // The history is still there.
    terminal.enter("\x1b[A\x1b[A\r");
    terminal.wait_for("1 key");
    terminal.end();
}

#[test]
fn ctrl_c_ends_a_long_answer() {
    let mut terminal = Terminal::start(&[]);
    terminal.write("many.csv", &pairs(200_000));
    terminal.say("import many.csv", "200000 rows");
    // The terminal holds a few thousand bytes: the shell waits for us in the middle.
    terminal.say("range 0 999999 --limit all", "50  50\r\n");
    terminal.press(CTRL_C);
    terminal.wait_for("stopped by Ctrl-C: the rest of the answer is not shown");
    terminal.say("len", "200000 keys");
    terminal.end();
}

#[test]
fn a_terminal_shows_a_thousand_pairs_and_how_many_more_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("many.csv");
    std::fs::write(&path, pairs(1500)).expect("a file can be written");
    let mut terminal = Terminal::start(&["--import", path.to_str().expect("UTF-8")]);
    terminal.wait_for("many.csv: 1500 rows");
    let shown = terminal.say("range 0 9999", "… and 500 pairs more; add --limit N");
    assert!(shown.contains("\n999  999") && !shown.contains("1000  1000"), "{shown}");
    terminal.say("range 0 9999 --limit all", "1499  1499");
    terminal.end();
}

#[test]
fn at_the_prompt_ctrl_c_clears_the_line() {
    let mut terminal = Terminal::start(&[]);
    terminal.wait_for("a new dictionary in memory, u32 keys, u32 values; `save FILE` keeps it\r\n");
    terminal.enter("insert 1 10");
    terminal.wait_for(" 10");
    terminal.press(CTRL_C);
    terminal.say("len", "0 keys");
    terminal.end();
}

#[test]
fn the_prompt_names_the_snapshot_in_use() {
    let mut terminal = Terminal::start(&[]);
    terminal.say("snapshot save before", "ok");
    terminal.say("snapshot use before", "ok");
    let shown = terminal.say("insert 1 10", "error: the snapshot `before` is in use");
    assert!(shown.contains("gpulsm (before)> "), "{shown:?}");
    terminal.say("snapshot leave", "ok");
    let shown = terminal.say("len", "0 keys");
    assert!(shown.contains("gpulsm> "), "{shown:?}");
    terminal.end();
}

#[test]
fn tab_completes_what_follows_help_and_snapshot_and_names_in_quotes() {
    let mut terminal = Terminal::start(&[]);
    terminal.write("two words.csv", "1,10\n");
    terminal.say("help predec\t", "the last pair whose key is K or less");
    terminal.say("snapshot sa\tmorning", "ok");
    terminal.say("snapshot use mor\t", "ok");
    terminal.say("snapshot", "(in use)");
    terminal.say("snapshot le\t", "ok");
    terminal.say("import \"two\t", "ok, 1 row");
    terminal.say("import 'two\t", "ok, 1 row");
    terminal.say("import two\t", "ok, 1 row");
    terminal.end();
}

#[test]
fn a_strict_shell_ends_with_the_first_error_here_too() {
    let mut terminal = Terminal::start(&["--strict"]);
    terminal.say("oops", "error: word 1, `oops`");
    assert_eq!(terminal.child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn an_interrupt_ends_a_script_as_any_program() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpulsm"));
    command.arg("shell").stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: one system call between fork and exec. Whoever runs the tests may ignore the signal.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"len\n").expect("it listens");
    child.stdout.take().expect("a pipe").read_exact(&mut [0; 7]).expect("an answer");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    // A shell makes status 130 of it.
    assert_eq!(child.wait().expect("it ends").signal(), Some(libc::SIGINT));
}

#[test]
fn a_folder_is_introduced_changed_and_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("prices").display().to_string();
    let mut terminal = Terminal::start(&["--open", &path, "--value", "f32"]);
    terminal.wait_for("prices: a new dictionary, u32 keys, f32 values\r\n");
    terminal.say("insert 1 0.5", "ok\r\n");
    terminal.say("snapshot save one", "ok\r\n");
    terminal.say("insert 2 1.5", "ok\r\n");
    terminal.say("snapshot use one", "ok\r\n");
    terminal.say("len", "1 key\r\n");
    terminal.say("snapshot leave", "ok\r\n");
    terminal.say("len", "2 keys\r\n");
    terminal.say("checkpoint", "ok\r\n");
    terminal.say("delete 1", "ok\r\n");
    terminal.end();

    let mut terminal = Terminal::start(&["--open", &path]);
    terminal.wait_for("prices: 1 pair, u32 keys, f32 values; 1 update replayed from the log\r\n");
    let saved = folder.path().join("saved").display().to_string();
    terminal.say(&format!("save {saved}"), "ok, 1 pair, ");
    terminal.end();

    let mut terminal = Terminal::start(&["--load", &saved]);
    terminal.wait_for("saved: 1 pair, u32 keys, f32 values; in memory: `save` keeps changes\r\n");
    terminal.end();
}

#[test]
fn ctrl_c_ends_queries_of_a_folder_and_imports_that_still_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("prices").display().to_string();
    let mut terminal = Terminal::start(&["--open", &path]);
    terminal.write("pairs.csv", &pairs(200_000));
    make_pipe(&terminal.state.path().join("endless.csv"));
    terminal.say("insert 1 10", "ok\r\n");
    terminal.say("import endless.csv", LINE_READ);
    terminal.press(CTRL_C);
    terminal.wait_for("stopped by Ctrl-C: the dictionary is as it was before this command\r\n");
    terminal.say("len", "1 key\r\n");
    terminal.say("import pairs.csv", "ok, 200000 rows read");
    terminal.say("range 0 999999 --limit all", "50  50\r\n");
    terminal.press(CTRL_C);
    terminal.wait_for("stopped by Ctrl-C: the rest of the answer is not shown");
    terminal.say("insert 1000000 1", "ok\r\n");
    terminal.end();
    let mut terminal = Terminal::start(&["--open", &path]);
    terminal.wait_for("prices: 200001 pairs, ");
    terminal.end();
}
