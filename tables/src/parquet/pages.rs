//! The pages of a column, checked for what the reader would panic over.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// Refuses a page that refers to a dictionary if none came before it.
pub struct Pages {
    inner: Box<dyn PageReader>,
    has_dictionary: bool,
}

impl Pages {
    pub fn new(inner: Box<dyn PageReader>) -> Self {
        Pages { inner, has_dictionary: false }
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.inner.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage { .. }) => self.has_dictionary = true,
            Some(data) => {
                let encoding = data.encoding();
                let is_indices =
                    matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
                if is_indices && !self.has_dictionary {
                    return Err(ParquetError::General(
                        "the dictionary of a page is missing".into(),
                    ));
                }
            }
            None => {}
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.inner.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.inner.at_record_boundary()
    }
}
