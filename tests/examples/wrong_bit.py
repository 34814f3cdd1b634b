"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from msgspec.structs import replace

from pzc.protocol.bundle import Item, Record
from pzc.protocol.records import Records

from examples.lab import station

sign = Records.record


def sign_and_change_one_bit(self: Records, item: Item) -> Record:
    record = sign(self, item)
    if item.number != 6:
        return record
    content = bytearray(record.body)
    content[len(content) // 2] ^= 1
    return replace(record, body=bytes(content))


class CameraStation(station.CameraStation):
    def __init__(self) -> None:
        super().__init__()
        Records.record = sign_and_change_one_bit  # type: ignore[method-assign]
