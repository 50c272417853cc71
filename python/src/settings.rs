//! How a dictionary is made: its types, named at run time, its settings, and where its pairs come from.

use std::path::Path;

use gpulsm::private::{Element, Encoding, StoredTypes};
use gpulsm::{CleanupPolicy, Combine, Devices, Dictionary, Durability, ScalarKey, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::durable::Types;
use crate::error::raise;
use crate::typed::{AnyDictionary, Typed};

/// How a dictionary is to be, whatever its types.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    device: String,
    /// Default: that of the files.
    batch_size: Option<usize>,
    threads: Option<usize>,
    memory_limit: Option<u64>,
    max_merge_per_batch: Option<usize>,
    cleans_itself: bool,
    /// What an insert does to a key that is already there, and the type of number that values consist of.
    combine: (String, String),
}

/// How the files of a dictionary are written.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Files {
    durability: String,
    log_limit: Option<u64>,
    /// Whether to create a dictionary where there is none.
    create: bool,
}

/// Where the pairs of a dictionary come from.
pub enum Source<'a> {
    /// It is empty.
    Nothing,
    /// A file that was saved.
    File(&'a Path, Report<'a>),
    /// A folder, in which it lives.
    Folder(&'a Path, &'a Files, Report<'a>),
}

/// Is told how many bytes were read, of how many.
type Report<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// What a dictionary is made of, beside its settings.
struct New<'a> {
    devices: Devices,
    types: StoredTypes,
    source: Source<'a>,
}

impl Settings {
    /// The devices that are named.
    pub fn devices(&self) -> PyResult<Devices> {
        self.device.parse().map_err(raise)
    }

    /// A dictionary of these types.
    pub fn make(
        &self,
        types: &Types,
        devices: Devices,
        source: Source<'_>,
    ) -> PyResult<Box<dyn AnyDictionary>> {
        let (key, value_width) = types.in_memory();
        let new = New { devices, types: types.in_files()?, source };
        match key {
            "uint32" => self.with_key::<u32>(value_width, new),
            "uint64" => self.with_key::<u64>(value_width, new),
            "int32" => self.with_key::<i32>(value_width, new),
            "int64" => self.with_key::<i64>(value_width, new),
            "uint128" => self.with_key::<u128>(value_width, new),
            "float32" => self.with_key::<f32>(value_width, new),
            "float64" => self.with_key::<f64>(value_width, new),
            _ => Err(PyTypeError::new_err(format!("no keys are of type {key}"))),
        }
    }

    fn with_key<K: ScalarKey>(
        &self,
        value_width: usize,
        new: New<'_>,
    ) -> PyResult<Box<dyn AnyDictionary>> {
        match value_width {
            0 => self.with_types::<K, ()>(new),
            4 => self.with_types::<K, [u8; 4]>(new),
            8 => self.with_types::<K, [u8; 8]>(new),
            16 => self.with_types::<K, [u8; 16]>(new),
            _ => Err(PyTypeError::new_err(format!("no values have {value_width} bytes"))),
        }
    }

    fn with_types<K: ScalarKey, V: Value>(&self, new: New<'_>) -> PyResult<Box<dyn AnyDictionary>> {
        let policy =
            if self.cleans_itself { CleanupPolicy::Automatic } else { CleanupPolicy::Manual };
        let mut builder = Dictionary::<K, V>::builder()
            .devices(&new.devices)
            .stored_as(new.types)
            .cleanup_policy(policy);
        if let Some(batch_size) = self.batch_size {
            builder = builder.batch_size(batch_size);
        }
        if let Some(threads) = self.threads {
            builder = builder.threads(threads);
        }
        if let Some(bytes) = self.memory_limit {
            builder = builder.memory_limit(bytes);
        }
        if let Some(entries) = self.max_merge_per_batch {
            builder = builder.max_merge_per_batch(entries);
        }
        let (rule, element) = &self.combine;
        let rule = rule_of(rule)?;
        if rule != Combine::Replace {
            builder = builder.combine_as(rule, element_of(element)?);
        }
        let made = match new.source {
            Source::Nothing => builder.build(),
            Source::File(path, progress) => builder.load_with(path, progress),
            Source::Folder(path, files, progress) => {
                builder =
                    builder.durability(durability_of(&files.durability)?).create(files.create);
                if let Some(bytes) = files.log_limit {
                    builder = builder.log_limit(bytes);
                }
                builder.open_with(path, progress)
            }
        };
        Ok(Box::new(Typed::new(made.map_err(raise)?)))
    }
}

/// The numbers that values consist of, by NumPy's names.
const ELEMENTS: [(&str, Element); 6] = [
    ("uint32", Element { width: 4, encoding: Encoding::Unsigned }),
    ("uint64", Element { width: 8, encoding: Encoding::Unsigned }),
    ("int32", Element { width: 4, encoding: Encoding::Signed }),
    ("int64", Element { width: 8, encoding: Encoding::Signed }),
    ("float32", Element { width: 4, encoding: Encoding::Float }),
    ("float64", Element { width: 8, encoding: Encoding::Float }),
];

/// The type of number that values, named at run time, consist of.
pub fn element_of(name: &str) -> PyResult<Element> {
    let known = ELEMENTS.into_iter().find(|(known, _)| *known == name);
    known
        .map(|(_, element)| element)
        .ok_or_else(|| PyTypeError::new_err(format!("{name} is no number")))
}

/// The name of a type of number; empty if there is none.
pub fn element_name(element: Element) -> &'static str {
    let known = ELEMENTS.into_iter().find(|(_, known)| *known == element);
    known.map_or("", |(name, _)| name)
}

/// The rule of this name.
fn rule_of(rule: &str) -> PyResult<Combine> {
    Ok(match rule {
        "replace" => Combine::Replace,
        "add" => Combine::Add,
        "min" => Combine::Min,
        "max" => Combine::Max,
        "or" => Combine::Or,
        "and" => Combine::And,
        "xor" => Combine::Xor,
        _ => return Err(PyTypeError::new_err(format!("{rule} is no rule"))),
    })
}

fn durability_of(name: &str) -> PyResult<Durability> {
    Ok(match name {
        "batch" => Durability::Batch,
        "os" => Durability::Os,
        "checkpoint" => Durability::Checkpoint,
        _ => return Err(PyTypeError::new_err(format!("{name} is no durability"))),
    })
}
