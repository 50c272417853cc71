"""Everything that a dictionary holds, as arrays and as tables."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import NDArray

from gpulsm._families import Family
from gpulsm._families import like as family_like
from gpulsm._files import check_regular, file_name, flag, naming_missing_folder, write_columns
from gpulsm._given import Given
from gpulsm._keys import outermost
from gpulsm._range_queries import RangeQueries
from gpulsm._settings import checked_progress
from gpulsm._stored import check_storable
from gpulsm._types import FilePath, Like, Progress

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Exports(RangeQueries):
    """All pairs at once."""

    @overload
    def arrays(self, like: None = None) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def arrays(self, like: Like) -> tuple[Any, Any]: ...
    def arrays(self, like: Like | None = None) -> tuple[Any, Any]:
        """Returns every key and every value, in key order, as two arrays.

        Parameters
        ----------
        like
            The family that they come in: 'numpy' (the default), 'cupy' or 'torch', or an array of it.

        Returns
        -------
        keys, values
            Two arrays; for a set the values are None.

        Raises
        ------
        TypeError, ValueError
            If there is no such family, or it has no arrays of the types or on the device.

        Examples
        --------
        >>> import gpulsm
        >>> keys, values = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).arrays()
        >>> keys.tolist(), values.tolist()
        ([10, 20, 30], [1, 2, 3])
        """
        family = family_like(like, self._place)
        first, last = (_as_array(outermost(self._key, is_low=end), family) for end in (True, False))
        _, keys, values = self._range(self._call(first, last))
        return keys, values

    @overload
    def keys(self, like: None = None) -> NDArray[Any]: ...
    @overload
    def keys(self, like: Like) -> Any: ...
    def keys(self, like: Like | None = None) -> Any:
        """Returns every key, in order, as one array; `like` as for `arrays`."""
        return self.arrays(like)[0]

    def to_arrow(self) -> pyarrow.Table:
        """Returns every pair as a PyArrow table with the columns `key` and, unless it is a set, `value`.

        Raises
        ------
        TypeError
            If Arrow has no column of the types.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).to_arrow().to_pydict()
        {'key': [10, 20, 30], 'value': [1, 2, 3]}
        """
        from gpulsm._tables import to_arrow

        return to_arrow(*self.arrays())

    def to_pandas(self) -> pandas.DataFrame:
        """Returns every pair as a pandas data frame with the columns `key` and `value`.

        Where a value is a few numbers or a structure, there is a column for each of its parts (`value_0`,
        …, or `value_name`).

        Raises
        ------
        TypeError
            If pandas has no column of the types.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).to_pandas()["value"].tolist()
        [1, 2, 3]
        """
        from gpulsm._tables import to_pandas

        return to_pandas(*self.arrays())

    def to_polars(self) -> polars.DataFrame:
        """Returns every pair as a Polars data frame, with the columns that `to_pandas` has.

        Raises
        ------
        TypeError
            If Polars has no column of the types.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).to_polars()["value"].to_list()
        [1, 2, 3]
        """
        from gpulsm._tables import to_polars

        return to_polars(*self.arrays())

    def to_file(self, path: FilePath, *, separator: str | None = None, force: bool = False) -> None:
        """Writes every pair to a CSV or Parquet file with the columns `key` and, unless it is a set, `value`. Keys of
        several parts have the columns `key1`, `key2`, ….

        The rows are written to a new file in the same folder, which is renamed at the end. A symbolic link
        stays one if it leads to a file, which is replaced; one that leads nowhere is replaced itself. Times
        (datetime64) can be written to Parquet only, where they are timestamps without a time zone.

        Parameters
        ----------
        path
            The file. Its name tells the format, as for `insert_file`.
        separator
            What separates the fields of text: one character. Default: a comma, or a tab, as the name says.
        force
            Whether an existing file may be replaced.

        Raises
        ------
        FileExistsError
            If the file exists, and `force` is not given.
        OSError
            If the file can't be written. An old one is as it was.
        TypeError
            If files can't hold the types.
        ValueError
            If the name tells no format, or `separator` can't be used.

        Examples
        --------
        >>> import gpulsm, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "pairs.tsv")
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).to_file(path)
        >>> path.read_text()
        'key\\tvalue\\n10\\t1\\n20\\t2\\n30\\t3\\n'
        >>> folder.cleanup()
        """
        keys, values = self.arrays()
        write_columns(path, keys, values, (self._key, self._value), separator, force)

    def save(
        self, path: FilePath, progress: Progress | None = None, *, overwrite: bool = True
    ) -> None:
        """Writes all pairs into one file, in the package's own format, for `Dictionary.load`. It gets its name,
        or replaces the file that has it, when it is complete and on stable storage. Other threads can go on
        meanwhile; what they change is not in it.

        Parameters
        ----------
        path
            The file. Its folder must exist.
        progress
            Is called now and then with how many bytes were written, of how many. An exception of its own is raised
            when the file is complete.
        overwrite
            Whether an existing file is replaced. If not, nothing that has the name is touched, even if another
            program creates it during the call; also a link that leads nowhere counts.

        Raises
        ------
        FileExistsError
            If `overwrite` is False, and the file exists.
        FileNotFoundError
            If there is no such folder. It names the folder.
        OSError, OutOfMemoryError
            If the file can't be written. An old one is as it was.

        Examples
        --------
        >>> import gpulsm, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "prices.gpulsm")
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).save(path)
        >>> gpulsm.Dictionary.load(path).first()
        (10, 1)
        >>> folder.cleanup()
        """
        path, told = file_name(path), checked_progress(progress)
        check_storable(self._value)
        is_replaced = flag("overwrite", overwrite)
        if is_replaced:
            check_regular(path)
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file in it", path)
        with naming_missing_folder(path):
            self._store.save(path, is_replaced, told)


def _as_array(scalar: Given, family: Family) -> Given:
    """One key as an array of a family."""
    array = family.full(1, scalar.dtype, scalar.array[0])
    return Given(scalar.name, scalar.dtype, array, 1, family)
