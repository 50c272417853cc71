"""As-of joins: the last quote of each trade's symbol at the trade's time.

    python asof.py --quotes 10000000 --trades 10000000

compares gpulsm with pandas's `merge_asof`, Polars's `join_asof` and DuckDB's `ASOF JOIN`
(`pip install pandas polars duckdb`), those of them that are installed, and checks that all give the same answers.
Quotes and trades come in the order of time, as feeds do, which pandas and Polars require and do not have to
establish. gpulsm's dictionary is built from the quotes (which sorts them by symbol and time), and can then be
asked, and added to, at any time.

The second table is of a stream: quotes come in batches, and after each batch trades are to be matched with all
quotes so far.

With `--device cuda --resident`, gpulsm is also measured with quotes and trades in the GPU's memory, as CuPy's arrays
(`pip install cupy-cuda13x`), where the answers stay as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpulsm

SYMBOLS = 5_000
KEY = ("uint32", "int64")


@dataclass(frozen=True)
class Rows:
    """Symbols and times, in the order of time, and the prices of quotes."""

    symbols: Any
    times: Any
    prices: Any

    def part(self, start: int, end: int) -> Rows:
        return Rows(self.symbols[start:end], self.times[start:end], self.prices[start:end])


@dataclass(frozen=True)
class Join:
    """A library: how it prepares quotes, how it joins trades with what it prepared, and who sorts."""

    name: str
    prepare: Callable[[Rows], Any]
    join: Callable[[Any, Rows], Any]
    sorting: str
    #: Adds quotes to what was prepared; without this, all of them are prepared anew.
    add: Callable[[Any, Rows], None] | None = None
    #: How rows come to where the library takes them from, and prices from where it leaves them: before and after
    #: what is measured.
    load: Callable[[Rows], Rows] = lambda rows: rows
    unload: Callable[[Any], NDArray[np.float64]] = np.asarray


def make_rows(count: int, span: int, skew: float, seed: int) -> Rows:
    """Rows of different times within a span; with a skew, some symbols are much more frequent."""
    random = np.random.default_rng(seed)
    times = np.linspace(0, span, count, endpoint=False).astype(np.int64)
    symbols = (SYMBOLS * random.random(count) ** skew).astype(np.uint32)
    return Rows(symbols, times, random.normal(100, 1, count))


def of_gpulsm(device: str) -> Join:
    def prepare(quotes: Rows) -> gpulsm.Dictionary:
        keys = quotes.symbols, quotes.times
        built = gpulsm.Dictionary.build(keys, quotes.prices, key=KEY, device=device)
        built.synchronize()
        return built

    def join(built: gpulsm.Dictionary, trades: Rows) -> NDArray[np.float64]:
        _, prices, found = built.asof((trades.symbols, trades.times))
        prices[~found] = np.nan
        answer: NDArray[np.float64] = prices
        return answer

    return Join("gpulsm", prepare, join, "of the quotes, in `prepare`", add)


def add(live: gpulsm.Dictionary, quotes: Rows) -> None:
    live.insert((quotes.symbols, quotes.times), quotes.prices)


def of_resident_gpulsm(device: str) -> Join:
    import cupy

    def load(rows: Rows) -> Rows:
        return Rows(*map(cupy.asarray, (rows.symbols, rows.times, rows.prices)))

    def join(built: gpulsm.Dictionary, trades: Rows) -> Any:
        _, prices, found = built.asof((trades.symbols, trades.times))
        prices = cupy.where(found, prices, cupy.nan)
        cupy.cuda.get_current_stream().synchronize()
        return prices

    usual = of_gpulsm(device)
    name, unload = "gpulsm, all data in the GPU's memory", cupy.asnumpy
    return Join(name, usual.prepare, join, usual.sorting, add, load, unload)


def of_pandas() -> Join:
    import pandas

    def frame(rows: Rows) -> pandas.DataFrame:
        columns = {"symbol": rows.symbols, "time": rows.times, "price": rows.prices}
        return pandas.DataFrame(columns, copy=False)

    def join(quotes: pandas.DataFrame, trades: Rows) -> NDArray[np.float64]:
        asked = frame(trades)[["symbol", "time"]]
        return pandas.merge_asof(asked, quotes, on="time", by="symbol")["price"].to_numpy()

    return Join("pandas", frame, join, "none: both must come sorted by time")


def of_polars() -> Join:
    import polars

    def frame(rows: Rows) -> polars.DataFrame:
        columns = {"symbol": rows.symbols, "time": rows.times, "price": rows.prices}
        return polars.DataFrame(columns).with_columns(polars.col("time").set_sorted())

    def join(quotes: polars.DataFrame, trades: Rows) -> NDArray[np.float64]:
        asked = frame(trades).select("symbol", "time")
        joined = asked.join_asof(quotes, on="time", by="symbol", check_sortedness=False)
        return joined["price"].fill_null(np.nan).to_numpy()

    return Join("Polars", frame, join, "none: both must come sorted by time")


def of_duckdb() -> Join:
    import duckdb

    def prepare(quotes: Rows) -> Any:
        connection = duckdb.connect()
        connection.register("quotes_here", table(quotes))
        connection.execute("CREATE TABLE quotes AS SELECT * FROM quotes_here")
        return connection

    def table(rows: Rows) -> dict[str, NDArray[Any]]:
        place = np.arange(len(rows.times))
        return {"symbol": rows.symbols, "time": rows.times, "price": rows.prices, "place": place}

    def join(connection: Any, trades: Rows) -> NDArray[np.float64]:
        connection.register("trades", table(trades))
        joined = connection.execute(
            "SELECT t.place, q.price FROM trades t ASOF LEFT JOIN quotes q "
            "ON t.symbol = q.symbol AND t.time >= q.time"
        ).fetchnumpy()
        prices = np.empty(len(trades.times))
        prices[joined["place"]] = np.ma.filled(joined["price"], np.nan)
        return prices

    return Join("DuckDB", prepare, join, "of both, in `join`")


def joins(options: argparse.Namespace) -> Iterator[Join]:
    yield of_gpulsm(options.device)
    if options.resident:
        yield of_resident_gpulsm(options.device)
    for module, make in (("pandas", of_pandas), ("polars", of_polars), ("duckdb", of_duckdb)):
        if importlib.util.find_spec(module) is not None:
            yield make()


def compare(options: argparse.Namespace, quotes: Rows, trades: Rows) -> None:
    """All quotes at once, all trades at once."""
    print("| library | prepare, s | join, s | both, s | sorting in its time |")
    print("| --- | ---: | ---: | ---: | --- |")
    expected = None
    for one in joins(options):
        times = []
        loaded, asked = one.load(quotes), one.load(trades)
        for _ in range(options.repeats):
            start = perf_counter()
            prepared = one.prepare(loaded)
            middle = perf_counter()
            answer = one.join(prepared, asked)
            times.append((middle - start, perf_counter() - middle))
            del prepared
        prices = one.unload(answer)
        expected = prices if expected is None else expected
        check(one.name, prices, expected)
        prepare, join = min(times, key=sum)
        both = prepare + join
        print(f"| {one.name} | {prepare:.4f} | {join:.4f} | {both:.4f} | {one.sorting} |")


def stream(options: argparse.Namespace, quotes: Rows, trades: Rows) -> None:
    """Quotes in batches, and after each of them trades."""
    count = options.batches
    print(f"\n| library | rows/s, {count} batches | delay of a batch, median | the longest |")
    print("| --- | ---: | ---: | ---: |")
    expected = None
    for one in joins(options):
        delays, answers = [], []
        loaded, asked = one.load(quotes), one.load(trades)
        live = None
        for batch in range(count):
            start, end = (len(quotes.times) * at // count for at in (batch, batch + 1))
            some = asked.part(*(len(trades.times) * at // count for at in (batch, batch + 1)))
            begun = perf_counter()
            if live is None or one.add is None:
                live = one.prepare(loaded.part(0, end))
            else:
                one.add(live, loaded.part(start, end))
            answers.append(one.join(live, some))
            delays.append(perf_counter() - begun)
        prices = np.concatenate([one.unload(answer) for answer in answers])
        expected = prices if expected is None else expected
        check(one.name, prices, expected)
        rate = (len(quotes.times) + len(trades.times)) / sum(delays)
        median, longest = 1000 * np.median(delays), 1000 * max(delays)
        print(f"| {one.name} | {rate:,.0f} | {median:,.2f} ms | {longest:,.2f} ms |")


def check(name: str, prices: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    if not np.array_equal(prices, expected, equal_nan=True):
        raise AssertionError(f"{name} gives other answers")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quotes", type=int, default=1_000_000)
    parser.add_argument("--trades", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=20, help="of the stream")
    parser.add_argument("--repeats", type=int, default=2, help="of each join; the fastest counts")
    parser.add_argument("--device", default="cpu", help="of gpulsm: cpu, cuda or cuda:N")
    parser.add_argument(
        "--resident", action="store_true", help="also with all data in the GPU's memory (CuPy)"
    )
    options = parser.parse_args(arguments)
    if options.resident and not options.device.startswith("cuda"):
        parser.error("--resident: expected --device cuda")
    span = 1_000 * max(options.quotes, options.trades)
    quotes = make_rows(options.quotes, span, skew=1, seed=1)
    trades = make_rows(options.trades, span, skew=3, seed=2)
    print(
        f"{options.quotes:,} quotes of {SYMBOLS:,} symbols, {options.trades:,} trades, "
        f"{os.cpu_count()} cores, gpulsm {gpulsm.__version__} on {options.device}\n"
    )
    compare(options, quotes, trades)
    stream(options, quotes, trades)
    print("\nanswers checked: all libraries give the same prices")


if __name__ == "__main__":
    main()
