//! Formats, which the names of files tell.

use std::path::Path;

use crate::Error;
use crate::options::Separator;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text(Text),
    Parquet,
}

/// A format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The separator unless an option chooses another.
    pub separator: Separator,
    pub is_gzipped: bool,
}

impl Format {
    pub fn of(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let (stem, is_gzipped) = match name.strip_suffix(".gz") {
            Some(stem) => (stem, true),
            None => (&*name, false),
        };
        let text = |separator| Ok(Format::Text(Text { separator, is_gzipped }));
        match stem.rsplit_once('.').filter(|(name, _)| !name.is_empty()) {
            Some((_, "csv")) => text(Separator::COMMA),
            Some((_, "tsv" | "tab")) => text(Separator::TAB),
            Some((_, "parquet")) if !is_gzipped => Ok(Format::Parquet),
            _ => Err(Error::Content {
                path: path.into(),
                message: "a file's name must end in .csv or .parquet (or .tsv, .tab; .csv.gz and the like)"
                    .into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        let of = |name: &str| Format::of(Path::new(name)).ok();
        let text = |separator, is_gzipped| Some(Format::Text(Text { separator, is_gzipped }));
        assert_eq!(of("a.CSV"), text(Separator::COMMA, false));
        assert_eq!(of("dir.parquet/a.b.csv.gz"), text(Separator::COMMA, true));
        assert_eq!(of("a.tsv"), text(Separator::TAB, false));
        assert_eq!(of("a.tab.gz"), text(Separator::TAB, true));
        assert_eq!(of("a.parquet"), Some(Format::Parquet));
        for name in ["a", "csv", ".csv", "a.gz", "a.parquet.gz", "a.txt", "..", ""] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
