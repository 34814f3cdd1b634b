"""Prepared tags are those of the sealer, and series are bounded; outcomes are compared in tests/pipeline/test_decode_batch.py."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import signing
from pzc.protocol.batch import Batch, Tags
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind
from pzc.protocol.ids import MessageIds, Stamp
from pzc.protocol.keyring import Keyring
from pzc.protocol.signing import Suite


def series(codec: Codec, topic: str, count: int = 2) -> list[list[bytes]]:
    ids = MessageIds(7)
    return [
        [bytes(f) for f in codec.encode("ab" * 16, topic, i, msgid=ids.next_urn(1_700_000_000_000 + i), sequence=i)]
        for i in range(count)
    ]  # fmt: skip


def test_nothing_is_opened_before_the_codec_has_judged_one_of_its_series() -> None:
    codec, known = Codec(Keyring.from_key("a long secret of lab")), Batch()
    first, second = series(codec, "v")
    assert known.open(*second) is None
    known.learn(first, codec.open(first, kind=Kind.NOTIFICATION))
    opened = known.open(*second)
    assert opened is not None
    assert (opened.sequence, opened.series.envelope.topic, opened.content) == (1, "v", second[2])


def test_a_request_makes_no_series() -> None:
    codec, known = Codec(Keyring.from_key("a long secret of lab")), Batch()
    (asked,) = series(codec, "", 1)
    known.learn(asked, codec.open(asked))
    assert known.open(*asked) is None


def test_series_are_forgotten_when_there_are_too_many(timings: Callable[..., None]) -> None:
    timings(known_series=2)
    codec, known = Codec(Keyring.from_key("a long secret of lab")), Batch()
    made = [series(codec, topic) for topic in "abc"]
    for first, _ in made:
        known.learn(first, codec.open(first, kind=Kind.NOTIFICATION))
    assert [known.open(*second) is not None for _, second in made] == [False, False, True]


@given(st.lists(st.tuples(*[st.binary(max_size=70)] * 4), min_size=1, max_size=4))
def test_tags_are_those_of_the_sealer_whatever_the_lengths(frames: list[tuple[bytes, ...]]) -> None:
    key = Keyring.from_key("a long secret of lab").active
    tags, sealer = Tags(key), signing.sealer(key, Suite.HMAC_SHA256, Kind.NOTIFICATION, "ab", "", 7)
    for header, name, msgid, content in frames:
        sealed, _ = sealer.seal(Stamp(0, 0, 7), header, name, msgid, content)
        assert tags.of(header, name, msgid, content) == sealed


def test_what_is_kept_with_a_series_is_there_when_one_of_it_is_opened() -> None:
    codec, known, mine = Codec(Keyring.from_key("a long secret of lab")), Batch(), object()
    first, second = series(codec, "v")
    known.learn(first, codec.open(first, kind=Kind.NOTIFICATION), mine)
    opened = known.open(*second)
    assert opened is not None
    assert opened.series.about is mine
