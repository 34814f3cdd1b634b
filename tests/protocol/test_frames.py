from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.errors import FrameError, LocalProtocolError, ProtocolError, VersionError
from pzc.protocol.frames import (
    MAX_CONTENT,
    MAX_HEADER,
    MAX_MSGID,
    MAX_SEQUENCE,
    MAX_SERIALIZER,
    MAX_SIGNATURE,
    PZC00,
    PZC01,
    Header,
    Kind,
    check_frames,
    format_header,
    parse_header,
    text,
    topic_filter,
)
from pzc.protocol.ids import parse_hex

AGENT = "0123456789abcdef" * 2
OWN_ID = "0190a0a0b0b08c0c8d0d0e0e00000007"
names = st.text(max_size=40)
senders = names.map(lambda name: name.replace("+", "-"))
topics = st.text(st.sampled_from("a+0é.%\n") | st.characters(exclude_categories=["Cs"]), max_size=40)
sequences = st.integers(0, MAX_SEQUENCE)


@given(senders, topics)
def test_a_pzc00_header_comes_back_whatever_its_topic(sender: str, topic: str) -> None:
    frame = format_header(PZC00, sender, topic)
    assert frame == f"PZC00+{sender}+{topic}".encode()
    assert parse_header(frame) == Header(PZC00, sender, topic, 0, "", None)


@given(senders, topics.filter(bool), sequences, names)
def test_a_notification_header_comes_back_whatever_its_topic_and_key(
    sender: str, topic: str, sequence: int, key: str
) -> None:
    frame = format_header(PZC01, sender, topic, sequence, key)
    assert parse_header(frame) == Header(PZC01, sender, topic, sequence, key, Kind.NOTIFICATION)


@given(senders, topics)
def test_a_reply_header_comes_back_with_the_id_of_its_own(sender: str, topic: str) -> None:
    frame = format_header(PZC01, sender, topic, OWN_ID)
    assert parse_header(frame) == Header(PZC01, sender, topic, 0, "", Kind.REPLY, parse_hex(OWN_ID))


def test_a_header_without_topic_is_a_request() -> None:
    assert format_header(PZC01, AGENT, "") == f"PZC01+{AGENT}++0+".encode()
    assert parse_header(f"PZC01+{AGENT}++0+".encode()).kind is Kind.REQUEST


def test_a_header_may_come_as_a_memoryview() -> None:
    assert parse_header(memoryview(b"PZC01+a+t+3+k")).key == "k"


@given(topics, st.text("+%", max_size=5))
def test_a_key_cannot_reach_into_the_sequence(topic: str, key: str) -> None:
    assert parse_header(format_header(PZC01, AGENT, f"{topic}x", 7, key)).sequence == 7


@pytest.mark.parametrize(
    "header",
    [
        b"PZC00+",
        b"PZC00+sender",
        b"PZC01+",
        b"PZC01+a",
        b"PZC01+a+",
        b"PZC01+a+topic+",
        b"PZC01+a+topic+0",
        b"PZC01+a+topic++",
        b"PZC01+a+topic+-1+",
        b"PZC01+a+topic+01+",
        b"PZC01+a+topic+1_0+",
        b"PZC01+a+topic+ 1+",
        b"PZC01+a+topic+1\n+",
        "PZC01+a+topic+\u0663+".encode(),
        b"PZC01+a+topic+1000000000000000000+",
        b"PZC01+a+topic+" + OWN_ID.upper().encode() + b"+",
        b"PZC01+a+topic+" + OWN_ID[1:].encode() + b"+",
        b"PZC01+a+\xff+0+",
        b"PZC00+a+\xff",
    ],
)
def test_a_malformed_header_is_a_frame_error(header: bytes) -> None:
    with pytest.raises(FrameError):
        parse_header(header)


@pytest.mark.parametrize(
    "header", [b"", b"PZC0", b"PZC00", b"PZC02+a+t", b"pzc00+a+t", b"PZC001+a+t", b"\0" * 6]
)
def test_any_other_dialect_is_refused_by_name(header: bytes) -> None:
    with pytest.raises(VersionError, match="speaks PZC01, PZC00"):
        parse_header(header)


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"PZC01+" + tail))
def test_any_bytes_are_a_header_or_a_typed_error(frame: bytes) -> None:
    try:
        header = parse_header(frame)
    except ProtocolError:
        return
    assert header.dialect.encode() == frame[:5]


@pytest.mark.parametrize("sequence", [-1, MAX_SEQUENCE + 1])
def test_a_sequence_that_cannot_be_read_back_is_not_sent(sequence: int) -> None:
    with pytest.raises(LocalProtocolError, match="sequence"):
        format_header(PZC01, AGENT, "topic", sequence)


@pytest.mark.parametrize("dialect", [PZC00, PZC01])
def test_a_sender_with_plus_is_not_sent(dialect: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"may not contain '\+'"):
        format_header(dialect, "a+b", "topic")


BAD = "\ud800"


@pytest.mark.parametrize(
    ("dialect", "sender", "topic", "key"),
    [
        (PZC00, BAD, "t", ""),
        (PZC00, "s", BAD, ""),
        (PZC01, BAD, "t", ""),
        (PZC01, "s", BAD, ""),
        (PZC01, "s", "t", BAD),
    ],
)
def test_text_that_utf8_cannot_hold_is_not_sent(dialect: str, sender: str, topic: str, key: str) -> None:
    with pytest.raises(LocalProtocolError, match="UTF-8"):
        format_header(dialect, sender, topic, 1, key)


def test_a_header_is_sent_up_to_its_limit_in_bytes() -> None:
    room = MAX_HEADER - len(format_header(PZC01, AGENT, "", 1)) - 1
    assert len(format_header(PZC01, AGENT, "t" + "é" * (room // 2) + "t" * (room % 2), 1)) == MAX_HEADER
    with pytest.raises(LocalProtocolError, match="shorten the topic or the key"):
        format_header(PZC01, AGENT, "t" * (room + 2), 1)


@given(topics, topics, st.sampled_from([PZC00, PZC01]))
def test_a_filter_matches_its_own_topic(topic: str, other: str, dialect: str) -> None:
    assert format_header(dialect, AGENT, topic, 12, other).startswith(topic_filter(dialect, AGENT, topic))


def test_a_pzc01_filter_of_val_does_not_match_value() -> None:
    assert not format_header(PZC01, AGENT, "value", 1).startswith(topic_filter(PZC01, AGENT, "val"))


def test_a_pzc00_filter_is_the_header_that_the_original_subscribes_to() -> None:
    assert topic_filter(PZC00, "tcp://127.0.0.1:5", "val") == b"PZC00+tcp://127.0.0.1:5+val"


@pytest.mark.parametrize("dialect", [PZC00, PZC01])
def test_a_filter_for_an_impossible_sender_is_refused(dialect: str) -> None:
    with pytest.raises(LocalProtocolError):
        topic_filter(dialect, "a+b", "val")


@pytest.mark.parametrize("count", [0, 1, 4, 6, 100])
def test_any_number_of_frames_but_five_is_refused(count: int) -> None:
    with pytest.raises(FrameError, match=f"expected 5, received {count}"):
        check_frames([b""] * count)


LIMITS = [MAX_HEADER, MAX_SERIALIZER, 1000, MAX_MSGID, MAX_SIGNATURE]


@pytest.mark.parametrize("index", range(5))
def test_a_frame_is_taken_up_to_its_limit_and_refused_above(index: int) -> None:
    frames = [b""] * 5
    frames[index] = bytes(LIMITS[index])
    check_frames(frames, 1000)
    frames[index] += b"x"
    with pytest.raises(FrameError, match=f"{LIMITS[index] + 1} bytes, the limit is {LIMITS[index]}"):
        check_frames(frames, 1000)


def test_contents_are_taken_up_to_one_gibibyte_by_default() -> None:
    assert MAX_CONTENT == 1 << 30


def test_a_text_frame_that_is_not_utf8_is_named() -> None:
    with pytest.raises(FrameError, match="serializer frame is not UTF-8: invalid start byte at byte 1"):
        text("serializer", b"j\xff")
