//! Right checksums for files that were changed: tests reach what is behind them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::files::bytes::{PAGE, checksum, seeded_checksum};
use crate::files::log::LOG_HEADER;
use crate::files::manifest::Manifest;
use crate::files::names::{self, Named};
use crate::files::record::{HEADER, RecordHeader};
use crate::files::run;

/// Makes the checksums of a saved file right, as far as it can be understood.
pub fn seal_saved(bytes: &mut [u8]) {
    let Some((mut manifest, len)) = decode(bytes) else { return seal_manifest(bytes) };
    let mut start = len.next_multiple_of(PAGE as usize);
    for info in &mut manifest.runs {
        let end = start.saturating_add(info.bytes as usize);
        let Some(run) = bytes.get_mut(start..end) else { break };
        info.checksum = run::seal(run).unwrap_or(info.checksum);
        start = end.next_multiple_of(PAGE as usize);
    }
    bytes[..len].copy_from_slice(&manifest.encode());
}

/// Makes the checksums of the files of a folder right, as far as they can be understood.
pub fn seal_folder(files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let mut runs = BTreeMap::new();
    for (path, bytes) in &mut *files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match Named::parse(&name) {
            Some(Named::Log(_)) => seal_log(bytes),
            Some(Named::Run(number)) => {
                runs.extend(run::seal(bytes).map(|sum| (number, sum)));
            }
            _ => {}
        }
    }
    for (_, bytes) in
        files.iter_mut().filter(|(path, _)| path.ends_with(Path::new(names::MANIFEST)))
    {
        let Some((mut manifest, len)) = decode(bytes) else {
            seal_manifest(bytes);
            continue;
        };
        for run in &mut manifest.runs {
            run.checksum = runs.get(&run.file).copied().unwrap_or(run.checksum);
        }
        bytes[..len].copy_from_slice(&manifest.encode());
    }
}

/// Returns the manifest at the beginning of a file, whatever its checksum is, and its length.
fn decode(bytes: &[u8]) -> Option<(Manifest, usize)> {
    let len = manifest_len(bytes)?;
    let manifest = Manifest::decode(&bytes[24..len - 8])?;
    // What is written back must be what was there, but for checksums.
    (manifest.encode().len() == len).then_some((manifest, len))
}

fn manifest_len(bytes: &[u8]) -> Option<usize> {
    let body = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    let len = usize::try_from(body).ok()?.checked_add(32)?;
    (len <= bytes.len()).then_some(len)
}

fn seal_manifest(bytes: &mut [u8]) {
    if let Some(len) = manifest_len(bytes) {
        seal_end(&mut bytes[..len]);
    }
}

/// Makes the last 8 bytes the checksum of the others.
fn seal_end(bytes: &mut [u8]) {
    let (contents, sum) = bytes.split_at_mut(bytes.len() - 8);
    sum.copy_from_slice(&checksum(contents).to_le_bytes());
}

fn seal_log(bytes: &mut [u8]) {
    let Some((header, mut records)) = bytes.split_at_mut_checked(LOG_HEADER) else { return };
    let field = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let seed = field(24) ^ field(16).rotate_left(32) ^ field(40);
    seal_end(header);
    while let Some((header, rest)) = records.split_at_mut_checked(HEADER) {
        let field = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let len = field(8);
        let payload = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let sealed = RecordHeader {
            kind: half(0),
            flags: half(2),
            len,
            sequence: field(16),
            watermark: field(24),
            payload_checksum: payload.map_or(0, |payload| seeded_checksum(seed, &[payload])),
        };
        let payload_len = payload.map_or(rest.len(), <[u8]>::len);
        header.copy_from_slice(&sealed.encode(seed));
        records = &mut rest[payload_len..];
    }
}
