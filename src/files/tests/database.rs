//! A small dictionary of `u64` keys and values that lives in a folder: the least that tests of files need.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::files::checkpoint::Checkpoint;
use crate::files::folder::{Durability, Folder, Options};
use crate::files::opening::Opening;
use crate::files::record::Update;
use crate::files::run::{RunInfo, RunReader, RunShape, Section, Widths};
use crate::files::schema::{Kind, Part, Schema};
use crate::files::simulated::{Random, Simulated};
use crate::files::storage::Storage;

pub const PATH: &str = "/dictionary";
pub const WIDTHS: Widths = Widths { key: 8, value: 8 };

/// What a dictionary contains.
pub type Pairs = BTreeMap<u64, u64>;

/// Changes: a value, or a deletion.
type Layer = BTreeMap<u64, Option<u64>>;

#[derive(Clone, Debug)]
pub enum Change {
    Batch { inserts: Vec<(u64, u64)>, deletes: Vec<u64> },
    RangeDelete { ranges: Vec<(u64, u64)> },
    Clear,
}

impl Change {
    /// Returns a random change of few keys.
    pub fn random(random: &mut Random) -> Self {
        let key = |random: &mut Random| random.below(12) as u64;
        match random.below(12) {
            0 => Change::Clear,
            1 | 2 => {
                let ranges = (0..1 + random.below(2)).map(|_| (key(random), key(random)));
                Change::RangeDelete { ranges: ranges.collect() }
            }
            _ => Change::Batch {
                inserts: (0..random.below(5)).map(|_| (key(random), random.next())).collect(),
                deletes: (0..random.below(3)).map(|_| key(random)).collect(),
            },
        }
    }

    /// Applies the change to what a dictionary contains: the meaning that everything is compared with.
    pub fn apply(&self, pairs: &mut Pairs) {
        match self {
            Change::Batch { inserts, deletes } => {
                pairs.extend(inserts.iter().copied());
                pairs.retain(|key, _| !deletes.contains(key));
            }
            Change::RangeDelete { ranges } => {
                pairs.retain(|key, _| !ranges.iter().any(|(low, high)| low <= key && key <= high));
            }
            Change::Clear => pairs.clear(),
        }
    }

    fn with_update<T>(&self, body: impl FnOnce(Update<'_>) -> T) -> T {
        let bytes = |keys: &mut dyn Iterator<Item = u64>| -> Vec<u8> {
            keys.flat_map(u64::to_le_bytes).collect()
        };
        match self {
            Change::Batch { inserts, deletes } => {
                let keys = &bytes(&mut inserts.iter().map(|pair| pair.0));
                let values = &bytes(&mut inserts.iter().map(|pair| pair.1));
                let deletes = &bytes(&mut deletes.iter().copied());
                body(Update::Batch { keys, values, assigned: 0, deletes })
            }
            Change::RangeDelete { ranges } => body(Update::RangeDelete {
                lows: &bytes(&mut ranges.iter().map(|range| range.0)),
                highs: &bytes(&mut ranges.iter().map(|range| range.1)),
            }),
            Change::Clear => body(Update::Clear),
        }
    }

    fn from_update(update: Update<'_>) -> Self {
        match update {
            Update::Batch { keys, values, assigned, deletes } => {
                assert_eq!(assigned, 0);
                let inserts = numbers(keys).into_iter().zip(numbers(values)).collect();
                Change::Batch { inserts, deletes: numbers(deletes) }
            }
            Update::RangeDelete { lows, highs } => Change::RangeDelete {
                ranges: numbers(lows).into_iter().zip(numbers(highs)).collect(),
            },
            Update::Clear => Change::Clear,
        }
    }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect()
}

pub fn schema() -> Schema {
    let key = vec![Part { kind: Kind::Unsigned, width: 8 }];
    let (value_name, notes) = ("u64".into(), Vec::new());
    Schema { key, widths: WIDTHS, value_name, rule: 0, element: None, notes }
}

/// A dictionary in a folder.
pub struct Database {
    pub folder: Arc<Folder>,
    pub pairs: Pairs,
    /// The layers that have a file, or will, the oldest first.
    layers: Vec<(Layer, Option<RunInfo>)>,
    top: Layer,
}

/// A checkpoint on its way: the layers that it contains.
pub struct Saving {
    checkpoint: Checkpoint,
    layers: Vec<(Layer, Option<RunInfo>)>,
    next: usize,
}

impl Database {
    pub fn open(storage: &Simulated, durability: Durability) -> Result<Self, Error> {
        Self::open_limited(storage, durability, 1 << 20)
    }

    pub fn open_limited(
        storage: &Simulated,
        durability: Durability,
        log_limit: u64,
    ) -> Result<Self, Error> {
        let settings = [("batch_size".to_string(), 8)];
        let storage = Storage::new(storage.clone());
        let opening = Opening::open(&storage, Path::new(PATH), Some((&schema(), &settings)))?;
        let mut layers = Vec::new();
        for (index, info) in opening.manifest().runs.iter().enumerate() {
            layers.push((read_layer(&opening.run(index)?)?, Some(*info)));
        }
        let mut pairs = Pairs::new();
        layers.iter().for_each(|(layer, _)| apply_layer(&mut pairs, layer));
        let mut changes = Vec::new();
        opening.replay(&mut |sequence, update| {
            changes.push((sequence, Change::from_update(update)));
            Ok(())
        })?;
        let numbers = changes.iter().map(|change| change.0);
        assert!(numbers.eq(opening.manifest().sequence + 1..=opening.recovered().last));
        let folder =
            opening.finish(&storage, Options { durability, log_limit: Some(log_limit) })?;
        let mut database = Database { folder, pairs, layers, top: Layer::new() };
        changes.iter().for_each(|(_, change)| database.install(change));
        Ok(database)
    }

    /// Logs and applies a change, which is then to be committed.
    pub fn append(&mut self, change: &Change) -> Result<(Arc<Folder>, u64), Error> {
        let sequence = change.with_update(|update| self.folder.append(&update))?;
        self.install(change);
        Ok((self.folder.clone(), sequence))
    }

    /// Logs and applies a change: after an error it is not applied.
    pub fn update(&mut self, change: &Change) -> Result<(), Error> {
        let sequence = change.with_update(|update| self.folder.append(&update))?;
        self.folder.commit(sequence)?;
        self.install(change);
        Ok(())
    }

    /// Logs a change that cannot be applied.
    pub fn refuse(&mut self, change: &Change) -> Result<(), Error> {
        let sequence = change.with_update(|update| self.folder.append(&update))?;
        self.folder.undo(sequence)
    }

    /// Applies a change as part of a checkpoint.
    pub fn update_unlogged(&mut self, change: &Change) -> Result<(), Error> {
        let checkpoint = self.folder.begin_unlogged()?.expect("no other checkpoint is running");
        let before = (self.pairs.clone(), self.layers.clone(), self.top.clone());
        self.install(change);
        let saving = self.saving(checkpoint, true);
        let result = self.save(saving);
        if result.is_err() {
            (self.pairs, self.layers, self.top) = before;
        }
        result
    }

    fn install(&mut self, change: &Change) {
        let old = self.pairs.clone();
        change.apply(&mut self.pairs);
        let gone = old.keys().filter(|key| !self.pairs.contains_key(key));
        self.top.extend(gone.map(|&key| (key, None)));
        self.top.extend(
            self.pairs
                .iter()
                .map(|(&key, &value)| (key, Some(value)))
                .filter(|(key, value)| old.get(key) != value.as_ref()),
        );
    }

    /// Writes a whole checkpoint.
    pub fn checkpoint(&mut self, merges: bool) -> Result<(), Error> {
        let saving = self.begin_checkpoint(merges)?;
        self.save(saving)
    }

    /// Begins a checkpoint; the layers are merged into one, or a layer is added.
    pub fn begin_checkpoint(&mut self, merges: bool) -> Result<Saving, Error> {
        let checkpoint = self.folder.begin_checkpoint()?.expect("no other checkpoint is running");
        assert_eq!(checkpoint.sequence(), self.folder.sequence());
        Ok(self.saving(checkpoint, merges))
    }

    fn saving(&mut self, checkpoint: Checkpoint, merges: bool) -> Saving {
        if merges {
            let all = self.pairs.iter().map(|(&key, &value)| (key, Some(value)));
            self.layers = vec![(all.collect(), None)];
            self.top.clear();
        } else {
            self.layers.push((std::mem::take(&mut self.top), None));
        }
        Saving { checkpoint, layers: self.layers.clone(), next: 0 }
    }

    fn save(&mut self, mut saving: Saving) -> Result<(), Error> {
        while saving.step()? {}
        self.finish_checkpoint(saving)
    }

    pub fn finish_checkpoint(&mut self, mut saving: Saving) -> Result<(), Error> {
        while saving.step()? {}
        let runs = saving.layers.iter().filter_map(|(_, info)| *info).collect();
        saving.checkpoint.finish(runs)?;
        // Layers were only added meanwhile, so those of the checkpoint come first.
        for (mine, (_, info)) in self.layers.iter_mut().zip(&saving.layers) {
            mine.1 = *info;
        }
        Ok(())
    }
}

impl Saving {
    /// Cancels the checkpoint, after the first keys of the next layer were written or before.
    pub fn cancel(mut self, writes_some: bool) -> Result<(), Error> {
        if writes_some && let Some((layer, None)) = self.layers.get(self.next) {
            let shape = RunShape { widths: WIDTHS, entries: layer.len() as u64, has_marks: true };
            let mut run = self.checkpoint.create_run(shape)?;
            let keys = layer.keys().take(layer.len() / 2).flat_map(|key| key.to_le_bytes());
            run.write(Section::Keys, &keys.collect::<Vec<_>>())?;
        }
        self.checkpoint.cancel();
        Ok(())
    }

    /// Writes the next layer without a file; returns whether there was one.
    pub fn step(&mut self) -> Result<bool, Error> {
        let Some((layer, info)) = self.layers.get_mut(self.next) else { return Ok(false) };
        self.next += 1;
        if info.is_none() {
            let shape = RunShape { widths: WIDTHS, entries: layer.len() as u64, has_marks: true };
            let mut run = self.checkpoint.create_run(shape)?;
            let half = layer.len() / 2;
            let keys: Vec<u8> = layer.keys().flat_map(|key| key.to_le_bytes()).collect();
            let values = layer.values().flat_map(|value| value.unwrap_or(0).to_le_bytes());
            run.write(Section::Keys, &keys[..8 * half])?;
            run.write(Section::Values, &values.collect::<Vec<_>>())?;
            run.write(Section::Keys, &keys[8 * half..])?;
            run.write(Section::Marks, &marks(layer))?;
            *info = Some(self.checkpoint.finish_run(run, 0)?);
        }
        Ok(true)
    }
}

/// Returns the marks of a layer: live, or a tombstone.
fn marks(layer: &Layer) -> Vec<u8> {
    let is_live: Vec<_> = layer.values().map(Option::is_some).collect();
    let words = is_live.chunks(32).flat_map(|group| {
        let plane = |wanted| {
            let bits = group.iter().enumerate().filter(|&(_, &live)| live == wanted);
            bits.fold(0u32, |word, (bit, _)| word | 1 << bit)
        };
        [plane(true), plane(false)]
    });
    words.flat_map(u32::to_le_bytes).collect()
}

fn read_layer(run: &RunReader) -> Result<Layer, Error> {
    assert_eq!(run.shape().widths, WIDTHS);
    let section = |section| {
        let mut bytes = vec![0; run.section_len(section) as usize];
        run.read_part(section, 0, &mut bytes, &mut |_| ()).map(|()| bytes)
    };
    let (keys, values) = (numbers(&section(Section::Keys)?), numbers(&section(Section::Values)?));
    let marks = numbers(&section(Section::Marks)?);
    let is_live = |index: usize| (marks[index / 32] >> (index % 32)) & 1 == 1;
    let pairs = keys.into_iter().zip(values).enumerate();
    Ok(pairs.map(|(index, (key, value))| (key, is_live(index).then_some(value))).collect())
}

fn apply_layer(pairs: &mut Pairs, layer: &Layer) {
    for (&key, &value) in layer {
        match value {
            Some(value) => pairs.insert(key, value),
            None => pairs.remove(&key),
        };
    }
}
