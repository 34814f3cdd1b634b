"""PZC00 against recorded traffic of the original Pizco, and against ten lines made from its description."""

from __future__ import annotations

import ast
import hmac
import io
import json
import pickle
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import Protocol

from tests.contract.acceptance import acceptance

GOLDEN = Path(__file__).resolve().parents[3].parent / "shared" / "golden"
FILES = sorted(GOLDEN.glob("*.json"))
ENTRIES: dict[str, dict[str, Any]] = {
    f"{path.stem}-{index}": entry
    for path in FILES
    for index, entry in enumerate(json.loads(path.read_text(encoding="utf-8")))
}
recorded = pytest.mark.skipif(not ENTRIES, reason=f"no recorded traffic in {GOLDEN}")
entries = pytest.mark.parametrize("entry", list(ENTRIES.values()) or [{}], ids=list(ENTRIES) or ["none"])


class InOrder:
    """A set that is pickled in the order in which it came; a real one has an order of each process."""

    def __init__(self, items: list[object]) -> None:
        self.items = items

    def __reduce__(self) -> tuple[type, tuple[list[object]]]:
        return set, (self.items,)


class Raised:
    """An exception that is pickled without a state; from Python 3.12 on an AttributeError has one."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return AttributeError, self.arguments


class Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return {"set": InOrder, "AttributeError": Raised}.get(name) or super().find_class(module, name)


def frames_of(entry: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(frame) for frame in entry["frames"]]


def literal(entry: dict[str, Any]) -> Any:
    """Content by its repr; None when that is no literal, as for an exception."""
    try:
        return ast.literal_eval(entry["content"])
    except ValueError:
        return None


def content_to_send(entry: dict[str, Any]) -> Any:
    """From the repr wherever it says everything; sets and exceptions from the recorded bytes.

    A pickle shows which equal strings are one object. Those read back from a pickle are one object
    exactly where they were before, and the literals of this traffic repeat no string.
    """
    content = literal(entry)
    if content is None or holds_a_set(content):
        return Reader(io.BytesIO(frames_of(entry)[2])).load()
    return content


def holds_a_set(content: object) -> bool:
    return isinstance(content, set) or (isinstance(content, tuple) and any(map(holds_a_set, content)))


def protocol_of(entry: dict[str, Any]) -> Protocol:
    return Protocol(entry["key"], entry["serializer"], dialect="PZC00", accept=["PZC00"])


def test_the_traffic_of_one_signed_and_one_unsigned_session_was_recorded() -> None:
    if not GOLDEN.is_dir():
        pytest.skip(f"no recorded traffic in {GOLDEN}")
    assert len(FILES) >= 2
    assert {bool(entry["key"]) for entry in ENTRIES.values()} == {True, False}


@recorded
@entries
def test_recorded_traffic_is_reproduced_byte_for_byte(entry: dict[str, Any]) -> None:
    frames = frames_of(entry)
    made = protocol_of(entry).format(
        entry["sender"], entry["topic"], content_to_send(entry), frames[3].decode("ascii")
    )
    assert made == frames


@recorded
@entries
def test_recorded_traffic_is_understood(entry: dict[str, Any]) -> None:
    frames = frames_of(entry)
    msgid = frames[3].decode("ascii")
    sender, topic, content, found = protocol_of(entry).parse(frames, entry["sender"], msgid)
    assert (sender, topic, found) == (entry["sender"], entry["topic"], msgid)
    expected = literal(entry)
    assert content == expected if expected is not None else repr(content) == entry["content"]


def reference(key: str, serializer: str, sender: str, topic: str, content: Any, msgid: str) -> list[bytes]:
    """The original's format, from its description."""
    body = (
        json.dumps(content).encode() if serializer == "json" else pickle.dumps(content, int(serializer[6:]))
    )
    frames = [f"PZC00+{sender}+{topic}".encode(), serializer.encode(), body, msgid.encode()]
    return [*frames, hmac.new(key.encode(), b"".join(frames), "sha1").digest() if key else b""]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
rich = st.recursive(
    plain | st.binary() | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.integers(), inner, max_size=4),
    max_leaves=10,
)
keys = st.text(max_size=20)
senders = st.text(max_size=30).map(lambda text: text.replace("+", ""))
topics = st.text(st.sampled_from("a+é") | st.characters(exclude_categories=["Cs"]), max_size=20)
msgids = st.uuids(version=4).map(lambda value: value.urn)


@acceptance("P1")
@given(keys, senders, topics, rich, msgids)
def test_pickle2_frames_equal_an_independent_reference(
    key: str, sender: str, topic: str, content: object, msgid: str
) -> None:
    protocol = Protocol(key, "pickle2", dialect="PZC00", accept=["PZC00"])
    frames = protocol.format(sender, topic, content, msgid)
    assert frames == reference(key, "pickle2", sender, topic, content, msgid)
    assert protocol.parse(frames, sender, msgid) == (sender, topic, content, msgid)


@acceptance("P1")
@given(keys, senders, topics, plain, msgids)
def test_json_frames_equal_an_independent_reference(
    key: str, sender: str, topic: str, content: object, msgid: str
) -> None:
    protocol = Protocol(key, "json", dialect="PZC00", accept=["PZC00"])
    frames = protocol.format(sender, topic, content, msgid)
    assert frames == reference(key, "json", sender, topic, content, msgid)
    assert protocol.parse(frames, sender, msgid) == (sender, topic, content, msgid)


@pytest.mark.parametrize("version", range(6))
def test_every_pickle_version_equals_the_reference(version: int) -> None:
    arguments = ("tcp://127.0.0.1:5", "voltage", ("PSMessage", "get", {"name": "ünits"}), uuid.uuid4().urn)
    frames = Protocol("k", f"pickle{version}", dialect="PZC00", accept=["PZC00"]).format(*arguments)
    assert frames == reference("k", f"pickle{version}", *arguments)
