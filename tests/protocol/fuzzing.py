"""Decodes damaged contents for a while, in bounded memory: ``python -m tests.protocol.fuzzing SEED SECONDS``.

It prints how many there were, and fails at the first that raises what it should not, or takes too much.
"""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import random
import resource
import sys
import time
from collections import deque
from fractions import Fraction
from pathlib import Path, PurePath
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pint

from pzc.protocol import serializers
from pzc.protocol.errors import DecodeError, SerializerRefused

MIB = 1 << 20
MOST = 256 * MIB
"""Bytes that one content may add to the peak of memory."""

SECONDS = 5.0
"""That one content may take."""

PLAIN = [
    None, True, -3, 1 << 80, 2.5, "text", b"bytes", [1, [2]], (1, (2,)), {"a": {"b": [1]}}, {1, "a"}, {(1, 3): 3},
    dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.timedelta(1), decimal.Decimal("1.5"), ValueError("x", 1), 1j,
    bytearray(b"ab"), ("PSMessage", "exec", {"name": "add", "args": (1, 2), "kwargs": {}}),
]  # fmt: skip
OTHER = [
    range(9), deque([1], 2), slice(1, 2), ..., Fraction(1, 3), UUID(int=7), PurePath("/a"), ZoneInfo("Europe/Berlin"),
    np.arange(5.0), np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), np.array([1, "a"], object), np.float32(1),
    pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]}), pd.Timestamp("2026-01-02", tz="UTC"), pd.Timedelta(1),
    pint.get_application_registry().Quantity(3, "volt"),
]  # fmt: skip
BYTES = bytes((*range(0x80, 0xE0), 0, 1, 0x7F, 0xFF, *b"().0abdehjlqrstu}]R\x81\x85\x87\x94"))
"""Those that open something, in MessagePack or a pickle."""


def contents() -> list[tuple[str, bytes]]:
    """Valid ones: name of the serializer, and bytes."""
    every = [*PLAIN, *OTHER, PLAIN, OTHER]
    found = [("pickle", pickle.dumps(each, protocol)) for each in [*PLAIN, PLAIN] for protocol in (0, 2, 4)]
    return found + [
        (name, bytes(serializers.encode(name, each))) for name in ("msgpack", "arrays") for each in every
    ]


def damaged(chance: random.Random, raw: bytes, others: list[tuple[str, bytes]]) -> bytes:
    """The bytes with a few changes: others, fewer, doubled, large numbers, and pieces of other contents."""
    body = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(body) + 1)
        end = min(len(body), at + chance.choice((1, 2, 4, 8, 32)))
        piece = chance.choice(others)[1]
        start = chance.randrange(len(piece) + 1)
        body[at:end] = chance.choice([
            bytes((chance.choice(BYTES),)),
            chance.randbytes(end - at),
            b"",
            bytes(body[at:end]) * chance.choice((2, 50)),
            chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x01", b"\x01\0\0\0")),
            piece[start : start + chance.choice((1, 4, 64, 1024))],
        ])  # fmt: skip
    return bytes(body)


def peak() -> int:
    """Bytes of memory that this process had at most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def is_read(name: str, body: bytes) -> bool:
    """Whether a stranger's content is read; False when it is refused."""
    try:
        serializers.decode(name, body, trusted=False)
    except (DecodeError, SerializerRefused) as error:
        if "MemoryError" in str(error):
            raise
        return False
    return True


def main(seed: int, seconds: float) -> None:
    """Decode until the time is over."""
    chance, valid = random.Random(seed), contents()
    for name, raw in valid:
        serializers.decode(name, raw, trusted=False)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    until, count, read = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        name, raw = chance.choice(valid)
        body, before, began = damaged(chance, raw, valid), peak(), time.monotonic()
        what = f"seed {seed}, content {count}: {name} {body.hex()}"
        try:
            read += is_read(name, body)
        except BaseException as error:
            raise AssertionError(what) from error
        assert peak() - before < MOST, what
        assert time.monotonic() - began < SECONDS, what
        count += 1
    print(f"seed {seed}: {count} contents, {read} of them were read")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
