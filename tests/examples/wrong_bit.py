"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from msgspec.structs import replace

from pzc.protocol.link_messages import Row
from pzc.protocol.records import Records

from examples.lab import station

prove = Records.prove


def prove_and_change_one_bit(self: Records, topic: str, row: Row) -> Row:
    proven = prove(self, topic, row)
    if row.number != 6:
        return proven
    content = bytearray(proven.body)
    content[len(content) // 2] ^= 1
    return replace(proven, body=bytes(content))


class CameraStation(station.CameraStation):
    def __init__(self) -> None:
        super().__init__()
        Records.prove = prove_and_change_one_bit  # type: ignore[method-assign]
