//! Where the parts of a run are in its file, and the header that says so.

use crate::files::bytes::{Decoder, Encoder, PAGE, checksum, round_up_to_page};

pub(super) const MAGIC: [u8; 8] = *b"GPLSMRUN";
pub(super) const VERSION: u32 = 1;

/// How many bytes of a section have one checksum.
pub(crate) const BLOCK: u64 = 1 << 20;

/// How many bytes the keys and values of a dictionary have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widths {
    /// 4, 8 or 16.
    pub key: usize,
    /// 0, 4, 8 or 16.
    pub value: usize,
}

impl Widths {
    pub fn are_valid(self) -> bool {
        matches!(self.key, 4 | 8 | 16) && matches!(self.value, 0 | 4 | 8 | 16)
    }
}

/// A part of a run: an array with an element for each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// The keys as ordered little-endian integers, strictly ascending.
    Keys,
    /// The values, as many bytes each as the dictionary's values have.
    Values,
    /// Two bits for each entry, *live* and *shadow*; for every 32 entries the word of 32 *live* bits, then that
    /// of *shadow* bits, the first entry in the lowest bit. Missing if every entry is new: live, no shadow.
    Marks,
}

impl Section {
    pub const EACH: [Section; 3] = [Section::Keys, Section::Values, Section::Marks];
}

/// What is known of a run before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunShape {
    pub widths: Widths,
    pub entries: u64,
    /// Whether there is a section of marks.
    pub has_marks: bool,
}

impl RunShape {
    /// Returns how many bytes a section has; `None` if they are too many for a file.
    pub fn section_len(&self, section: Section) -> Option<u64> {
        match section {
            Section::Keys => self.entries.checked_mul(self.widths.key as u64),
            Section::Values => self.entries.checked_mul(self.widths.value as u64),
            Section::Marks if self.has_marks => self.entries.div_ceil(32).checked_mul(8),
            Section::Marks => Some(0),
        }
    }
}

/// What a manifest says about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunInfo {
    /// The number in the name of its file.
    pub file: u64,
    /// The level that the run was in. Another batch size has other levels.
    pub level: u32,
    pub entries: u64,
    /// The length of the file.
    pub bytes: u64,
    /// The checksum in the header, which covers all others.
    pub checksum: u64,
}

/// Where everything is, counted from the beginning of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub shape: RunShape,
    starts: [u64; 3],
    lens: [u64; 3],
    pub table_start: u64,
}

impl Layout {
    /// Returns `None` if the shape is impossible or too large for a file.
    pub fn new(shape: RunShape) -> Option<Self> {
        if !shape.widths.are_valid() {
            return None;
        }
        let [keys, values, marks] = Section::EACH.map(|section| shape.section_len(section));
        let lens = [keys?, values?, marks?];
        let mut starts = [0; 3];
        let mut end = PAGE;
        for (start, len) in starts.iter_mut().zip(lens) {
            *start = end;
            end = round_up_to_page(end.checked_add(len)?)?;
        }
        let layout = Layout { shape, starts, lens, table_start: end };
        end.checked_add(layout.table_len())?;
        Some(layout)
    }

    pub fn start(&self, section: Section) -> u64 {
        self.starts[section as usize]
    }

    pub fn len(&self, section: Section) -> u64 {
        self.lens[section as usize]
    }

    pub fn blocks(&self, section: Section) -> u64 {
        self.len(section).div_ceil(BLOCK)
    }

    /// Returns the place of a section's first checksum in the table.
    pub fn first_block(&self, section: Section) -> u64 {
        Section::EACH[..section as usize].iter().map(|&earlier| self.blocks(earlier)).sum()
    }

    pub fn table_len(&self) -> u64 {
        8 * Section::EACH.iter().map(|&section| self.blocks(section)).sum::<u64>()
    }

    /// Returns the length of the run in bytes.
    pub fn end(&self) -> u64 {
        self.table_start + self.table_len()
    }

    /// Returns the header, which ends in its checksum.
    pub fn header(&self, table_checksum: u64) -> Vec<u8> {
        let mut header = Encoder(MAGIC.to_vec());
        header.u32(VERSION);
        header.u32(u32::from(self.shape.has_marks));
        header.u32(self.shape.widths.key as u32);
        header.u32(self.shape.widths.value as u32);
        header.u64(self.shape.entries);
        self.starts.iter().for_each(|&start| header.u64(start));
        header.u64(self.table_start);
        header.u64(BLOCK);
        header.u64(table_checksum);
        header.0.resize(PAGE as usize - 8, 0);
        let sum = checksum(&header.0);
        header.u64(sum);
        header.0
    }

    /// Reads a header whose checksum is right: the layout and the checksum of the table.
    pub fn from_header(header: &[u8]) -> Option<(Self, u64)> {
        let mut fields = Decoder(header.get(MAGIC.len() + 4..)?);
        let flags = fields.u32()?;
        let widths = Widths { key: fields.u32()? as usize, value: fields.u32()? as usize };
        let shape = RunShape { widths, entries: fields.u64()?, has_marks: flags == 1 };
        let layout = Layout::new(shape)?;
        fields.bytes(5 * 8)?;
        let table_checksum = fields.u64()?;
        // Everything else follows from the shape.
        (layout.header(table_checksum) == header).then_some((layout, table_checksum))
    }
}
