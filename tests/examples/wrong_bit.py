"""The demo's camera with one bit of the sixth frame changed after signing, as in bad memory."""

from __future__ import annotations

from msgspec.structs import replace

from pzc.protocol.bundle import Item
from pzc.protocol.letters import Letter
from pzc.protocol.postmarks import Postmark

from examples.lab import station

sign = Postmark.letter


def sign_and_change_one_bit(self: Postmark, item: Item) -> Letter:
    letter = sign(self, item)
    if item.number != 6:
        return letter
    content = bytearray(letter.body)
    content[len(content) // 2] ^= 1
    return replace(letter, body=bytes(content))


if __name__ == "__main__":
    Postmark.letter = sign_and_change_one_bit  # type: ignore[method-assign]
    station.main()
