"""The prover in C makes what that in Python makes, and refuses what it cannot have."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from itertools import count
from threading import Lock
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import serializers
from pzc.protocol.codec import Codec
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Keyring
from pzc.protocol.proofs import TagProver
from pzc.protocol.records import Record, Records
from pzc.transport import compiled

KEY = Keyring.from_key("a long secret of lab").active
EPOCH = 0xBEEF
MS = 1_700_000_000_123
UNDER_TEST = os.environ.get("PROVER_UNDER_TEST")


def made(**other: Any) -> Any:
    """The prover in C, of the build that the environment names."""
    given = {
        "key": KEY.hmac_key, "key_id": KEY.key_id.encode(), "epoch": EPOCH, "count": count().__next__, **other
    }  # fmt: skip
    if UNDER_TEST is None:
        module: Any = importlib.import_module("pzc.transport._prover")
        return module.Prover(**given)
    loader = importlib.machinery.ExtensionFileLoader("_prover", UNDER_TEST)
    spec = importlib.util.spec_from_loader("_prover", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    return module.Prover(**given)


pytestmark = pytest.mark.skipif(
    compiled.PROVER is TagProver and UNDER_TEST is None,
    reason="the compiled parts are off, or were not built",
)


@given(
    st.binary(max_size=40),
    st.lists(
        st.tuples(st.binary(max_size=3000), st.integers(-1, 1 << 48), st.binary(max_size=20_000)), max_size=5
    ),
    st.integers(0, (1 << 42) - 10),
)
def test_proofs_are_those_of_python(
    serializer: bytes, parts: list[tuple[bytes, int, bytes]], first: int
) -> None:
    headers = [header for header, _, _ in parts]
    times, contents = [ms for _, ms, _ in parts], [content for _, _, content in parts]
    ours = made(count=count(first).__next__).of(serializer, headers, times, contents)
    theirs = MessageIds(EPOCH)
    theirs.count = count(first).__next__
    good = [at for at, ms in enumerate(times) if 0 <= ms < 1 << 48]
    assert [at for at, proof in enumerate(ours) if proof is not None] == good
    expected = TagProver(KEY, theirs).of(
        serializer, [headers[at] for at in good], [times[at] for at in good], [contents[at] for at in good]
    )
    assert [ours[at] for at in good] == expected


@pytest.mark.parametrize("key", ["", "a b+ç"])
def test_what_it_proves_is_what_the_codec_makes(key: str) -> None:
    codec, theirs = Codec(Keyring.from_key("a long secret of lab"), serializer="msgpack"), MessageIds(EPOCH)
    records = Records(codec, "ab" * 16, MessageIds(EPOCH), lambda _, ids: made(count=ids.count))
    for number in (1, 2, 10**17):
        frames = codec.encode(
            "ab" * 16, "t", 1.5, stamp=theirs.next(MS), sequence=number, key=key, serializer="msgpack"
        )
        record = Record("t", number, MS, key, "msgpack", serializers.encode("msgpack", 1.5))
        [header] = records.seal([record], Lock())
        assert [*map(bytes, record.frames(header))] == [*map(bytes, frames)]


@pytest.mark.parametrize(
    "content", [bytearray(b"12"), memoryview(b"12"), b"12"], ids=["bytearray", "view", "bytes"]
)
def test_a_content_may_lie_in_any_buffer(content: Any) -> None:
    [proof] = made().of(b"json", [b"h"], [MS], [content])
    assert proof[0] is content
    assert proof[1:] == made().of(b"json", [b"h"], [MS], [b"12"])[0][1:]


@pytest.mark.parametrize(
    ("headers", "times", "contents", "error"),
    [
        ([b"h"], [], [b"1"], ValueError),
        ([b"h"], [MS], [b"1", b"2"], ValueError),
        (["h"], [MS], [b"1"], TypeError),
        ([b"h"], ["1"], [b"1"], TypeError),
        ([b"h"], [1 << 70], [b"1"], OverflowError),
        ([b"h"], [MS], ["1"], TypeError),
        ((b"h",), [MS], [b"1"], TypeError),
    ],
)
def test_other_things_are_refused(headers: Any, times: Any, contents: Any, error: type[Exception]) -> None:
    prover = made()
    for _ in range(100):
        with pytest.raises(error):
            prover.of(b"json", headers, times, contents)
    assert prover.of(b"json", [b"h"], [MS], [b"1"])[0] is not None


def test_what_the_counter_raises_comes_through() -> None:
    with pytest.raises(StopIteration):
        made(count=iter(()).__next__).of(b"json", [b"h"], [MS], [b"1"])


@pytest.mark.parametrize("other", [{"key": b"short"}, {"key": b"k" * 33}, {"key_id": b"1234567"}])
def test_another_key_is_refused(other: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="not a key and key id of a prover"):
        made(**other)
