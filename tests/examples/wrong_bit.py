"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from collections.abc import Iterable

from pzc.protocol.records import Frames, Record, Records

from examples.lab import instrument

seal = Records.seal


def seal_and_change_one_bit(self: Records, records: Iterable[Record]) -> list[Frames | None]:
    given = list(records)
    made = seal(self, given)
    for at, (record, frames) in enumerate(zip(given, made, strict=True)):
        if record.row.number == 6 and frames is not None:
            header, name, body, msgid, signature = frames
            content = bytearray(body)
            content[len(content) // 2] ^= 1
            made[at] = header, name, bytes(content), msgid, signature
    return made


class CameraInstrument(instrument.CameraInstrument):
    def __init__(self) -> None:
        super().__init__()
        Records.seal = seal_and_change_one_bit  # type: ignore[method-assign]
