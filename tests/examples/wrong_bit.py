"""The demo's camera with one bit of the sixth frame changed after signing, as on a bad line."""

from __future__ import annotations

from typing import Any

from pzc.agents.notifying.publisher import Publisher

from examples.lab import station

sent = 0
transmit = Publisher._transmit


def transmit_with_one_wrong_bit(self: Publisher, frames: list[Any]) -> None:
    global sent
    sent += 1
    if sent == 6:
        content = bytearray(frames[2])
        content[len(content) // 2] ^= 1
        frames = [*frames[:2], bytes(content), *frames[3:]]
    transmit(self, frames)


if __name__ == "__main__":
    Publisher._transmit = transmit_with_one_wrong_bit  # type: ignore[method-assign]
    station.main()
