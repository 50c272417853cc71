//! One column of a group of rows, read in chunks and converted.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{AsBytes, DataType, Int96};
use parquet::schema::types::ColumnDescriptor;

use super::kind::Kind;
use super::{Column, reason};
use crate::options::Missing;
use crate::table::Cell;
use crate::{Field, Scalar};

/// The cells of a column.
pub struct Source {
    reader: ColumnReader,
    /// A number is missing where the level is below this.
    full_level: i16,
    kind: Kind,
    of: Field,
    name: String,
    missing: Missing,
}

impl Source {
    pub fn new(
        reader: ColumnReader,
        descriptor: &ColumnDescriptor,
        column: &Column,
        missing: Missing,
    ) -> Result<Self, String> {
        let (of, name) = (column.field, column.name.clone());
        let wanted = if matches!(of, Field::Bytes(_)) { "bytes" } else { "numbers" };
        let kind = Kind::of(descriptor, of);
        let kind = kind.map_err(|holds| format!("{name} holds {holds}, not {wanted}"))?;
        Ok(Source { reader, full_level: descriptor.max_def_level(), kind, of, name, missing })
    }

    /// Reads as many cells, or what is left of them, of which the first belongs to this row. A missing
    /// number, if there may be any, is `None`.
    pub fn read(&mut self, most: usize, row: usize) -> Result<Vec<Option<Cell>>, String> {
        let Source { reader, full_level, kind, of, name, missing } = self;
        let of = *of;
        let chunk = Chunk { full_level: *full_level, most, row, name, missing: *missing };
        let signed = |number: i64| Cell::convert(of, Scalar::Signed(number.into()));
        let unsigned = |number: u64| Cell::convert(of, Scalar::Unsigned(number.into()));
        match (reader, &*kind) {
            (ColumnReader::Int32ColumnReader(reader), Kind::Unsigned) => {
                chunk.read(reader, |number| unsigned(number.cast_unsigned().into()))
            }
            (ColumnReader::Int32ColumnReader(reader), Kind::Decimal(scale)) => {
                chunk.read(reader, |&number| decimal(of, number.into(), *scale))
            }
            (ColumnReader::Int32ColumnReader(reader), _) => {
                chunk.read(reader, |&number| signed(number.into()))
            }
            (ColumnReader::Int64ColumnReader(reader), Kind::Unsigned) => {
                chunk.read(reader, |number| unsigned(number.cast_unsigned()))
            }
            (ColumnReader::Int64ColumnReader(reader), Kind::Decimal(scale)) => {
                chunk.read(reader, |&number| decimal(of, number.into(), *scale))
            }
            (ColumnReader::Int64ColumnReader(reader), _) => {
                chunk.read(reader, |&number| signed(number))
            }
            (ColumnReader::Int96ColumnReader(reader), _) => {
                chunk.read(reader, |moment| signed(nanoseconds(moment)?))
            }
            (ColumnReader::FloatColumnReader(reader), _) => {
                chunk.read(reader, |&number| Cell::convert(of, Scalar::Single(number)))
            }
            (ColumnReader::DoubleColumnReader(reader), _) => {
                chunk.read(reader, |&number| Cell::convert(of, Scalar::Double(number)))
            }
            (ColumnReader::ByteArrayColumnReader(reader), Kind::Bytes(len)) => {
                chunk.read(reader, |bytes| Cell::bytes(bytes.as_bytes(), *len))
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), Kind::Bytes(len)) => {
                chunk.read(reader, |bytes| Cell::bytes(bytes.as_bytes(), *len))
            }
            (ColumnReader::ByteArrayColumnReader(reader), Kind::Decimal(scale)) => {
                chunk.read(reader, |bytes| decimal(of, integer(bytes.as_bytes())?, *scale))
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), Kind::Decimal(scale)) => {
                chunk.read(reader, |bytes| decimal(of, integer(bytes.as_bytes())?, *scale))
            }
            _ => Err(format!("{name} does not hold numbers")),
        }
    }
}

/// The rows to be read next.
struct Chunk<'a> {
    full_level: i16,
    most: usize,
    row: usize,
    name: &'a str,
    missing: Missing,
}

impl Chunk<'_> {
    fn read<T: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<T>,
        mut cell: impl FnMut(&T::T) -> Result<Cell, String>,
    ) -> Result<Vec<Option<Cell>>, String> {
        let (mut numbers, mut levels) = (Vec::new(), Vec::new());
        let (records, ..) = reader
            .read_records(self.most, Some(&mut levels), None, &mut numbers)
            .map_err(|error| reason(&error))?;
        let mut numbers = numbers.iter();
        let mut cells = Vec::with_capacity(records);
        for index in 0..records {
            // A required column has no levels at all.
            let is_missing = levels.get(index).is_some_and(|&level| level < self.full_level);
            let number = if is_missing { None } else { numbers.next() };
            let wrong = |what| format!("row {}: {} is {what}", self.row + index, self.name);
            cells.push(match number {
                Some(number) => Some(cell(number).map_err(wrong)?),
                None if self.missing == Missing::Skip => None,
                None => {
                    return Err(wrong(
                        "null; to skip such rows, use the option missing=skip".into(),
                    ));
                }
            });
        }
        Ok(cells)
    }
}

/// Converts a decimal to a type that represents it exactly, a float with all of its digits.
fn decimal(of: Field, unscaled: i128, scale: u32) -> Result<Cell, String> {
    let one = 10i128.pow(scale);
    let (whole, part) = (unscaled / one, (unscaled % one).unsigned_abs());
    let sign = if unscaled < 0 && whole == 0 { "-" } else { "" };
    let text = match scale as usize {
        0 => whole.to_string(),
        places => format!("{sign}{whole}.{part:0places$}"),
    };
    let wrong = |error| format!("{text}: {error}");
    if of.is_integer() {
        return match part {
            0 => Cell::parse(of, &whole.to_string()).map_err(wrong),
            _ => Err(wrong(format!("not an integer (expected {})", of.name()))),
        };
    }
    match Cell::parse(of, &text).map_err(wrong)? {
        Cell { is_rounded: true, .. } => Err(wrong(format!("more digits than {} has", of.name()))),
        cell => Ok(cell),
    }
}

/// Returns the integer whose bytes these are, the highest first.
fn integer(bytes: &[u8]) -> Result<i128, String> {
    let sign = match bytes.first() {
        Some(0x80..) => 0xff,
        _ => 0,
    };
    let split = bytes.len().saturating_sub(16);
    let (above, low) = bytes.split_at(split);
    let mut whole = [sign; 16];
    whole[16 - low.len()..].copy_from_slice(low);
    let number = i128::from_be_bytes(whole);
    let fits = above.iter().all(|&byte| byte == sign) && (number < 0) == (sign != 0);
    fits.then_some(number).ok_or_else(|| "a decimal of more than 128 bits".into())
}

/// Returns the nanoseconds since 1970 of a timestamp in the old form: nanoseconds of a Julian day.
fn nanoseconds(moment: &Int96) -> Result<i64, String> {
    const EPOCH: i128 = 2_440_588;
    const DAY: i128 = 86_400_000_000_000;
    let [low, high, day] = moment.data() else { return Err("not a timestamp".into()) };
    let of_day = i128::from(*high) << 32 | i128::from(*low);
    let moment = (i128::from(day.cast_signed()) - EPOCH) * DAY + of_day;
    i64::try_from(moment).map_err(|_| "a moment too far from 1970 for nanoseconds".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    #[test]
    fn decimals_fit_exactly_or_are_refused() {
        let number =
            |of: Type, unscaled, scale| decimal(of.into(), unscaled, scale).map(|cell| cell.number);
        assert_eq!(number(Type::I32, -1200, 2), Ok(Scalar::Signed(-12)));
        assert_eq!(number(Type::U128, i128::MAX, 0), Ok(Scalar::Unsigned(i128::MAX as u128)));
        assert_eq!(number(Type::F64, -5, 2), Ok(Scalar::Double(-0.05)));
        assert_eq!(number(Type::F32, 1234567, 5), Ok(Scalar::Single(12.34567)));
        assert_eq!(number(Type::F64, 0, 38), Ok(Scalar::Double(0.0)));
        assert_eq!(number(Type::U32, 1234, 2).unwrap_err(), "12.34: not an integer (expected u32)");
        assert!(number(Type::U32, -100, 2).unwrap_err().starts_with("-1.00: out of range"));
        let digits = number(Type::F32, 123456789, 2).unwrap_err();
        assert_eq!(digits, "1234567.89: more digits than f32 has");
    }

    #[test]
    fn integers_of_any_number_of_bytes_are_read() {
        assert_eq!(integer(&[]), Ok(0));
        assert_eq!(integer(&[0xff]), Ok(-1));
        assert_eq!(integer(&[0, 0xff]), Ok(255));
        assert_eq!(integer(&i128::MIN.to_be_bytes()), Ok(i128::MIN));
        assert_eq!(integer(&[&[0xff; 4][..], &[0xff; 16]].concat()), Ok(-1));
        assert!(integer(&[&[0][..], &[0xff; 16]].concat()).is_err());
        assert!(integer(&[&[1][..], &[0; 16]].concat()).is_err());
    }

    #[test]
    fn old_timestamps_count_from_1970() {
        let moment = |low, high, day| {
            let mut moment = Int96::new();
            moment.set_data(low, high, day);
            nanoseconds(&moment)
        };
        assert_eq!(moment(7, 0, 2_440_588), Ok(7));
        assert_eq!(moment(0, 0, 2_440_587), Ok(-86_400_000_000_000));
        assert!(moment(0, 0, 5_000_000).is_err());
    }
}
