//! The files that a dictionary under test lives in. At random moments it is checkpointed, closed or crashed, and
//! opened again with other settings.

use crate::builder::Builder;
use crate::device::Device;
use crate::error::Error;
use crate::files::Durability;
use crate::files::simulated::{Random, Simulated, Survivors};
use crate::key::Key;
use crate::testing::subject::Subject;
use crate::value::Value;

const PATH: &str = "/dictionary";

/// Settings that may differ whenever a folder is opened.
struct Settings {
    /// `None`: the size that the folder has.
    batch_size: Option<usize>,
    device: Device,
    durability: Durability,
    log_limit: u64,
}

/// Opens the dictionary in the folder of a storage. Compiled for every pair of types, and little else is.
type Open = dyn Fn(&Simulated, Settings) -> Result<Box<dyn Subject>, Error>;

/// Where a dictionary lives, and how it is opened again.
pub(super) struct Home {
    storage: Simulated,
    open: Box<Open>,
    devices: [Device; 2],
    durability: Durability,
    random: Random,
}

impl Home {
    /// Creates a dictionary in a folder. What happens to it depends on the seed.
    pub fn create<K: Key, V: Value>(
        builder: Builder<K, V>,
        device: Device,
        seed: u64,
    ) -> Result<(Self, Box<dyn Subject>), Error> {
        let open =
            move |storage: &Simulated, settings: Settings| -> Result<Box<dyn Subject>, Error> {
                let mut builder = builder.clone();
                builder.batch_size = settings.batch_size;
                let builder = builder.device(settings.device).durability(settings.durability);
                let builder = builder.log_limit(settings.log_limit);
                Ok(Box::new(builder.open_simulated(storage, PATH)?))
            };
        let mut home = Home {
            storage: Simulated::new(),
            open: Box::new(open),
            devices: [device, Device::cpu()],
            durability: Durability::Batch,
            random: Random(seed),
        };
        let dictionary = home.open()?;
        Ok((home, dictionary))
    }

    fn open(&mut self) -> Result<Box<dyn Subject>, Error> {
        let random = &mut self.random;
        self.durability =
            [Durability::Batch, Durability::Os, Durability::Checkpoint][random.below(3)];
        let settings = Settings {
            batch_size: [None, Some(1), Some(5), Some(64), Some(1000)][random.below(5)],
            device: self.devices[random.below(2)],
            durability: self.durability,
            // Some updates are too large for it, or a checkpoint is due after each.
            log_limit: [100, 2_000, 1 << 20][random.below(3)],
        };
        (self.open)(&self.storage, settings)
    }

    /// Lets something happen to a dictionary after a change, or nothing. Returns whether it was opened again.
    pub fn disturb(&mut self, dictionary: &mut Box<dyn Subject>) -> Result<bool, Error> {
        match self.random.below(12) {
            0 => dictionary.checkpoint().map(|()| false),
            1 => self.reopen(dictionary).map(|()| true),
            2 => self.crash(dictionary).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Closes the dictionary, one way or the other, and opens it.
    fn reopen(&mut self, dictionary: &mut Box<dyn Subject>) -> Result<(), Error> {
        let in_memory = dictionary.fork();
        let open = std::mem::replace(dictionary, in_memory);
        match self.random.below(2) {
            0 => open.close()?,
            _ => drop(open),
        }
        *dictionary = self.open()?;
        Ok(())
    }

    /// Crashes when everything is durable, and recovers.
    fn crash(&mut self, dictionary: &mut Box<dyn Subject>) -> Result<(), Error> {
        match self.durability {
            Durability::Batch => {}
            Durability::Os => dictionary.sync()?,
            Durability::Checkpoint => dictionary.checkpoint()?,
        }
        let ways = Survivors::EACH.len();
        let crashed = match Survivors::EACH.get(self.random.below(ways + 1)) {
            Some(&way) => self.storage.moment().crash(way, self.random.next()),
            None => self.storage.moment().end_process(),
        };
        // What is still written to the old storage, by a checkpoint in the background, is lost.
        self.storage = crashed;
        *dictionary = self.open()?;
        Ok(())
    }
}
