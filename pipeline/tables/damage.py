"""Segments that cannot be read as a whole: found, named, and passed over."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from .. import missing
from ..forms import check_segment
from ..schema import JOURNAL, segment_recorder
from .interval_set import IntervalSet
from .state import State
from .summary import Damage

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

log = logging.getLogger("pzc.pipeline")


def find_damage(paths: Iterable[Path], state: State, found_at: int) -> list[Damage]:
    """The segments of which rows are absent, although Spark was given them.

    What says nothing is good: a segment that is gone was compacted into another one.

    Args:
        paths: of segments that a batch has taken.
        state: with the offsets of that batch.
        found_at: µs since 1970.

    Raises:
        JournalError: for a segment of a newer form.
    """
    known = {damage.file for damage in state.damaged}
    found = [
        damage
        for path in paths
        if path.name not in known and (damage := _damage(path, state, found_at)) is not None
    ]
    for damage in found:
        told = "no row" if not damage.read else f"{damage.read} of {damage.rows} rows"
        log.error("segment %s is damaged, %s could be read: %s", damage.file, told, damage.reason)
    return found


def _damage(path: Path, state: State, found_at: int) -> Damage | None:
    try:
        told = pq.read_metadata(path)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException) as exc:
        return Damage(path.name, None, 0, _line(exc), found_at)
    check_segment(path, told.metadata)
    rows: int = told.num_rows
    handled = state.offsets.get(segment_recorder(path))
    read = (
        0
        if handled is None
        else sum(_handled(told.row_group(n), handled) for n in range(told.num_row_groups))
    )
    if read >= rows:
        return None
    return _looked_at(path, rows, read, state, found_at)


def _handled(group: pq.RowGroupMetaData, handled: IntervalSet) -> int:
    """Offsets that were handled, between the least and the greatest one of a part of a segment."""
    offset = group.column(JOURNAL.get_field_index("offset"))
    if offset.path_in_schema != "offset" or offset.statistics is None or not offset.statistics.has_min_max:
        return 0
    return sum(high - low + 1 for low, high in handled.overlap(offset.statistics.min, offset.statistics.max))


def _looked_at(path: Path, rows: int, read: int, state: State, found_at: int) -> Damage | None:
    """Judge a segment whose offsets do not follow one another, or are not all there."""
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException) as exc:
        return Damage(path.name, rows, read, _line(exc), found_at)
    pairs = zip(table.column("recorder").to_pylist(), table.column("offset").to_pylist(), strict=True)
    there = sum(recorder in state.offsets and offset in state.offsets[recorder] for recorder, offset in pairs)
    if there == rows:
        return None
    return Damage(path.name, rows, there, "Spark could not read it", found_at)


def _line(exc: Exception) -> str:
    return " ".join(str(exc).split())[:500] or type(exc).__name__
