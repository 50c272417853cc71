"""Files whose rows are inserted."""

from __future__ import annotations

from typing import NamedTuple

from gpulsm._errors import DuplicateKeyError
from gpulsm._files import file_name, read_columns
from gpulsm._types import ColumnChoice, Duplicates, FilePath, Header, KeyColumns, Missing
from gpulsm._updates import Updates


class Imported(NamedTuple):
    """What `Dictionary.insert_file` did.

    Attributes
    ----------
    rows
        How many rows the file has.
    replaced
        How many of them replaced a pair, or combined with it: that of another row with an equal key, or one
        that was in the dictionary.
    skipped
        How many lacked a key or a value.
    keys_rounded, values_rounded
        How many numbers lost precision: the float that is stored, written with as many digits as the file
        has, is another number.
    """

    rows: int
    replaced: int
    skipped: int
    keys_rounded: int
    values_rounded: int


Imported.__module__ = "gpulsm"  # Where users find it.


class Imports(Updates):
    """Files in."""

    def insert_file(
        self,
        path: FilePath,
        key: KeyColumns | None = None,
        value: ColumnChoice | None = None,
        *,
        separator: str | None = None,
        header: Header = "auto",
        missing: Missing = "error",
        duplicates: Duplicates | None = None,
    ) -> Imported:
        """Inserts the rows of a CSV or Parquet file, as one batch.

        Keys, or their parts, and values must be uint32, uint64, int32, int64, float32 or float64; in Parquet also
        times (datetime64), which come from timestamps and dates. Timestamps in UTC stay in UTC. Keys, or their
        parts, may also be bytes, from columns of text or bytes.

        Parameters
        ----------
        path
            The file. Its name tells the format: .csv; .tsv or .tab, with tabs; these with .gz at the end; or
            .parquet.
        key, value
            The columns of keys and values: a name, or a number, counted from 1. For keys of several parts, `key`
            is a list, with a column for each part. Default: those named 'key' (of several parts 'key1', 'key2',
            …) and 'value'; if the file has no others, those that there are, in their order. Names match exactly
            or, where none does, regardless of case.
        separator
            What separates the fields of text: one character. Default: a comma, or a tab, as the name says.
        header
            Whether the first line of text names the columns: 'yes', 'no', or 'auto' (the default): it does if
            columns are chosen by name, or if all of its fields are words.
        missing
            What to do with a row whose key or value is missing: raise an 'error' (the default) or 'skip' it.
        duplicates
            Which of rows with equal keys counts, as for `insert`.

        Returns
        -------
        Imported
            How many rows there were, how many replaced others, were skipped, or lost precision. Those
            that replaced others are exact if no other thread changes the dictionary meanwhile.

        Raises
        ------
        OSError
            If the file can't be opened: `FileNotFoundError`, `PermissionError`, …
        ValueError
            If the file is not as expected, or an option can't be used. The message says which line or row,
            which column, and what to do.
        TypeError
            If files can't hold the types of the dictionary, or an argument can't be used.
        DuplicateKeyError, OutOfMemoryError
            As for `insert`. After any of these the dictionary is as it was.

        Examples
        --------
        >>> import gpulsm, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "prices.csv")
        >>> _ = path.write_text("id,name,price\\n7,nut,0.7\\n5,bolt,0.5\\n6,,\\n")
        >>> d = gpulsm.Dictionary("uint32", "float64")
        >>> d.insert_file(path, key="id", value="price", missing="skip")
        Imported(rows=3, replaced=0, skipped=1, keys_rounded=0, values_rounded=0)
        >>> d.first()
        (5, 0.5)
        >>> folder.cleanup()
        """
        types = self._key, self._value
        read = read_columns(path, types, (key, value), separator, header, missing)
        before = len(self)
        try:
            self.insert(read.keys, read.values, duplicates=duplicates)
        except DuplicateKeyError as error:
            first, second = (position + 1 for position in error.positions)
            raise DuplicateKeyError(
                f"{file_name(path)}: rows {first:,} and {second:,} (of those that are not skipped) both have "
                f"the key {error.key}: choose duplicates='last' or 'first'",
                error.key,
                error.positions,
            ) from None
        return Imported(
            rows=read.rows + read.skipped,
            replaced=read.rows - (len(self) - before),
            skipped=read.skipped,
            keys_rounded=read.keys_rounded,
            values_rounded=read.values_rounded,
        )
