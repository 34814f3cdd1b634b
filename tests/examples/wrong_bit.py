"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pzc.protocol.records import Record, Records

from examples.lab import instrument

seal = Records.seal


def seal_and_change_one_bit(self: Records, record: Record, lock: AbstractContextManager[object]) -> bytes:
    header = seal(self, record, lock)
    if record.number == 6 and record.content is record.body:
        content = bytearray(record.content)
        content[len(content) // 2] ^= 1
        record.content = bytes(content)
    return header


class CameraInstrument(instrument.CameraInstrument):
    def __init__(self) -> None:
        super().__init__()
        Records.seal = seal_and_change_one_bit  # type: ignore[method-assign]
