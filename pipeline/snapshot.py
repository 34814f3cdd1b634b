"""Snapshots: the tables as whole batches have left them, for any reader of Arrow or of Parquet files; no JVM.

::

    file of a table                          in a snapshot
    that the commit log names                yes
    another one, as of a batch in the middle no
    when there is no commit log              yes
    hidden, or in the stage                  no

What a snapshot lists stays readable while a pipeline adds to the tables. Days that `backfill` makes anew are
the exception: take another snapshot then. Small tables (`gaps` and others) are one file, the newest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..agents import html_page, html_table
from ..protocol.errors import ConfigError, JournalError
from . import missing, sql
from .arrow import pc
from .decoding.arrays import arrays_in, digest_of
from .decoding.values import decoded, read_blob
from .recording.reading import batches
from .schema import TABLES, folders, segments, stored
from .tables.commit_log import listed
from .tables.files import stored_files

try:
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    from pyarrow.fs import LocalFileSystem
except ImportError as exc:
    raise missing("pyarrow") from exc

if TYPE_CHECKING:
    import duckdb


_WITH_CONTENT = ("recorder", "offset", "serializer", "content", "content_ref")


class Tables(Mapping[str, ds.Dataset]):
    """The tables of a folder by name, as they are now; a table without files has its columns and no rows.

    Args:
        directory: of the tables.
        journal: of the rows, for `array`; default the one that they were made of, where it was then.

    Attributes:
        directory: the same, absolute.
        journal: where `array` finds large arrays; None when that is not known.

    Raises:
        JournalError: when there are no tables, or they are of a newer form; says what to do.
    """

    def __init__(self, directory: str | Path, journal: str | Path | None = None) -> None:
        self.directory = Path(directory).absolute()
        self.journal = None if journal is None else Path(journal)
        if not (self.directory / "notifications").is_dir():
            raise JournalError(
                f"no tables in {directory}: name another folder, or make them with "
                f"pzc pipeline run JOURNAL {directory} --once"
            )
        self._files = self._listed()

    def _repr_html_(self) -> str:
        rows = ((name, len(files), ", ".join(stored(name).names)) for name, files in self._files.items())
        return html_page(f"tables in {self.directory}", html_table(("table", "files", "columns"), rows))

    def __getitem__(self, name: str) -> ds.Dataset:
        """One table.

        Raises:
            KeyError: for a name that no table has.
            JournalError: when its files cannot be read.
            MissingRequirement: for ``windows`` without DuckDB.
        """
        if name in sql.VIEWS:
            return ds.dataset(self.sql(f"SELECT * FROM {name}"))
        files, schema = self._files[name], stored(name)
        if not files:
            return ds.dataset(schema.empty_table())
        by_folder = ds.partitioning(folders(name), flavor="hive") if folders(name) else None
        options = ds.FileSystemFactoryOptions(str(self.directory / name), partitioning=by_folder)
        parquet = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
        try:
            factory = ds.FileSystemDatasetFactory(LocalFileSystem(), files, parquet, options)
            return factory.finish(schema)
        except (OSError, pa.ArrowException) as exc:
            raise JournalError(f"table {name} in {self.directory} cannot be read: {exc}") from exc

    def __iter__(self) -> Iterator[str]:
        return chain(self._files, sql.VIEWS)

    def __len__(self) -> int:
        return len(self._files) + len(sql.VIEWS)

    def files(self, name: str) -> list[str]:
        """Paths of a table's files, for DuckDB, Polars or Spark; KeyError for a name that no table has."""
        return list(self._files[name])

    def sql(self, query: str, limit: int | None = None) -> pa.Table:
        """Ask the tables in SQL of DuckDB, which the extra ``pzc[sql]`` installs.

        Args:
            query: over the names of the tables.
            limit: at most so many rows; default all.

        Raises:
            ConfigError: for a query that cannot be understood or answered; one line, with the nearest names.
            JournalError: for a file that cannot be read; says what to do.
            MissingRequirement: when DuckDB is not installed.
        """
        with sql.connection() as connection:
            import duckdb

            try:
                return self._answered(connection, query, limit)
            except duckdb.Error as exc:
                if isinstance(exc, duckdb.InvalidInputException):
                    self._check_files()
                raise ConfigError(sql.line(exc)) from None

    def _check_files(self) -> None:
        """Name a file that cannot be read: whoever asked is not to blame."""
        for path in chain.from_iterable(self._files.values()):
            try:
                pq.read_metadata(path)
            except (OSError, pa.ArrowException) as exc:
                todo = "put a copy in its place, or make its day anew by pzc pipeline backfill"
                raise JournalError(f"{path} cannot be read: {exc}; {todo}") from None

    def array(self, row: Mapping[str, Any], path: str | None = None) -> np.ndarray:
        """An array of a notification, which for a large one is read out of the journal.

        Args:
            row: of ``notifications``, with ``recorder offset dtype shape value_list digest`` at least, and
                ``arrays`` for a path.
            path: of one of several, as ``arrays`` has it: ``"intensity"``, ``"scan.points[0]"``; default the
                first.

        Raises:
            KeyError: for a row without one of these.
            JournalError: when the row has no such array, or the journal does not have it any more.
            DecodeError, SerializerRefused: when its content cannot be decoded here.
        """
        told = row if path is None else _told(row, path)
        digest, values = told["digest"], row["value_list"] if path is None else told["values"]
        if digest is None:
            raise JournalError(f"row {row['offset']} of {row['recorder']} has no array of numbers")
        if values is not None:
            with np.errstate(invalid="ignore"):  # a number that its type cannot hold has lost its last digits
                listed = np.array(values).astype(told["dtype"]).reshape(told["shape"])
            if digest_of(listed) == digest:  # not so for whole numbers of many digits
                return listed
        if self.journal is None:
            raise JournalError("the journal of these tables is not known: give it to pzc.tables")
        try:
            found = _array_in(self.journal, row["recorder"], row["offset"], path)
        except FileNotFoundError:  # its blob
            found = None
        if found is None or digest_of(found) != digest:
            raise JournalError(f"journal {self.journal} does not have the array of this row")
        return found

    def _answered(self, connection: duckdb.DuckDBPyConnection, query: str, limit: int | None) -> pa.Table:
        for name in self._files:
            connection.register(name, self[name])
        for name, view in sql.VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {view}")
        found = connection.sql(query)
        if found is None:
            return pa.table({})
        return _with_whole_numbers((found if limit is None else found.limit(limit)).to_arrow_table())

    def _listed(self) -> dict[str, list[str]]:
        told, found = listed(self.directory), {name: list[str]() for name in TABLES}
        if told is None:
            places = [place for place, _ in stored_files(self.directory, TABLES)]
        else:
            small = stored_files(self.directory, [name for name in TABLES if not folders(name)])
            places = [*sorted(told.places), *(place for place, _ in small)]
            if told.journal and self.journal is None:
                self.journal = Path(told.journal)
        for place in places:
            if (name := place.partition("/")[0]) in found:
                found[name].append(str(self.directory / place))
        return found


def tables(directory: str | Path, journal: str | Path | None = None) -> Tables:
    """The tables that a pipeline has made, as they are now; arguments and errors as `Tables`."""
    return Tables(directory, journal)


def _told(row: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """What a row tells of the array at a path; JournalError when there is none."""
    arrays = row["arrays"] or []
    for number, each in enumerate(arrays):
        if each["path"] == path:
            return each if number else {**each, "values": row["value_list"]}
    known = ", ".join([repr(each["path"]) for each in arrays[:20]]) or "none"
    raise JournalError(f"row {row['offset']} of {row['recorder']} has no array {path!r}; its arrays: {known}")


def _array_in(journal: Path, recorder: str, offset: int, path: str | None) -> np.ndarray | None:
    known = segments(journal, recorder)
    at = bisect_right([first for first, _ in known], offset) - 1
    for batch in batches(known[at][1], _WITH_CONTENT) if at >= 0 else ():
        for row in batch.filter(pc.equal(batch.column("offset"), offset)).to_pylist():
            ref = row["content_ref"]
            content = row["content"] if ref is None else read_blob(journal, ref)
            found = arrays_in(decoded(row["serializer"].decode(), content))
            return next((array for at, array in found if path in (None, at)), None)
    return None


def _with_whole_numbers(table: pa.Table) -> pa.Table:
    """Sums of whole numbers as such: DuckDB gives them more digits than 64 bits have."""
    for number, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and not field.type.scale:
            try:
                column = table.column(number).cast(pa.int64())
            except pa.ArrowInvalid:  # it needs these digits
                continue
            table = table.set_column(number, field.name, column)
    return table
