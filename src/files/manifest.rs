//! The manifest: what a dictionary consists of. A folder has one as the file `MANIFEST`, replaced as a whole; a
//! saved file begins with one.

use crate::error::Error;
use crate::files::bytes::{Decoder, Encoder, checksum};
use crate::files::run::RunInfo;
use crate::files::schema::Schema;
use crate::files::storage::File;

const MAGIC: [u8; 8] = *b"GPLSMDIC";
pub(crate) const VERSION: u32 = 1;

/// The bytes before the body: magic, version, zero, length of the body.
const HEAD: usize = 24;

/// Files, updates and manifests have numbers below this.
pub(crate) const NUMBERS: u64 = 1 << 62;

/// Which handle of a folder may update it: every opening for updates is a new owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Counts the owners of a folder. 0: there was none yet that said so.
    pub number: u64,
    /// A random number, which tells owners of copies of a folder apart. The owner's logs repeat it.
    pub token: u64,
}

/// What a dictionary consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// A number that logs of this folder repeat.
    pub identity: u64,
    /// How many manifests the folder had before.
    pub generation: u64,
    pub owner: Owner,
    pub schema: Schema,
    /// Settings by name, such as the batch size. Unknown ones are kept.
    pub settings: Vec<(String, u64)>,
    /// The last update that the runs contain.
    pub sequence: u64,
    /// The last update that was durable, in runs or logs, when the manifest was written.
    pub synced: u64,
    /// No file has this number or a greater one, except those that were written after the manifest.
    pub next_file: u64,
    /// Logs with lower numbers are obsolete.
    pub first_log: u64,
    /// The number of a log that must exist; 0 if none must.
    pub last_log: u64,
    /// The runs, the oldest first.
    pub runs: Vec<RunInfo>,
}

impl Manifest {
    pub fn setting(&self, name: &str) -> Option<u64> {
        self.settings.iter().find(|(known, _)| known == name).map(|&(_, value)| value)
    }

    /// Returns how many bytes the runs have.
    pub fn run_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut body = Encoder::default();
        body.u64(self.identity);
        body.u64(self.generation);
        self.schema.encode(&mut body);
        body.u32(self.settings.len() as u32);
        for (name, value) in &self.settings {
            body.text(name);
            body.u64(*value);
        }
        body.u64s(&[self.sequence, self.synced, self.next_file, self.first_log, self.last_log]);
        body.u32(self.runs.len() as u32);
        for run in &self.runs {
            body.u64(run.file);
            body.u32(run.level);
            body.u64s(&[run.entries, run.bytes, run.checksum]);
        }
        let has_owner = self.owner != Owner::default();
        if has_owner || !self.schema.notes.is_empty() {
            self.schema.encode_notes(&mut body);
        }
        if has_owner {
            body.u64s(&[self.owner.number, self.owner.token]);
        }
        let mut file = Encoder(MAGIC.to_vec());
        file.u32(VERSION);
        file.u32(0);
        file.u64(body.0.len() as u64);
        file.0.extend(body.0);
        let sum = checksum(&file.0);
        file.u64(sum);
        file.0
    }

    /// Returns what a file is that never began with a manifest; `None` if it begins with one, be it damaged: most of
    /// its first bytes are right.
    pub fn other_kind(file: &File) -> Result<Option<&'static str>, Error> {
        let mut first = [0; MAGIC.len()];
        let len = file.len()?.min(MAGIC.len() as u64) as usize;
        file.read_at(0, &mut first[..len])?;
        let right = first[..len].iter().zip(&MAGIC).filter(|(byte, expected)| byte == expected);
        Ok(match right.count() {
            _ if len == 0 => Some("it is an empty file"),
            right if 2 * right <= len => Some(
                "it is another kind of file: its first bytes are not those of a saved dictionary",
            ),
            _ => None,
        })
    }

    /// Reads the manifest that is all of a file.
    pub fn read_alone(file: &File) -> Result<Self, Error> {
        let (manifest, len) = Self::read(file)?;
        match file.len()? == len {
            true => Ok(manifest),
            false => Err(file.corrupt(len, "the file is longer than the manifest in it")),
        }
    }

    /// Reads the manifest at the beginning of a file; returns its length as well.
    pub fn read(file: &File) -> Result<(Self, u64), Error> {
        let len = file.len()?;
        if len < HEAD as u64 + 8 {
            return Err(file.corrupt(len, "the file ends too early for a manifest"));
        }
        let mut head = [0; HEAD];
        file.read_at(0, &mut head)?;
        let mut fields = Decoder(&head);
        if fields.bytes(8) != Some(&MAGIC[..]) {
            return Err(file.corrupt(0, "this is not the beginning of a manifest"));
        }
        let (version, _, body_len) = (fields.u32(), fields.u32(), fields.u64());
        let found = version.filter(|&version| version != VERSION);
        let unsupported = found.map(|found| {
            let path = file.path().into();
            Error::UnsupportedVersion { path, what: "a manifest of version", found }
        });
        let body_len = body_len.filter(|&body_len| body_len <= len - HEAD as u64 - 8);
        let Some(body_len) = body_len else {
            return Err(unsupported.unwrap_or_else(|| file.corrupt(16, "the manifest is cut off")));
        };
        let mut bytes = crate::error::try_zeroed::<u8>(HEAD + body_len as usize + 8)?;
        file.read_at(0, &mut bytes)?;
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let (contents, sum) = bytes.split_at(HEAD + body_len as usize);
        let is_intact = checksum(contents).to_le_bytes() == sum;
        match unsupported {
            Some(_) if is_intact => return Err(file.corrupt(8, "the version is damaged")),
            Some(error) => return Err(error),
            None if is_intact => {}
            None => return Err(file.corrupt(0, "the checksum of the manifest is wrong")),
        }
        let manifest = Self::decode(&contents[HEAD..]);
        let manifest =
            manifest.ok_or_else(|| file.corrupt(HEAD as u64, "a field is impossible"))?;
        Ok((manifest, bytes.len() as u64))
    }

    /// Reads the body, if nothing in it is impossible.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut fields = Decoder(body);
        let (identity, generation) = (fields.u64()?, fields.u64()?);
        let mut schema = Schema::decode(&mut fields)?;
        let settings = fields.u32()?;
        let settings = (0..settings).map(|_| Some((fields.text()?, fields.u64()?)));
        let settings = settings.collect::<Option<Vec<_>>>()?;
        let (sequence, synced, next_file) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (first_log, last_log) = (fields.u64()?, fields.u64()?);
        let runs = fields.u32()?;
        let runs = (0..runs).map(|_| {
            let (file, level, entries) = (fields.u64()?, fields.u32()?, fields.u64()?);
            Some(RunInfo { file, level, entries, bytes: fields.u64()?, checksum: fields.u64()? })
        });
        let runs = runs.collect::<Option<Vec<_>>>()?;
        // Files of version 0.1 end here, or after the notes.
        let mut owner = Owner::default();
        if !fields.0.is_empty() {
            schema.decode_notes(&mut fields)?;
            if schema.notes.is_empty() || !fields.0.is_empty() {
                owner = Owner { number: fields.u64()?, token: fields.u64()? };
                (owner != Owner::default()).then_some(())?;
            }
        }
        // Sums of counts and lengths must not overflow, nor numbers that are counted on from here.
        let is_small = |numbers: &mut dyn Iterator<Item = u64>| {
            numbers.map(u128::from).sum::<u128>() >> 62 == 0
        };
        let is_possible = fields.0.is_empty()
            && is_small(&mut runs.iter().map(|run| run.entries))
            && is_small(&mut runs.iter().map(|run| run.bytes))
            && sequence <= synced
            && first_log.max(last_log) <= next_file
            && [generation, owner.number, synced, next_file].iter().all(|&number| number < NUMBERS);
        is_possible.then_some(Manifest {
            identity,
            generation,
            owner,
            schema,
            settings,
            sequence,
            synced,
            next_file,
            first_log,
            last_log,
            runs,
        })
    }
}
