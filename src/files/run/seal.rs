//! Right checksums for a run that was changed.

use super::layout::{BLOCK, Layout, RunShape, Section, Widths};
use crate::files::bytes::{PAGE, checksum};

/// Makes the checksums of a run right, those of its blocks only if the header can be understood. Returns what a
/// manifest says of it, unless it is too short for a header.
pub(crate) fn seal(run: &mut [u8]) -> Option<u64> {
    let page = PAGE as usize;
    let layout = layout(run.get(..page)?).filter(|layout| layout.end() <= run.len() as u64);
    if let Some(layout) = layout {
        let mut table = Vec::new();
        for section in Section::EACH {
            let start = layout.start(section) as usize;
            let bytes = &run[start..start + layout.len(section) as usize];
            table.extend(
                bytes.chunks(BLOCK as usize).flat_map(|block| checksum(block).to_le_bytes()),
            );
        }
        let start = layout.table_start as usize;
        run[start..start + table.len()].copy_from_slice(&table);
        run[72..80].copy_from_slice(&checksum(&table).to_le_bytes());
    }
    let sum = checksum(&run[..page - 8]);
    run[page - 8..page].copy_from_slice(&sum.to_le_bytes());
    Some(checksum(&run[..page]))
}

/// Returns the layout that follows from the shape in a header, whatever else is wrong.
fn layout(header: &[u8]) -> Option<Layout> {
    let field = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let widths = Widths { key: field(16) as usize, value: field(20) as usize };
    let entries = u64::from(field(24)) | u64::from(field(28)) << 32;
    Layout::new(RunShape { widths, entries, has_marks: field(12) == 1 })
}
