"""Rows that attack whoever reads a journal, by kind, and files that do not belong into one."""

from __future__ import annotations

import os
import pickle
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MIB = 1 << 20
DEEP = 100_000
START = 1_767_225_600_000
"""Of 2026, ms since 1970."""

PUBLISHER = "f" * 32
LAST_MS = (1 << 48) - 1
"""The last time that a message id can tell, in the year 10889."""

SCHEMA = pa.schema(
    [(name, pa.binary()) for name in ("header", "serializer", "content", "msgid", "signature")]
    + [(name, pa.string()) for name in ("recorder", "publisher", "name", "topic", "key_id", "content_ref")]
    + [(name, pa.timestamp("us", tz="UTC")) for name in ("received_at", "sent_at")]
    + [(name, pa.int64()) for name in ("offset", "epoch", "sequence")],
    metadata={"pzc.journal": "1"},
)
"""Columns of a segment."""


class Hostile(NamedTuple):
    """A row, and what has to become of it.

    Attributes:
        error: class that quarantine names; None for a row that is stored.
        reason: what quarantine says, in part.
        serializer: frame 1.
        content: frame 2.
        columns: of the row, and frames, in place of the usual ones.
    """

    error: str | None
    reason: str
    serializer: str = "json"
    content: bytes = b"1.5"
    columns: Mapping[str, Any] = MappingProxyType({})


class Unknown:
    """Of a class that no reader knows."""


def message_id(ms: int, number: int) -> bytes:
    """As an agent makes it."""
    return f"urn:uuid:{ms >> 16:08x}-{ms & 0xFFFF:04x}-8000-8000-{number:04x}00000007".encode()


def header(topic: str = "t", number: str = "1", key: str = "") -> bytes:
    """Frame 0 of a notification."""
    return f"PZC01+{PUBLISHER}+{topic}+{number}+{key}".encode()


def refused(reason: str, serializer: str, content: bytes, error: str = "DecodeError") -> Hostile:
    return Hostile(error, reason, serializer, content)


def array(size: int) -> bytes:
    """An array of so many zeros, as an agent publishes it."""
    parts = msgspec.msgpack.encode(["array", ["|u1", [size], "C", bytes(size)]])
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(1, parts))


def odd(error: str | None, reason: str, **columns: Any) -> Hostile:
    return Hostile(error, reason, columns=columns)


KINDS = {
    "nested lists": refused("recursion", "json", b"[" * DEEP + b"]" * DEEP),
    "nested tables": refused("recursion", "json", b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    "nested in MessagePack": refused("100 deep", "msgpack", b"\x91" * DEEP + b"\xc0"),
    "nested in a pickle": refused("nested", "pickle", b"\x80\x02" + b"]" * DEEP + b"a" * (DEEP - 1) + b"."),
    "nested tuples": refused("4096 tuples", "pickle", b"\x80\x02)" + b"\x85" * DEEP + b"."),
    "deeper than tables take": refused("64 containers", "json", b"[" * 65 + b"]" * 65),
    "as deep as tables take": Hostile(None, "", "json", b"[" * 64 + b"]" * 64),
    "huge content": refused("67108864", "json", b'"' + b"a" * (64 * MIB) + b'"'),
    "large array": Hostile(None, "", "msgpack", array(4 * MIB)),
    "many elements": refused("1000000 elements", "json", b"[" + b"0," * 1_000_000 + b"0]"),
    "many keys": refused(
        "1000000 elements", "json", b"{" + b",".join(b'"%d":0' % n for n in range(500_001)) + b"}"
    ),
    "much text": refused("characters", "json", b'["' + b"a" * (5 * MIB) + b'"]'),
    "much JSON": refused("characters", "json", b"[" + b"123456789," * 600_000 + b"0]"),
    "one text shared often": refused("unfolded", "pickle", pickle.dumps(["x" * 100_000] * 20_000)),
    "one list shared often": refused("", "pickle", pickle.dumps([[[0] * 2000] * 2000] * 2000)),
    "claims more than there is": refused("1048576 items", "msgpack", b"\xdd\xff\xff\xff\xff"),
    "claims a large array": refused("", "arrays", b"\xff" * 100),
    "whole number of many digits": refused("4300", "json", b"1" * 1_000_000),
    "no text": refused("utf-8", "json", b'"\xff\xfe"'),
    "nothing": refused("", "json", b""),
    "half a text": Hostile(None, "", "json", b'"\\ud800"'),
    "an unknown class": refused("Unknown", "pickle", pickle.dumps(Unknown()), "SerializerRefused"),
    "a function": refused(
        "", "pickle", b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.", "SerializerRefused"
    ),
    "an array in a pickle": refused("numpy", "pickle", pickle.dumps(np.zeros(3)), "SerializerRefused"),
    "an endless range": refused(
        "builtins.range",
        "pickle",
        b"\x80\x03cbuiltins\nrange\nK\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x01\x87R.",
        "SerializerRefused",
    ),
    "keys of one hash": refused(
        "large integers", "pickle", pickle.dumps(dict.fromkeys(n * ((1 << 61) - 1) for n in range(5000)))
    ),
    "unknown serializer": refused("yaml", "yaml", b"1", "SerializerRefused"),
    "serializer of links": refused("", "link", b"\xc1"),
    "long topic": odd("FrameError", "2048", header=header("t" * 5000), topic="t" * 5000),
    "topic of odd characters": odd(None, "", header=header("a\x00b\n\x1b[31m"), topic="a\x00b\n\x1b[31m"),
    "long key": odd("FrameError", "2048", header=header(key="k" * 5000)),
    "long name": odd("DecodeError", "4096", name="n" * 5000),
    "name of a file": odd(None, "", name="../../etc/passwd"),
    "name that is a folder": odd(None, "", name=".."),
    "name of odd characters": odd(None, "", name="\x00\x1b[31m\n=%"),
    "name without end": odd(None, "", name="\U0001f600" * 250),
    "no name": odd(None, "", name=None),
    "header of noise": odd("VersionError", "dialect", header=b"\xff" * 50),
    "no header": odd("VersionError", "dialect", header=b""),
    "no frames": odd(
        "VersionError", "dialect", header=None, serializer=None, content=None, msgid=None, signature=None
    ),
    "number beyond all": odd("FrameError", "sequence", header=header(number="9" * 30)),
    "number below all": odd("FrameError", "sequence", header=header(number="-3")),
    "message id of noise": odd("FrameError", "message id", msgid=b"\xff" * 50),
    "long message id": odd("FrameError", "128", msgid=b"u" * 5000),
    "sent after all calendars": odd("DecodeError", "9999", msgid=message_id(LAST_MS, 1)),
    "sent before all clocks": odd(None, "", msgid=message_id(0, 1)),
    "signature of noise": odd("SignatureError", "suite", signature=b"\xff" * 50),
    "signed with another key": odd("SignatureError", "", signature=b"\x01" + b"k" * 8 + b"\x00" * 32),
    "a file of the machine": odd("JournalError", "SHA-256", content_ref="../../etc/passwd"),
    "a blob that is gone": odd("FileNotFoundError", "", content_ref="0" * 64),
}
"""Rows that end in ``notifications`` or in ``quarantine``."""

NONE = {
    "no offset": {"offset": None},
    "offset below all": {"offset": -5},
    "no recorder": {"recorder": None},
    "never received": {"received_at": None},
    "received after all calendars": {"received_at": (1 << 63) - 1},
    "received before all clocks": {"received_at": -(1 << 63)},
}
"""Rows that no recorder writes, whose segment ends in ``damaged``."""

TEXTS = ("recorder", "publisher", "name", "topic", "key_id", "content_ref")
"""Columns whose bytes may be no text."""


def row(kind: Hostile, number: int) -> dict[str, Any]:
    """A row of a journal; the agents of different rows differ in their names."""
    usual = {
        "header": header(number=str(number + 1)), "serializer": kind.serializer.encode(), "content": kind.content,
        "msgid": message_id(START + number, number), "signature": b"\x00", "recorder": "r", "offset": number,
        "publisher": PUBLISHER, "name": "psu", "topic": "t", "received_at": (START + number) * 1000,
    }  # fmt: skip
    return usual | dict(kind.columns)


def segment(journal: Path, table: pa.Table, number: int) -> Path:
    """Write rows as a segment."""
    journal.mkdir(exist_ok=True)
    path = journal / f"segment-r-{number:016d}.parquet"
    pq.write_table(table.cast(SCHEMA).replace_schema_metadata(SCHEMA.metadata), path)
    return path


def write_rows(journal: Path, names: list[str]) -> None:
    """A segment of rows of `KINDS`; the offset of each is its place."""
    rows = [row(KINDS[name], number) for number, name in enumerate(names)]
    segment(journal, pa.Table.from_pylist(rows, SCHEMA), 0)


def without_text(table: pa.Table, column: str) -> pa.Table:
    """The table with bytes in a column that are no text."""
    binary = pa.array([b"\xff\xfe"] * table.num_rows, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(binary), binary.buffers())
    return table.set_column(table.schema.get_field_index(column), SCHEMA.field(column), text)


def write_unsound(journal: Path, first: int) -> list[str]:
    """Segments with one good row and one that no recorder writes; the names of their files."""
    found: list[str] = []
    for number in range(first, first + 2 * len(NONE), 2):
        columns = [*NONE.values()][(number - first) // 2]
        rows = [row(KINDS["no name"], number), row(KINDS["no name"], number + 1) | columns]
        found.append(segment(journal, pa.Table.from_pylist(rows, SCHEMA), number).name)
    for number, column in enumerate(TEXTS, first + 2 * len(NONE)):
        table = pa.Table.from_pylist([row(KINDS["no name"], number)], SCHEMA)
        found.append(segment(journal, without_text(table, column), number).name)
    return found


def write_strays(journal: Path, first: int) -> list[str]:
    """What is no segment, under names of segments; the names of files that are damaged ones."""
    place = [journal / f"segment-r-{number:016d}.parquet" for number in range(first, first + 9)]
    good = next(journal.glob("segment-*")).read_bytes()
    place[0].write_bytes(b"")
    place[1].write_bytes(b"no Parquet at all")
    place[2].write_bytes(good[: len(good) // 2])
    place[3].write_bytes(good[:-8] + struct.pack("<I", 1 << 31) + b"PAR1")
    pq.write_table(pa.table({"other": [1, 2]}), place[4])
    os.mkfifo(place[5])
    place[6].mkdir()
    place[7].symlink_to(place[7])
    os.mknod(place[8], stat.S_IFSOCK | 0o600)
    (journal / "notes.txt").write_text("of somebody", encoding="utf-8")
    (journal / "segment-.parquet").write_bytes(b"")
    return [path.name for path in place[:5]]
