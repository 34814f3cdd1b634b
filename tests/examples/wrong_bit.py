"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from pzc.protocol.records import Record, Records

from examples.lab import instrument

seal = Records.seal


def seal_and_change_one_bit(
    self: Records, records: Sequence[Record], lock: AbstractContextManager[object]
) -> list[bytes]:
    headers = seal(self, records, lock)
    for record in records:
        if record.number == 6 and record.content is record.body:
            content = bytearray(record.content)
            content[len(content) // 2] ^= 1
            record.content = bytes(content)
    return headers


class CameraInstrument(instrument.CameraInstrument):
    def __init__(self) -> None:
        super().__init__()
        Records.seal = seal_and_change_one_bit  # type: ignore[method-assign]
