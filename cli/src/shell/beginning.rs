//! The dictionary that a shell begins with: a new one, one in a folder, or a saved file.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use gpulsm::private::{FileTypes, Replayed, types_in, types_in_folder};
use gpulsm::{Devices, Durability};
use gpulsm_backends::dictionary::{AnyDictionary, Settings, open_at};
use gpulsm_backends::stored::Origin;

use super::command::counted;
use super::type_options::{Mismatch, TypeOptions, describe};
use crate::batch_size;
use crate::byte_size::byte_size;
use crate::progress::Bar;
use crate::stored::{expect_parent, explain, is_saved, what_else};

/// What the program's arguments say of the dictionary.
#[derive(Args)]
pub struct Beginning {
    /// Keep the dictionary in this folder: every change is there the next time, even after a crash. It is
    /// created if there is none
    #[arg(long, value_name = "DIR", conflicts_with = "load")]
    open: Option<PathBuf>,

    /// Begin with the pairs of a file that the command `save` wrote
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,

    /// What is durable in the folder when a change is answered
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Durable::Batch, requires = "open")]
    durability: Durable,

    /// How long the folder's log may become before all pairs are written anew (a checkpoint is begun at half of
    /// it): a number of bytes, or 64M, 2GiB and the like. Default: about as many bytes as the pairs have, and at
    /// least 256 MiB
    #[arg(long, value_name = "SIZE", requires = "open", value_parser = byte_size)]
    log_limit: Option<u64>,

    #[command(flatten)]
    types: TypeOptions,

    /// The batch size b of the dictionary. Default: that of the files, else 65536
    #[arg(long, value_name = "B", value_parser = batch_size())]
    batch_size: Option<u64>,

    /// At most how much memory the dictionary takes, with its snapshots and working space: a number of bytes, or 64M,
    /// 2GiB and the like. What does not fit is refused, and changes nothing. Default: no limit
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    memory_limit: Option<u64>,

    /// Where the dictionary lives: best, cpu, cuda or cuda:N; with a comma between several, it is divided among them
    #[arg(long, value_name = "DEVICE[,DEVICE…]", default_value = "best")]
    device: Devices,
}

/// What is durable when a change is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Durable {
    /// The change: it is on stable storage
    Batch,
    /// The operating system has it: it survives the end of the program, but perhaps not that of the machine
    Os,
    /// Nothing: what came after the last checkpoint is lost, unless the shell ends well
    Checkpoint,
}

impl From<Durable> for Durability {
    fn from(durable: Durable) -> Self {
        match durable {
            Durable::Batch => Durability::Batch,
            Durable::Os => Durability::Os,
            Durable::Checkpoint => Durability::Checkpoint,
        }
    }
}

/// A dictionary, how it is set up, and for people what it is.
pub struct Opened {
    pub dictionary: Box<dyn AnyDictionary>,
    pub settings: Settings,
    pub type_options: TypeOptions,
    pub summary: String,
}

impl Beginning {
    pub fn open(&self) -> Result<Opened, String> {
        let stored = self.stored()?;
        let settings = self.settings(stored.as_ref())?;
        let origin = self.origin();
        let mut bar = Bar::new(if self.load.is_some() { "loading" } else { "opening" });
        let opened = open_at(settings.clone(), &origin, &mut |done, total| bar.tell(done, total));
        drop(bar);
        let dictionary = opened.map_err(explain)?;
        let pairs = dictionary.len().map_err(|error| error.to_string())?;
        let types = describe(settings.types, settings.combine);
        let summary = match (self.path().map(Path::display), stored) {
            (None, _) => format!("a new dictionary in memory, {types}; `save FILE` keeps it"),
            (Some(path), None) => format!("{path}: a new dictionary, {types}"),
            (Some(path), Some(_)) => {
                let in_memory = || "; in memory: `save` keeps changes".into();
                let rest = dictionary.replayed().map_or_else(in_memory, describe_replayed);
                format!("{path}: {}, {types}{rest}", counted(pairs, "pair"))
            }
        };
        Ok(Opened { dictionary, settings, type_options: self.types, summary })
    }

    fn path(&self) -> Option<&Path> {
        self.open.as_deref().or(self.load.as_deref())
    }

    fn origin(&self) -> Origin {
        match (&self.open, &self.load) {
            (Some(path), _) => Origin::Folder {
                path: path.clone(),
                durability: self.durability.into(),
                log_limit: self.log_limit,
            },
            (None, Some(path)) => Origin::File(path.clone()),
            (None, None) => Origin::Nothing,
        }
    }

    /// Returns the types of the files; `None` if there are none yet.
    fn stored(&self) -> Result<Option<FileTypes>, String> {
        if let Some(path) = &self.load {
            if path.is_dir() {
                return types_in(path).map(Some).map_err(explain);
            }
            let found = what_else(path).map_or_else(|| types_in(path).map_err(explain), Err);
            return found.map(Some);
        }
        let Some(path) = &self.open else { return Ok(None) };
        if path.is_file() {
            let hint = if is_saved(path) { "--load reads it" } else { "name a folder" };
            return Err(format!("`{}` is a file: {hint}", path.display()));
        }
        let stored = types_in_folder(path).map_err(explain)?;
        if stored.is_none() {
            expect_parent(path)?;
        }
        Ok(stored)
    }

    /// Chooses types and settings. Those of files need not be given, and must not contradict them.
    fn settings(&self, stored: Option<&FileTypes>) -> Result<Settings, String> {
        let (types, combine) = match (stored, self.path()) {
            (Some(stored), Some(path)) => self
                .types
                .of_files(stored, path)
                .map_err(|mismatch| contradiction(mismatch, path))?,
            _ => self.types.of_new(),
        };
        let batch_size = self.batch_size.map(|size| size as usize);
        let (devices, memory_limit) = (self.device.clone(), self.memory_limit);
        Ok(Settings { types, combine, devices, batch_size, memory_limit })
    }
}

/// Refuses an option that contradicts the files, or types that this program lacks.
fn contradiction(mismatch: Mismatch, path: &Path) -> String {
    match mismatch {
        Mismatch::Unknown(what) => what,
        Mismatch::Option { name, stored, .. } => format!(
            "--{name}: the dictionary in `{}` was created with --{name} {stored}; leave the option out, or choose \
             another path",
            path.display()
        ),
    }
}

/// Says what was replayed from the log, if anything.
fn describe_replayed(replayed: Replayed) -> String {
    let mut text = String::new();
    if replayed.updates > 0 {
        let updates = counted(replayed.updates as usize, "update");
        text += &format!("; {updates} replayed from the log");
    }
    if replayed.torn_bytes > 0 {
        text += "; an incomplete update at the end of the log, as a crash leaves it, was cut off";
    }
    text
}
