"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from typing import Any

from pzc.protocol.link_messages import Body
from pzc.protocol.records import Records

from examples.lab import station

prove = Records.prove


def prove_and_change_one_bit(
    self: Records, topic: str, number: int, *about: Any
) -> tuple[Body, bytes, bytes]:
    body, msgid, signature = prove(self, topic, number, *about)
    if number != 6:
        return body, msgid, signature
    content = bytearray(body)
    content[len(content) // 2] ^= 1
    return bytes(content), msgid, signature


class CameraStation(station.CameraStation):
    def __init__(self) -> None:
        super().__init__()
        Records.prove = prove_and_change_one_bit  # type: ignore[method-assign]
