"""Contents of strangers that would fill the memory of a server, or keep it busy."""

from __future__ import annotations

import fractions
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.contract.rigs import victims
from tests.contract.rigs.victims import Victim

pa: Any = pytest.importorskip("pyarrow")

MIB = 1 << 20
PRIME = (1 << 61) - 1
"""Integers that differ by multiples of it have one hash."""

SECONDS = 3.0
"""Of computing, that one message may take."""

home, victim = victims.home, victims.victim
pack = msgspec.msgpack.encode


def kind(name: str, parts: Any) -> Any:
    """A value of a kind, as it travels."""
    return msgspec.msgpack.Ext(1, pack([name, parts]))


def error(**fields: Any) -> Any:
    """An exception as it travels."""
    form = {"type": "builtins.ValueError", "base": "ValueError", "text": "", "notes": [], "more": b""}
    return form | fields


ENDLESS = kind("range", [0, 10**8, 1])


def nested_errors() -> bytes:
    """An exception whose cause is in its bytes, 150 times, around 8 MiB."""
    form = error(more=bytes(8 * MIB))
    for _ in range(150):
        form = error(more=pack([[], {}, form, None, False, []]))
    return pack(kind("exception", form))


def one_buffer(times: int) -> bytes:
    """A frame with copies of one buffer of 4 MiB."""
    body = pack([kind("bytearray", msgspec.msgpack.Ext(2, b"0"))] * times)
    head = struct.pack("<4sIQQ", b"PZB1", 1, len(body), 4 * MIB) + body
    return head + bytes(-len(head) % 64) + bytes(4 * MIB)


def ratios() -> list[Any]:
    """Numbers of one hash, which are all of the kind `fraction`."""
    inverse = pow(3, PRIME - 2, PRIME)
    found = [fractions.Fraction(3 * (inverse + n * PRIME) + 1, 3) for n in range(30_000)]
    return [kind("fraction", [kind("int", hex(each.numerator)), 3]) for each in found]


CONTENTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "bytes by their number": ("msgpack", lambda: pack(kind("bytearray", 1 << 30))),
    "bytes by their number in JSON": ("json", lambda: b'{"__pzc__":"bytearray","value":1073741824}'),
    **{
        f"endless {name}": ("msgpack", lambda name=name: pack(kind(name, ENDLESS)))
        for name in ("set", "frozenset", "dict", "complex", "slice", "range", "timedelta", "fraction")
    },
    "endless deque": ("msgpack", lambda: pack(kind("deque", [ENDLESS, None]))),
    "endless array": ("msgpack", lambda: pack(kind("array", [None, [10**8], "C", ENDLESS]))),
    "endless notes": ("msgpack", lambda: pack(kind("exception", error(notes=ENDLESS)))),
    "endless arguments": (
        "msgpack",
        lambda: pack(kind("exception", error(more=pack([ENDLESS, {}, None, None, False, []])))),
    ),
    "exceptions in exceptions": ("msgpack", nested_errors),
    "one buffer often": ("arrays", lambda: one_buffer(500)),
    "a long text among short ones": (
        "msgpack",
        lambda: pack(kind("quantity", [["x" * 200_000, *[""] * 20_000], []])),
    ),
    "a long time": ("msgpack", lambda: pack(kind("timestamp", ["1" * MIB, None]))),
    "many items": ("msgpack", lambda: b"\xdd" + (4 * MIB).to_bytes(4) + b"\x90" * (4 * MIB)),
    "items that are not there": ("msgpack", lambda: b"\xdd\xff\xff\xff\xff"),
    "an extension that is not there": ("msgpack", lambda: b"\xc9\xff\xff\xff\xff\x01"),
    "an extension shorter than its content": ("msgpack", lambda: b"\x92\xc7\x01\x01\x92\xa3set\x90"),
    "tuples in tuples": (
        "msgpack",
        lambda: b"".join(b"\xc9" + (7 * n + 1).to_bytes(4) + b"\x03\x91" for n in range(50_000, 0, -1)),
    ),
    "a map with lists as keys": ("msgpack", lambda: b"\x81\x90\xc0"),
    "a set of one hash": ("msgpack", lambda: pack(kind("set", ratios()))),
    "a dict of one hash": ("msgpack", lambda: pack(kind("dict", [[each, 0] for each in ratios()]))),
    "a buffer beyond the frame": ("arrays", lambda: struct.pack("<4sIQQ", b"PZB1", 1, 1, 1 << 60) + b"\xc0"),
    "more buffers than bytes": ("arrays", lambda: struct.pack("<4sIQ", b"PZB1", 0xFFFFFFFF, 1) + b"\xc0"),
    "a memo of four billions": ("pickle", lambda: b"\x80\x04Nr\xff\xff\xff\xff."),
}


def copies(what: bytes, length: int = 2 * MIB) -> bytes:
    """A pickle with 1500 values that are made of one text or bytes."""
    return (
        b"\x80\x04X" + struct.pack("<I", length) + b"1" * length + b"q\x000"
        b"B" + struct.pack("<I", length) + bytes(length) + b"q\x010(" + what * 1500 + b"l."
    )  # fmt: skip


COPIES = {
    "bytes": b"c_codecs\nencode\nh\x00\x8c\x06latin1\x86R",
    "bytearrays": b"cbuiltins\nbytearray\nh\x01\x85R",
    "deques": b"ccollections\ndeque\nh\x01\x85R",
    "decimals": b"cdecimal\nDecimal\nh\x00\x85R",
}
for _name, _what in COPIES.items():
    CONTENTS[f"{_name} of one text"] = "pickle", lambda what=_what: copies(what)


def stream(table: Any, **options: Any) -> bytes:
    """A table as Arrow sends it."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as written:
        written.write_table(table)
    return out.getvalue().to_pybytes()


def long_list(values: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def astray() -> bytes:
    """Text whose offsets point beyond its bytes."""
    good = np.array([0, 3, 5, 6], "i4").tobytes()
    return stream(pa.table({"a": ["abc", "de", "f"]})).replace(
        good, np.array([0, 1 << 30, 5, 1 << 30], "i4").tobytes()
    )


def views() -> bytes:
    """Cells that share a megabyte."""
    one = pa.array(["x" * MIB], pa.string_view()).buffers()
    places = b"".join(struct.pack("<i4sii", MIB - n, b"xxxx", 0, 0) for n in range(3000))
    return stream(
        pa.table({"a": pa.Array.from_buffers(pa.string_view(), 3000, [None, pa.py_buffer(places), one[2]])})
    )


def same_text(count: int) -> Any:
    """Cells that name one text of a megabyte."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), pa.array(["x" * MIB]))


FRAMES: dict[str, Callable[[], bytes]] = {
    "empty cells": lambda: stream(pa.table({"a": pa.nulls(10**8)})),
    "empty cells and a megabyte": lambda: stream(
        pa.table({"a": pa.nulls(3 * 10**7)}).replace_schema_metadata({"a": "x" * MIB})
    ),
    "a list of empty cells": lambda: stream(pa.table({"a": long_list(pa.nulls(10**8))})),
    "a dictionary of empty cells": lambda: stream(
        pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.nulls(10**8))})
    ),
    "a list of one text": lambda: stream(pa.table({"a": long_list(same_text(2000))})),
    "a run": lambda: stream(
        pa.table({"a": pa.RunEndEncodedArray.from_arrays(pa.array([10**8], pa.int32()), pa.array([1.0]))})
    ),
    "compressed": lambda: stream(pa.table({"a": np.zeros(64 * MIB)}), compression="zstd"),
    "offsets astray": astray,
    "cells that share bytes": views,
    "no frame": lambda: b"\xff" * 64,
}
for _name, _made in FRAMES.items():
    CONTENTS[f"frame: {_name}"] = "msgpack", lambda made=_made: pack(kind("frame", made()))


@pytest.mark.parametrize("what", CONTENTS)
def test_a_message_of_a_stranger_takes_little_memory_and_time(victim: Victim, what: str) -> None:
    serializer, make = CONTENTS[what]
    body, computed = make(), victim.cpu()
    victim.begin_peak()
    before = victim.peak()
    assert victim.ask(body, serializer) is not None
    assert victim.peak() - before < 200 * MIB
    assert victim.cpu() - computed < SECONDS
    assert victim.works()
