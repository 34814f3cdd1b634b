"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pzc.protocol.link_messages import Row
from pzc.protocol.records import Records

from examples.lab import station

prove = Records.prove


def prove_and_change_one_bit(self: Records, topic: str, rows: Sequence[Row]) -> list[Row]:
    return [_changed(row) if row.number == 6 else row for row in prove(self, topic, rows)]


def _changed(row: Row) -> Row:
    content = bytearray(row.body)
    content[len(content) // 2] ^= 1
    return replace(row, body=bytes(content))


class CameraStation(station.CameraStation):
    def __init__(self) -> None:
        super().__init__()
        Records.prove = prove_and_change_one_bit  # type: ignore[method-assign]
