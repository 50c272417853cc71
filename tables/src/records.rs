//! The lines of a CSV file and their fields, with the numbers of lines as a text editor has them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use flate2::read::MultiGzDecoder;

use crate::error::plain;
use crate::options::Separator;

/// A record may have this many bytes and this many fields: an unclosed quote must not fill the memory.
const MOST_BYTES: usize = 1 << 24;
const MOST_FIELDS: usize = 1 << 20;

/// Reads one record after another.
pub struct Records {
    input: Box<dyn BufRead>,
    is_gzipped: bool,
    parser: Reader,
    /// The present record's fields, one after another, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    len: usize,
    /// The bytes of the present record as they are in the file, if it matters which fields are in quotes.
    raw: Option<Vec<u8>>,
    /// Which of the fields are, if it matters.
    are_quoted: Vec<bool>,
    separator: u8,
    /// The line at which the present record begins, counted from 1.
    line: u64,
    /// The line at which the next bytes are.
    next_line: u64,
    /// Whether the last byte was a carriage return: with a line feed, it ends one line.
    after_return: bool,
}

impl Records {
    /// Begins to read a file, unless its first bytes tell that it is no text.
    pub fn open(file: File, is_gzipped: bool, separator: Separator) -> Result<Self, String> {
        let mut input: Box<dyn Read> = match is_gzipped {
            true => Box::new(MultiGzDecoder::new(BufReader::new(file))),
            false => Box::new(file),
        };
        let mut head = Vec::new();
        input.by_ref().take(4).read_to_end(&mut head).map_err(|e| unreadable(&e, is_gzipped, 1))?;
        match head[..] {
            [0x1f, 0x8b, ..] => return Err("this is a gzip file: its name must end in .gz".into()),
            [b'P', b'A', b'R', b'1', ..] => {
                return Err("this is a Parquet file: its name must end in .parquet".into());
            }
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                return Err("this is UTF-16 text: save it as UTF-8".into());
            }
            [0xef, 0xbb, 0xbf, ..] => drop(head.drain(..3)),
            _ => {}
        }
        let input = Box::new(BufReader::new(io::Cursor::new(head).chain(input)));
        Ok(Records { is_gzipped, ..Records::new(input, separator) })
    }

    fn new(input: Box<dyn BufRead>, separator: Separator) -> Self {
        Records {
            input,
            is_gzipped: false,
            parser: ReaderBuilder::new().delimiter(separator.byte()).build(),
            bytes: vec![0; 1 << 10],
            ends: vec![0; 1 << 6],
            len: 0,
            raw: None,
            are_quoted: Vec::new(),
            separator: separator.byte(),
            line: 1,
            next_line: 1,
            after_return: false,
        }
    }

    /// Reads the next record; returns whether there is one. Empty lines are skipped.
    pub fn advance(&mut self) -> Result<bool, String> {
        if !self.skip_line_ends()? {
            return Ok(false);
        }
        self.line = self.next_line;
        self.raw.iter_mut().for_each(Vec::clear);
        let (mut len, mut fields) = (0, 0);
        loop {
            let input = self.input.fill_buf();
            let input = input.map_err(|error| unreadable(&error, self.is_gzipped, self.line))?;
            // The last line needs no end; this is one.
            let is_end = input.is_empty();
            let input = if is_end { b"\n" } else { input };
            let (bytes, ends) = (&mut self.bytes[len..], &mut self.ends[fields..]);
            let (result, read, written, ended) = self.parser.read_record(input, bytes, ends);
            if let Some(raw) = &mut self.raw {
                raw.extend_from_slice(&input[..read]);
            }
            self.after_return = read > 0 && input[read - 1] == b'\r';
            self.input.consume(if is_end { 0 } else { read });
            len += written;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty if is_end => {
                    return Err(format!("line {}: a quote is opened and never closed", self.line));
                }
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if len < MOST_BYTES => self.bytes.resize(len * 2, 0),
                ReadRecordResult::OutputEndsFull if fields < MOST_FIELDS => {
                    self.ends.resize(fields * 2, 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    let line = self.line;
                    return Err(format!("line {line}: far too long; is a quote not closed?"));
                }
                ReadRecordResult::Record | ReadRecordResult::End => break,
            }
        }
        self.len = fields;
        self.next_line = self.line + line_feeds(&self.bytes[..len]) + 1;
        if let Some(raw) = &self.raw {
            find_quoted(raw, self.separator, &mut self.are_quoted);
        }
        Ok(true)
    }

    /// From the next record on, white space in quotes is part of a [`text`](Self::text).
    pub fn notice_quotes(&mut self) {
        self.raw = Some(Vec::new());
    }

    /// Skips the rest of a line's end and empty lines. Returns whether anything comes after them.
    fn skip_line_ends(&mut self) -> Result<bool, String> {
        loop {
            let input = self.input.fill_buf();
            let input = input.map_err(|e| unreadable(&e, self.is_gzipped, self.next_line))?;
            match input.first() {
                Some(b'\n') => self.next_line += u64::from(!self.after_return),
                Some(b'\r') => self.next_line += 1,
                first => return Ok(first.is_some()),
            }
            self.after_return = input[0] == b'\r';
            self.input.consume(1);
        }
    }

    /// Returns how many fields the record has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the line at which the record begins.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the line at which a field begins: one that follows a quoted line end is further down.
    pub fn line_of(&self, field: usize) -> u64 {
        self.line + line_feeds(&self.bytes[..self.start(field)])
    }

    /// Returns a field without the white space around it.
    #[inline]
    pub fn field(&self, field: usize) -> &[u8] {
        self.bytes[self.start(field)..self.ends[field]].trim_ascii()
    }

    /// Returns a field without the white space around it, unless that is in quotes.
    pub fn text(&self, field: usize) -> &[u8] {
        match self.are_quoted.get(field) {
            Some(true) => &self.bytes[self.start(field)..self.ends[field]],
            _ => self.field(field),
        }
    }

    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len).map(|field| self.field(field))
    }

    fn start(&self, field: usize) -> usize {
        field.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// Finds out which fields of a record begin with a quote.
fn find_quoted(record: &[u8], separator: u8, are_quoted: &mut Vec<bool>) {
    are_quoted.clear();
    if !record.contains(&b'"') {
        return;
    }
    let (mut is_start, mut is_inside, mut is_closed) = (true, false, false);
    for &byte in record {
        let is_quote = byte == b'"';
        let was_inside = is_inside;
        if is_start {
            are_quoted.push(is_quote);
            is_inside = is_quote;
        } else if is_quote {
            // Of two in a row the second opens the quotes again.
            is_inside = !is_inside && is_closed;
        }
        is_closed = was_inside && !is_inside;
        is_start = byte == separator && !is_inside;
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

fn unreadable(error: &io::Error, is_gzipped: bool, line: u64) -> String {
    match is_gzipped {
        true => format!("line {line}: this can't be read as gzip: {}", plain(error)),
        false => format!("line {line}: {}", plain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads through a tiny buffer: every boundary is met.
    fn records(text: &'static str, capacity: usize) -> Records {
        Records::new(
            Box::new(BufReader::with_capacity(capacity, text.as_bytes())),
            Separator::COMMA,
        )
    }

    #[test]
    fn lines_are_counted_as_editors_count_them() {
        let text = "a,b\n\n\"1\n\n1\",x,\"\n\",2\r\n\r\n3,4\r\n5,6\r7,8\n\n\n9,9";
        for capacity in 1..=text.len() + 1 {
            let mut records = records(text, capacity);
            let mut lines = Vec::new();
            while records.advance().unwrap() {
                lines.push((records.line(), records.len(), records.line_of(records.len() - 1)));
            }
            let expected = [(1, 2, 1), (3, 4, 6), (8, 2, 8), (9, 2, 9), (10, 2, 10), (13, 2, 13)];
            assert_eq!(lines, expected, "{capacity}");
        }
    }

    #[test]
    fn fields_lose_their_quotes_and_the_space_around_them() {
        for capacity in [1, 2, 3, 100] {
            let mut records = records("\r\n a ,\"b \"\"c\"\"\",\"\"\n,\n", capacity);
            assert!(records.advance().unwrap());
            assert!(records.fields().eq([&b"a"[..], b"b \"c\"", b""]));
            assert!(records.advance().unwrap());
            assert!(records.fields().eq([b"", b""]));
            assert!(!records.advance().unwrap());
        }
    }

    #[test]
    fn white_space_in_quotes_belongs_to_a_text() {
        let text = "1, a \n\" a \",\"b\"\" \" , \" \"\r\n\" ,\n \", c ,\"\"";
        for capacity in 1..=text.len() + 1 {
            let mut records = records(text, capacity);
            records.notice_quotes();
            let mut texts = |count| {
                assert!(records.advance().unwrap(), "{capacity}");
                assert_eq!(records.len(), count, "{capacity}");
                let texts = (0..count).map(|field| records.text(field).to_vec());
                texts.map(|text| String::from_utf8(text).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(texts(2), ["1", "a"], "{capacity}");
            assert_eq!(texts(3), [" a ", "b\"  ", "\" \""], "{capacity}");
            assert_eq!(texts(3), [" ,\n ", "c", ""], "{capacity}");
        }
    }

    #[test]
    fn an_open_quote_is_an_error_and_a_closed_one_at_the_end_is_not() {
        let count = |text| {
            let mut records = records(text, 2);
            let mut count = 0;
            while records.advance()? {
                count += 1;
            }
            Ok::<usize, String>(count)
        };
        let open = "line 2: a quote is opened and never closed";
        assert_eq!(count("1,2\n3,\"4\n5,6\n").unwrap_err(), open);
        assert!(count("\"").is_err());
        for text in ["1,\"2\"", "1,\"2\n\"", "1,2", "1,", "1,2\n"] {
            assert_eq!(count(text), Ok(1), "{text:?}");
        }
    }

    #[test]
    fn records_may_be_long_but_not_endless() {
        let long = format!("{},{}\n", "1".repeat(1 << 20), ",".repeat(1 << 12));
        let mut records = Records::new(Box::new(io::Cursor::new(long)), Separator::COMMA);
        assert!(records.advance().unwrap());
        assert_eq!((records.len(), records.field(0).len()), ((1 << 12) + 2, 1 << 20));
        for endless in [b'1', b','] {
            let input = BufReader::new(io::repeat(endless));
            let mut records = Records::new(Box::new(input), Separator::COMMA);
            assert!(records.advance().unwrap_err().starts_with("line 1: far too long"));
        }
    }
}
