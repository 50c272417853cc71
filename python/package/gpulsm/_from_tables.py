"""Dictionaries of the columns of data frames and tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from numpy.typing import DTypeLike

from gpulsm._families import is_of
from gpulsm._types import KeyLike

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

T = TypeVar("T", bound="FromTables")


class FromTables:
    """Ways to make a dictionary of columns, for a class that `build` makes of arrays."""

    build: ClassVar[Callable[..., Any]]

    @classmethod
    def from_pandas(
        cls: type[T],
        frame: pandas.DataFrame | pandas.Series[Any],
        key: Hashable | list[Hashable] | None = None,
        value: Hashable | list[Hashable] | None = None,
        *,
        key_type: KeyLike | None = None,
        value_type: DTypeLike | None = None,
        **settings: Any,
    ) -> T:
        """Returns a dictionary of two columns of a pandas data frame, or of a series.

        Parameters
        ----------
        frame
            The data frame; or a series, whose index has the keys of its values.
        key
            The name of the column of keys, or a list of names, one for each part of the keys. Default: 'key',
            or 'key_0', 'key_1', …, as `to_pandas` names them; if there are no such columns, the index, of which
            each level is a part of the keys.
        value
            The name of the column of values, or a list of names of columns of one type, which become rows
            of several numbers. Default: 'value'; if there is no such column, the only one beside an index of keys.
        key_type, value_type
            The types, as `key` and `value` of `Dictionary`. Default: those of the columns; of bytes, as many as
            the longest has.
        **settings
            As of `build`: `duplicates`, `device`, `batch_size`, …

        Raises
        ------
        KeyError
            If there is no such column.
        TypeError
            If no columns are chosen, and none have these names.
        TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `build`.

        Examples
        --------
        >>> import gpulsm, pandas
        >>> frame = pandas.DataFrame({"id": [7, 5], "price": [0.7, 0.5]})
        >>> gpulsm.Dictionary.from_pandas(frame, key="id", value="price").first()
        (5, 0.5)
        >>> gpulsm.Dictionary.from_pandas(frame.set_index("id")["price"]).first()
        (5, 0.5)
        """
        from gpulsm._tables import check_table, index, indexed_columns

        if is_of("pandas", "Series", frame):
            if key is not None or value is not None:
                raise TypeError(
                    "key, value: expected none with a series: its index has the keys, and it has the values"
                )
            return cls._of_columns((index(frame), frame), (key_type, value_type), settings)
        check_table(frame, "frame", "a pandas DataFrame or Series")
        columns = indexed_columns(frame, key, value)
        return cls._of_columns(columns, (key_type, value_type), settings)

    @classmethod
    def from_polars(
        cls: type[T],
        frame: polars.DataFrame,
        key: str | list[str] | None = None,
        value: str | list[str] | None = None,
        *,
        key_type: KeyLike | None = None,
        value_type: DTypeLike | None = None,
        **settings: Any,
    ) -> T:
        """Returns a dictionary of two columns of a Polars data frame.

        Parameters
        ----------
        frame
            The data frame.
        key, value, key_type, value_type, **settings
            As of `from_pandas`; there is no index.

        Raises
        ------
        KeyError, TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `from_pandas`.

        Examples
        --------
        >>> import gpulsm, polars
        >>> frame = polars.DataFrame({"id": [7, 5], "price": [0.7, 0.5]})
        >>> gpulsm.Dictionary.from_polars(frame, key="id", value="price").first()
        (5, 0.5)
        """
        from gpulsm._tables import check_table, columns_of

        check_table(frame, "frame", "a Polars DataFrame")
        columns = columns_of(frame, key, value)
        return cls._of_columns(columns, (key_type, value_type), settings)

    @classmethod
    def from_arrow(
        cls: type[T],
        table: pyarrow.Table | pyarrow.RecordBatch,
        key: str | list[str] | None = None,
        value: str | list[str] | None = None,
        *,
        key_type: KeyLike | None = None,
        value_type: DTypeLike | None = None,
        **settings: Any,
    ) -> T:
        """Returns a dictionary of two columns of a PyArrow table or record batch.

        Parameters
        ----------
        table
            The table.
        key, value, key_type, value_type, **settings
            As of `from_pandas`; there is no index.

        Raises
        ------
        KeyError, TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `from_pandas`.

        Examples
        --------
        >>> import gpulsm, pyarrow
        >>> table = pyarrow.table({"id": [7, 5], "price": [0.7, 0.5]})
        >>> gpulsm.Dictionary.from_arrow(table, key="id", value="price").first()
        (5, 0.5)
        """
        from gpulsm._tables import check_table, columns_of

        check_table(table, "table", "a PyArrow Table or RecordBatch")
        columns = columns_of(table, key, value)
        return cls._of_columns(columns, (key_type, value_type), settings)

    @classmethod
    def _of_columns(
        cls: type[T],
        columns: tuple[Any, Any],
        types: tuple[KeyLike | None, DTypeLike | None],
        settings: dict[str, Any],
    ) -> T:
        built: T = cls.build(*columns, key=types[0], value=types[1], **settings)
        return built
