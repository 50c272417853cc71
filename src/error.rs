//! The error type, and checks that return it.

use std::io;
use std::path::PathBuf;

use crate::device::Device;
use crate::huge_pages::advise_huge_pages;
use crate::stats::MemoryStats;

/// The largest batch size b that [`Builder::batch_size`](crate::Builder::batch_size) accepts.
pub const MAX_BATCH_SIZE: usize = 1 << 40;

/// The most shards that [`Builder::devices`](crate::Builder::devices) makes.
pub const MAX_SHARDS: usize = 256;

/// Why a call failed. The dictionary is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two slices that belong together element by element have different lengths.
    #[error(
        "`{left}` has {left_len} elements but `{right}` has {right_len}: \
         give one `{right}` element for each `{left}` element"
    )]
    LengthMismatch {
        /// The first argument's name.
        left: &'static str,
        /// Its length.
        left_len: usize,
        /// The second argument's name.
        right: &'static str,
        /// Its length.
        right_len: usize,
    },

    /// The caller's output buffer is too short.
    #[error("the buffer `{buffer}` holds {given} elements but the answer has {needed}")]
    BufferTooSmall {
        /// The argument's name.
        buffer: &'static str,
        /// How many elements the answer has.
        needed: usize,
        /// How many the buffer holds.
        given: usize,
    },

    /// Keys that must be sorted are not strictly ascending.
    #[error(
        "keys[{index}] is not greater than keys[{}]: `from_sorted` wants strictly ascending keys; \
         `bulk_build` takes them in any order",
        index - 1
    )]
    NotSorted {
        /// The index of the first key that is not greater than the one before it.
        index: usize,
    },

    /// A batch that allows no duplicates inserts a key twice.
    #[error(
        "keys[{first}] and keys[{second}] are both {key}: remove one, or use `Duplicates::Last` or \
         `Duplicates::First` to choose which wins"
    )]
    DuplicateKey {
        /// The key, as `Debug` writes it.
        key: String,
        /// The index of its first insert in the batch.
        first: usize,
        /// The index of another.
        second: usize,
    },

    /// The values can't be combined by the rule of the builder.
    #[error("values can't be combined by `{rule}`: {reason}")]
    CannotCombine {
        /// The rule.
        rule: &'static str,
        /// What the values are, and what to do.
        reason: &'static str,
    },

    /// A batch says which insert of a key wins, but the dictionary combines them.
    #[error(
        "this dictionary combines all inserts of a key by `{rule}`: `duplicates` is for dictionaries that \
         replace values"
    )]
    DuplicatesCombine {
        /// The rule of the dictionary.
        rule: &'static str,
    },

    /// The device has no room for a buffer, or the dictionary's memory limit does not allow it.
    #[error("out of memory: wanted {wanted} bytes{}", advice(*free, memory.as_deref()))]
    OutOfMemory {
        /// The size of the requested buffer, in bytes.
        wanted: u64,
        /// How many bytes were free, of the memory limit or of the GPU; `None` if neither is known.
        free: Option<u64>,
        /// What takes the memory, if that is known.
        memory: Option<Box<MemoryStats>>,
    },

    /// The batch size is out of its range.
    #[error("a batch size of {given} is out of range: it must be from 1 to {max}", max = MAX_BATCH_SIZE)]
    BatchSize {
        /// The requested batch size.
        given: usize,
    },

    /// The list of devices is empty or too long.
    #[error("`devices` has {given} elements: give from 1 to {max}", max = MAX_SHARDS)]
    Devices {
        /// How many there are.
        given: usize,
    },

    /// A call that only a dictionary on one device has was made on one that has several.
    #[error(
        "this dictionary has {shards} shards, but streams and views belong to one device: build a dictionary on one device for \
         them"
    )]
    Sharded {
        /// How many shards it has.
        shards: usize,
    },

    /// A setting of the builder is out of its range.
    #[error("`{setting}` is {given}, but must be at least 1: leave it out for the default")]
    Setting {
        /// The name of the builder's method.
        setting: &'static str,
        /// The requested number.
        given: u64,
    },

    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads: {reason}")]
    Threads {
        /// The requested number of threads.
        threads: usize,
        /// What the system reports.
        reason: Cause,
    },

    /// A CUDA device was requested in a build without the CUDA engine.
    #[error(
        "no CUDA device {index}: gpulsm was built without CUDA; build it with the feature `cuda`, \
         or use the device `cpu` or `best`"
    )]
    BuiltWithoutCuda {
        /// The index of the requested GPU.
        index: usize,
    },

    /// The requested CUDA device cannot be used.
    #[error("no CUDA device {index}: {reason}")]
    NoCudaDevice {
        /// The index of the requested GPU.
        index: usize,
        /// What is missing, and what to do.
        reason: Cause,
    },

    /// CUDA reports an error, of this call or of an earlier one.
    #[error("CUDA failed, in {call} or before it: {reason}")]
    Cuda {
        /// What was being done.
        call: &'static str,
        /// What CUDA says.
        reason: Cause,
    },

    /// A call that cannot be part of a CUDA graph was made on a stream that is being captured, or
    /// with data of such a stream.
    #[error(
        "the stream is being captured into a graph: only queries on data in the GPU's memory, all on \
         captured streams, can be part of one"
    )]
    Capturing,

    /// A call that needs a GPU was made on a dictionary on the CPU.
    #[error(
        "this dictionary is on the CPU: only one on a CUDA device takes data in a GPU's memory"
    )]
    NotOnCuda,

    /// Data on one GPU was given to a dictionary on another.
    #[error("the data is on cuda:{data} but the dictionary is on cuda:{dictionary}")]
    OtherDevice {
        /// The GPU that the data's stream is of.
        data: usize,
        /// The GPU that the dictionary is on.
        dictionary: usize,
    },

    /// Data in a GPU's memory is not aligned.
    #[error(
        "the data at {address:#x} is not aligned: its elements must begin at multiples of {to} bytes"
    )]
    Misaligned {
        /// Where the data begins.
        address: u64,
        /// What the address must be a multiple of.
        to: u64,
    },

    /// The system refuses a call on a file or folder.
    #[error("cannot {call} `{}`: {reason}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        call: &'static str,
        /// The kind of error.
        kind: io::ErrorKind,
        /// The system's number of the error, if it has one.
        code: Option<i32>,
        /// What the system says.
        reason: Cause,
    },

    /// A file of a dictionary does not hold what was written to it.
    #[error(
        "`{}` is damaged at byte {offset}: {reason}; nothing was changed: restore it from a copy",
        path.display()
    )]
    CorruptFile {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        reason: Cause,
    },

    /// The folder of a dictionary is open elsewhere, in this process or in another one.
    #[error("`{}` is in use: close the dictionary that is open there first", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },

    /// The file or folder holds no dictionary.
    #[error("`{}` holds no dictionary: {reason}", path.display())]
    NotADictionary {
        /// The file or folder.
        path: PathBuf,
        /// What is there instead.
        reason: &'static str,
    },

    /// A file has a format that this version does not know.
    #[error("`{}` has {what} {found}, which this version of gpulsm cannot read: use a newer one", path.display())]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
        /// Whose number it is: the format's version, or a record's kind or flags.
        what: &'static str,
        /// The number in the file.
        found: u32,
    },

    /// The dictionary in a file or folder has other types than requested.
    #[error(
        "the dictionary in `{}` has {what} {stored}, but {requested} was requested: request what is \
         stored, or choose another path",
        path.display()
    )]
    WrongType {
        /// The file or folder.
        path: PathBuf,
        /// What differs: keys, values or the rule of combining.
        what: &'static str,
        /// What is stored.
        stored: String,
        /// What was requested.
        requested: String,
    },

    /// Values without a name can't be in files: nothing would tell them from others of the same size.
    #[error(
        "values of type `{value}` have no name, which files keep: write `gpulsm::value!({value} as \"…\")`"
    )]
    UnnamedValue {
        /// The type.
        value: &'static str,
    },

    /// The dictionary can be queried, but not updated.
    #[error("updates are refused: {reason}")]
    UpdatesRefused {
        /// Why, and what to do.
        reason: Cause,
    },

    /// The text does not name a device.
    #[error("`{text}` names no device: say `best`, `cpu`, `cuda` or `cuda:N`")]
    UnknownDevice {
        /// The text.
        text: String,
    },
}

impl Error {
    /// Adds on which of several devices it happened, where that helps.
    pub(crate) fn on_device(self, device: Device) -> Self {
        match self {
            Error::OutOfMemory { wanted, free, memory: Some(memory) } => {
                let memory = Some(Box::new(MemoryStats { device: Some(device), ..*memory }));
                Error::OutOfMemory { wanted, free, memory }
            }
            Error::Cuda { call, reason } => {
                Error::Cuda { call, reason: format!("{reason} (on {device})").into() }
            }
            other => other,
        }
    }
}

/// Returns what to do without memory: there is a limit, or it is known how much the GPU has free, or else
/// the system refused an allocation, mostly that of an answer.
fn advice(free: Option<u64>, memory: Option<&MemoryStats>) -> String {
    match (free, memory) {
        (Some(free), Some(memory)) => format!(
            ", {free} free{}{}; of {} bytes, {}{}: {}",
            if free > memory.free { " with the reserves" } else { "" },
            memory.device.map(|device| format!(" on {device}")).unwrap_or_default(),
            memory.total,
            taken(memory),
            held(memory),
            help(memory)
        ),
        (Some(free), None) => format!(
            ", {free} free (of the device's memory, or of the dictionary's memory limit): raise the limit, \
             use smaller batches, drop snapshots and clones, or call `cleanup`"
        ),
        (None, _) => {
            ", which the system refused: query fewer keys or ranges in one call, use smaller \
                 batches, or drop snapshots and clones"
                .into()
        }
    }
}

/// Returns who has the memory, without those who have none.
fn taken(memory: &MemoryStats) -> String {
    let rest = match memory.holders.is_empty() {
        true => "buffers and working space",
        false => "what snapshots, clones, views, graphs or a checkpoint hold, and buffers",
    };
    let parts = [
        ("runs", memory.runs),
        ("filters", memory.filters),
        (rest, memory.rest),
        ("reserves and idle memory", memory.idle),
        ("others", memory.others),
    ];
    let held = parts.iter().filter(|(_, bytes)| *bytes > 0);
    let held: Vec<String> = held.map(|(who, bytes)| format!("{who} {bytes}")).collect();
    if held.is_empty() {
        "nothing is taken".into()
    } else {
        format!("taken by {}", held.join(", "))
    }
}

/// Returns who keeps runs from being merged in place, and whether there can't be more of them.
fn held(memory: &MemoryStats) -> String {
    let mut text = String::new();
    if memory.is_held() {
        let MemoryStats { shared, holders, .. } = memory;
        text += &format!("; {shared} bytes of runs and filters are shared with {holders}");
    }
    if memory.is_at_run_limit {
        text += "; no more runs can wait to be merged";
    }
    text
}

/// Returns what to do, depending on who has most of the memory. It must fit deletes and queries, too.
fn help(memory: &MemoryStats) -> String {
    if memory.is_held() {
        return format!("{}, so that runs can be merged in place", memory.holders.release());
    }
    if memory.rest > memory.runs.max(memory.total / 16) / 4 && !memory.holders.is_empty() {
        return format!("{}, or use smaller batches", memory.holders.release());
    }
    let help = if memory.others > memory.runs {
        "free what others hold, or raise the limit"
    } else if memory.runs < memory.total / 8 {
        "use smaller batches, or raise the limit"
    } else {
        "call `cleanup`, use smaller batches, or raise the limit; to have room for inserts, delete keys first"
    };
    help.into()
}

/// What the system or CUDA reports: the reason of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Cause(text)
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        Cause(text.into())
    }
}

/// Returns an error if the slices `left` and `right` differ in length.
pub(crate) fn check_lengths(
    (left, left_len): (&'static str, usize),
    (right, right_len): (&'static str, usize),
) -> Result<(), Error> {
    if left_len == right_len {
        return Ok(());
    }
    Err(Error::LengthMismatch { left, left_len, right, right_len })
}

/// Returns an error if `buffer` holds fewer elements than needed.
pub(crate) fn check_buffer(buffer: &'static str, given: usize, needed: usize) -> Result<(), Error> {
    if given >= needed {
        return Ok(());
    }
    Err(Error::BufferTooSmall { buffer, needed, given })
}

/// Allocates a vector with room for `len` elements.
pub(crate) fn try_with_capacity<T>(len: usize) -> Result<Vec<T>, Error> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        wanted: bytes_of::<T>(len),
        free: None,
        memory: None,
    })?;
    Ok(vec)
}

/// Allocates a vector of `len` zeros, in huge pages if it is large.
pub(crate) fn try_zeroed<T: bytemuck::Zeroable>(len: usize) -> Result<Vec<T>, Error> {
    let wanted = bytes_of::<T>(len);
    let zeros = bytemuck::allocation::try_zeroed_vec(len);
    let zeros = zeros.map_err(|()| Error::OutOfMemory { wanted, free: None, memory: None })?;
    advise_huge_pages(&zeros);
    Ok(zeros)
}

/// Appends `len` zeros, or fails where there is no memory for them.
pub(crate) fn append_zeros<T: bytemuck::Zeroable + Clone>(
    data: &mut Vec<T>,
    len: usize,
) -> Result<(), Error> {
    if data.is_empty() {
        *data = try_zeroed(len)?;
        return Ok(());
    }
    let failed = |_| Error::OutOfMemory { wanted: bytes_of::<T>(len), free: None, memory: None };
    data.try_reserve(len).map_err(failed)?;
    data.resize(data.len() + len, T::zeroed());
    Ok(())
}

/// Returns the size of `len` elements of type `T` in bytes.
pub(crate) fn bytes_of<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}
