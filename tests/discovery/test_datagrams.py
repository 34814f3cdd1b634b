from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pzc.discovery.datagrams import (
    MAX_DATAGRAM,
    Reader,
    Refusal,
    batches,
    fitting,
    passed_on,
    size_of,
    was_passed_on,
    write,
)
from pzc.discovery.records import (
    MAX_COUNT,
    MAX_DIGEST,
    MAX_NUMBER,
    Advertise,
    AgentRecord,
    Announcement,
    Bye,
    Entry,
    Heartbeat,
    Record,
    Subscribe,
    TopicRecord,
    Unadvertise,
    check,
    joined,
    mixed,
    record_of,
)
from pzc.protocol.errors import LocalProtocolError
from pzc.protocol.keyring import Key, Keyring

KEY, OTHER = Key("of the laboratory"), Key("of somebody else")
NUMBERS = st.integers(1, MAX_NUMBER)
COUNTS = st.integers(0, MAX_COUNT)
LETTERS = st.characters(categories=["L", "N"])
TEXTS = st.text(LETTERS, max_size=20)
NAMES = st.lists(st.text(LETTERS, min_size=1, max_size=10), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
SCOPES = st.sampled_from(["process", "host", "all"])
PROCESSES = st.binary(min_size=16, max_size=16)
ENDPOINTS = st.sampled_from(["tcp://10.0.0.7:5555", "tcp://[2001:db8::7]:5555", "ipc:///run/psu"])
ADDRESSES = st.lists(ENDPOINTS, max_size=3).map(tuple)
WORDS = st.lists(TEXTS, max_size=3).map(tuple)
AGENTS = st.builds(
    AgentRecord, NUMBERS, COUNTS, st.sampled_from(["agent", "service"]), NAMES, TEXTS, NUMBERS, COUNTS,
    ADDRESSES, ADDRESSES, TEXTS, SCOPES, WORDS, TEXTS, NUMBERS,
)  # fmt: skip
TOPICS = st.builds(
    TopicRecord, NUMBERS, COUNTS, NUMBERS, NAMES, st.text(LETTERS, min_size=1, max_size=10), TEXTS, SCOPES,
    WORDS,
)  # fmt: skip
HEADS = (
    PROCESSES, NUMBERS, COUNTS, COUNTS, TEXTS, NUMBERS, COUNTS, NUMBERS, st.integers(0, MAX_DIGEST),
)  # fmt: skip
ANNOUNCEMENTS = st.one_of(
    st.builds(Heartbeat, *HEADS),
    st.builds(Bye, *HEADS),
    st.builds(Unadvertise, *HEADS, st.lists(NUMBERS, max_size=20).map(tuple)),
    st.builds(Subscribe, *HEADS, st.lists(NAMES, max_size=3).map(tuple), st.lists(PROCESSES).map(tuple)),
    st.builds(Advertise, *HEADS, st.lists(AGENTS | TOPICS, max_size=3).map(tuple), NUMBERS, NUMBERS),
)
HEARTBEAT = Heartbeat(b"p" * 16, 1, 2, 3, "sim", 4, 5, 6, 7)
KEYRINGS = st.sampled_from([None, Keyring([KEY])])


@given(ANNOUNCEMENTS, st.sampled_from([None, KEY]))
def test_an_announcement_comes_back_from_its_bytes(said: Announcement, key: Key | None) -> None:
    reader = Reader(None if key is None else Keyring([key]))
    assert reader.read(write(said, key)) == said
    assert not reader.refused


@given(st.binary(max_size=200), st.integers(0, 7), st.integers(0, 3), KEYRINGS)
@example(b"\x91" * 100_000, 4, 0, None)
@example(b"\x91" * 1300, 4, 0, None)
@example(b"\xc1", 4, 0, None)
def test_any_bytes_are_an_announcement_or_a_refusal(
    body: bytes, code: int, suite: int, keyring: Keyring | None
) -> None:
    reader = Reader(keyring)
    for datagram in (body, b"PZD1%c%c\0%b" % (code, suite, body)):
        assert isinstance(reader.read(datagram), Announcement | Refusal)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text()
    | st.binary(),
    lambda values: st.lists(values, max_size=12) | st.dictionaries(st.text(max_size=3), values, max_size=3),
)


@given(VALUES, st.sampled_from([1, 2, 3, 4, 5]))
def test_any_values_are_an_announcement_or_a_refusal(value: object, code: int) -> None:
    body = msgspec.msgpack.encode(value)
    answer = Reader(None).read(b"PZD1%c\0\0%b" % (code, body))
    assert isinstance(answer, Announcement | Refusal)


@given(ANNOUNCEMENTS, st.data())
def test_one_other_bit_in_a_signed_datagram_makes_it_unreadable_except_that_it_was_passed_on(
    said: Announcement, data: st.DataObject
) -> None:
    reader, datagram = Reader(Keyring([KEY])), bytearray(write(said, KEY))
    at = data.draw(st.integers(0, len(datagram) - 1).filter(lambda n: n != 6))
    datagram[at] ^= 1 << data.draw(st.integers(0, 7))
    assert isinstance(reader.read(bytes(datagram)), Refusal)


@given(ANNOUNCEMENTS, st.data())
def test_a_truncated_signed_datagram_is_refused(said: Announcement, data: st.DataObject) -> None:
    datagram = write(said, KEY)
    part = datagram[: data.draw(st.integers(0, len(datagram) - 1))]
    assert isinstance(Reader(Keyring([KEY])).read(part), Refusal)


def test_a_datagram_that_was_passed_on_says_so_and_is_the_same() -> None:
    datagram = write(HEARTBEAT, KEY)
    again = passed_on(datagram)
    assert (was_passed_on(datagram), was_passed_on(again)) == (False, True)
    assert Reader(Keyring([KEY])).read(again) == HEARTBEAT


@pytest.mark.parametrize(
    ("datagram", "keyring", "reason", "detail"),
    [
        (write(HEARTBEAT, None), Keyring([KEY]), "unsigned", "accepts only what its keys signed"),
        (write(HEARTBEAT, OTHER), Keyring([KEY]), "foreign_key", f"{OTHER.key_id}, and this process does not have"),
        (write(HEARTBEAT, KEY), None, "foreign_key", "has no key; set PZC_KEY"),
        (write(HEARTBEAT, KEY)[:-1] + b"\0", Keyring([KEY]), "forged", "claims to be signed"),
        (b"PZD2" + write(HEARTBEAT, None)[4:], None, "version", "'2' of discovery; this side speaks '1'"),
        (b"", None, "malformed", "does not begin"),
        (b"PZD1\4\0\0", None, "malformed", "7 bytes"),
        (write(HEARTBEAT, None) + bytes(MAX_DATAGRAM), None, "malformed", "bytes, expected 8 to 1400"),
        (write(HEARTBEAT, None) + b"\0", None, "malformed", "trailing"),
        (b"PZD1\7" + write(HEARTBEAT, None)[5:], None, "malformed", "code 7"),
        (b"PZD1\4\2" + write(HEARTBEAT, None)[6:], None, "malformed", "suite 2"),
    ],
)  # fmt: skip
def test_what_is_refused_is_counted_and_says_why(
    datagram: bytes, keyring: Keyring | None, reason: str, detail: str
) -> None:
    reader = Reader(keyring)
    refusal = reader.read(datagram)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, reader.refused, reader.last) == (reason, {reason: 1}, {reason: refusal})
    assert detail in refusal.detail


def agent(**fields: object) -> AgentRecord:
    record = AgentRecord(
        1, 1, "agent", "/psu", "3f2a", 1, 1, ("tcp://10.0.0.7:5555",), (), "", "all", ("PZC01",), "rack3", 1
    )
    return msgspec.structs.replace(record, **fields)


BAD = [
    agent(name="psu"),
    agent(name="/my psu"),
    agent(host="rack\x1b[2J"),
    agent(type="a\nb"),
    agent(addresses=("inproc://psu",)),
    agent(addresses=("tcp://a b",)),
    TopicRecord(2, 1, 1, "/psu/u", "u\n", "", "all", ()),
    TopicRecord(2, 1, 1, "/psu/u\u202e", "u", "", "all", ()),
]


@pytest.mark.parametrize("record", BAD)
def test_text_that_cannot_be_shown_or_dialled_is_refused(record: Record) -> None:
    head = {field: getattr(HEARTBEAT, field) for field in HEARTBEAT.__struct_fields__}
    refusal = Reader(None).read(write(Advertise(**head, records=(record,)), None))
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "malformed"


@pytest.mark.parametrize("record", [*BAD, agent(type="x" * 256), agent(epoch=-1), agent(host="\ud800")])
def test_what_others_would_refuse_is_not_announced(record: Record) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be announced"):
        check(record)


LARGEST = TopicRecord(
    MAX_NUMBER, MAX_COUNT, MAX_NUMBER, "/" + "n" * 254, "t" * 255, "T" * 255, "process", ("latest",) * 4
)


@pytest.mark.parametrize("partition", ["", "p" * 255])
@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_every_part_of_many_records_fits_into_a_datagram(partition: str, count: int) -> None:
    addresses = tuple(f"tcp://[2001:db8::{n}]:5555" for n in range(16))
    records = [
        fitting(agent(number=n, name="/" + "n" * 200, addresses=addresses, pub_addresses=addresses))
        for n in range(1, count + 1)
    ] + [LARGEST] * count
    parts = list(batches(records, partition))
    assert [record for part in parts for record in part] == records
    head = (
        b"p" * 16,
        MAX_NUMBER,
        MAX_COUNT,
        MAX_COUNT,
        partition,
        MAX_NUMBER,
        MAX_COUNT,
        MAX_NUMBER,
        MAX_DIGEST,
    )
    for part in parts:
        assert len(write(Advertise(*head, part, MAX_NUMBER, MAX_NUMBER), KEY)) <= MAX_DATAGRAM


def test_small_records_share_datagrams() -> None:
    assert len(list(batches([agent()] * 100, ""))) <= 100 * size_of(agent()) // 1200 + 1


def test_a_large_record_keeps_its_first_addresses() -> None:
    addresses = tuple(f"tcp://{'h' * 100}{n}:5555" for n in range(10))
    fitted = fitting(agent(addresses=addresses))
    assert isinstance(fitted, AgentRecord)
    assert 1 <= len(fitted.addresses) < 10
    assert fitted.addresses == addresses[: len(fitted.addresses)]


def test_an_entry_comes_back_from_its_records() -> None:
    psu = Entry(
        "service", "/psu", "sim", b"p" * 16, 1, "3f2a", 7, 8, ("tcp://10.0.0.7:1",), ("tcp://10.0.0.7:2",),
        "lab.PSU", "host", (), ("PZC01", "PZC00"), "rack3", 4711,
    )  # fmt: skip
    same = dict.fromkeys(
        ["agent", "epoch", "started", "addresses", "pub_addresses", "dialects", "host", "pid"]
    )
    topic = Entry(
        "topic", "/psu/u", "sim", b"p" * 16, 2, type="float", policies=("latest",), publisher=1, topic="u",
        **{name: getattr(psu, name) for name in same},
    )  # fmt: skip
    assert joined(record_of(psu, 1, psu.addresses, psu.pub_addresses), "sim", b"p" * 16, None) == psu
    assert joined(record_of(topic, 2, (), ()), "sim", b"p" * 16, psu) == topic


def test_an_owner_is_told_by_agent_address_and_machine() -> None:
    entry = Entry(
        "agent", "/psu", number=1, agent="3f2a90c1ff", addresses=("tcp://10.0.0.7:1",), host="rack3", pid=9
    )
    assert entry.owner == "agent 3f2a90c1 at tcp://10.0.0.7:1 (process 9 on rack3)"
    static = dataclasses.replace(entry, agent="", host="")
    assert static.owner == "a static peer at tcp://10.0.0.7:1"


@given(st.sets(st.integers(0, 10_000), max_size=4), st.sets(st.integers(0, 10_000), max_size=4))
def test_different_revisions_have_different_digests(one: set[int], two: set[int]) -> None:
    def digest(revisions: set[int]) -> int:
        total = 0
        for revision in revisions:
            total ^= mixed(revision)
        return total

    assert (digest(one) == digest(two)) == (one == two)


def test_the_key_of_discovery_signs_nothing_else() -> None:
    assert len({KEY.discovery_key, KEY.hmac_key, OTHER.discovery_key}) == 3
