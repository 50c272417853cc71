//! What is wrong with a command: a message for people, a code for programs.

use std::fmt::Display;

use gpulsm::Error;

/// The reason why a command was not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

/// The kind of a failure. Names in JSON stay as they are from version to version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// There is no such command.
    UnknownCommand,
    /// An argument is missing, unexpected, or not what the command takes.
    WrongArgument,
    /// A file cannot be read or written, or has the wrong content.
    File,
    /// There is no snapshot of this name, or already one.
    Snapshot,
    /// A snapshot is in use, which never changes.
    ReadOnly,
    /// The dictionary reported an error: too little memory, a device that failed.
    Dictionary,
    /// The line is too long, or no UTF-8 text.
    UnreadableLine,
    /// Ctrl-C was pressed.
    Stopped,
}

impl Code {
    /// Returns all codes, in the order in which the help lists them.
    #[cfg(test)]
    const ALL: [Code; 8] = [
        Code::UnknownCommand,
        Code::WrongArgument,
        Code::File,
        Code::Snapshot,
        Code::ReadOnly,
        Code::Dictionary,
        Code::UnreadableLine,
        Code::Stopped,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Code::UnknownCommand => "unknown_command",
            Code::WrongArgument => "wrong_argument",
            Code::File => "file",
            Code::Snapshot => "snapshot",
            Code::ReadOnly => "read_only",
            Code::Dictionary => "dictionary",
            Code::UnreadableLine => "unreadable_line",
            Code::Stopped => "stopped",
        }
    }
}

impl Failure {
    pub fn new(code: Code, message: impl Display) -> Self {
        Failure { code, message: message.to_string() }
    }

    /// Makes a failure of what is wrong with a file.
    pub fn file(message: impl Display) -> Self {
        Failure::new(Code::File, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::new(Code::Dictionary, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_code() {
        for code in Code::ALL {
            assert!(crate::shell::NOTES.contains(code.name()), "{}", code.name());
        }
    }
}
