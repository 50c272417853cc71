//! The folder of a dictionary and the two in it, held open.

use std::io;

use crate::error::Error;
use crate::files::names::{self, Named};
use crate::files::storage::{Directory, io_error};

/// The open folders of a dictionary. What is not there yet is created for updates only.
#[derive(Clone)]
pub(crate) struct Directories {
    pub root: Directory,
    runs: Option<Directory>,
    logs: Option<Directory>,
}

impl Directories {
    /// Opens the folders in `root`. They must not be symbolic links: they would be another dictionary's as well if
    /// the folder was copied.
    pub fn open(root: Directory) -> Result<Self, Error> {
        let runs = root.open_directory(names::RUNS)?;
        let logs = root.open_directory(names::LOGS)?;
        Ok(Directories { root, runs, logs })
    }

    /// Creates the folders that are missing.
    pub fn ensure(&mut self) -> Result<(), Error> {
        self.runs = Some(self.root.ensure_directory(names::RUNS)?);
        self.logs = Some(self.root.ensure_directory(names::LOGS)?);
        Ok(())
    }

    pub fn runs(&self) -> Result<&Directory, Error> {
        self.runs.as_ref().ok_or_else(|| self.missing(names::RUNS))
    }

    pub fn logs(&self) -> Result<&Directory, Error> {
        self.logs.as_ref().ok_or_else(|| self.missing(names::LOGS))
    }

    fn missing(&self, name: &str) -> Error {
        io_error(&self.root.path_of(name), "open the folder")(io::ErrorKind::NotFound.into())
    }

    /// Returns the name of a folder that is not where it was opened: what is written there would not be found.
    pub fn misplaced(&self) -> Result<Option<&'static str>, Error> {
        for (name, folder) in [(names::RUNS, &self.runs), (names::LOGS, &self.logs)] {
            if let Some(folder) = folder
                && !self.root.leads_to(name, folder)?
            {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    pub fn each(&self) -> impl Iterator<Item = &Directory> {
        [Some(&self.root), self.runs.as_ref(), self.logs.as_ref()].into_iter().flatten()
    }

    /// Returns the numbered files.
    pub fn numbered(&self) -> Result<Vec<Named>, Error> {
        let mut numbers = Vec::new();
        for folder in self.each() {
            numbers.extend(folder.list()?.iter().filter_map(|name| Named::parse(name)));
        }
        Ok(numbers)
    }
}
