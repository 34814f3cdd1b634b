from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import (
    ConfigError,
    FrameError,
    Key,
    Keyring,
    LocalProtocolError,
    Protocol,
    ProtocolError,
    Role,
    SerializerRefused,
    SignatureError,
    StaleMessage,
)
from pzc.testing import ShiftedClock

AGENT, PEER = "a" * 32, "b" * 32
ENDPOINT = "tcp://127.0.0.1:5555"
PIZCO_ID = uuid.UUID(int=7, version=4).urn
PROTOCOLS = {
    f"{dialect}-{key or 'unsigned'}": Protocol(key, "json", dialect=dialect)
    for dialect in ("PZC00", "PZC01")
    for key in ("", "a long secret of lab")
}
every = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
senders = st.text(max_size=30).map(lambda text: text.replace("+", ""))
texts = st.text(st.sampled_from("a+é/ ") | st.characters(exclude_categories=["Cs"]), max_size=30)


@every
def test_only_the_sender_must_be_given(protocol: Protocol) -> None:
    assert protocol.parse(protocol.format(AGENT))[:3] == (AGENT, "", "")


@every
def test_another_sender_than_expected_is_refused(protocol: Protocol) -> None:
    with pytest.raises(ProtocolError, match=f"expected {PEER}, received {AGENT}"):
        protocol.parse(protocol.format(AGENT), check_sender=PEER)


@every
def test_another_id_than_expected_is_refused(protocol: Protocol) -> None:
    with pytest.raises(ValueError, match=f"wrong message id: expected urn:mine, received {PIZCO_ID}"):
        protocol.parse(protocol.format(AGENT, msgid=PIZCO_ID), check_msgid="urn:mine")


@every
@pytest.mark.parametrize("count", [0, 1, 4, 6])
def test_another_number_of_frames_than_five_is_refused(protocol: Protocol, count: int) -> None:
    frames = protocol.format(AGENT)
    with pytest.raises(FrameError, match=f"expected 5, received {count}"):
        protocol.parse((frames * 2)[:count])


@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("dialect", ["PZC00", "PZC01"])
def test_another_key_is_refused(dialect: str) -> None:
    frames = Protocol("a long secret of lab", dialect=dialect).format(AGENT, "topic", 1)
    with pytest.raises(SignatureError, match="keys differ"):
        Protocol("a long secret of other").parse(frames)
    with pytest.raises(SignatureError, match="requires a signature"):
        Protocol("a long secret of lab").parse(Protocol("", dialect=dialect).format(AGENT, "topic", 1))


@pytest.mark.usefixtures("beside_originals")
def test_both_dialects_are_parsed_where_both_are_accepted() -> None:
    receiver = Protocol("a long secret of lab")
    for dialect in ("PZC00", "PZC01"):
        assert receiver.parse(Protocol("a long secret of lab", dialect=dialect).format(AGENT, "t", 1))[2] == 1


def test_just_the_header_is_what_a_subscriber_filters_by() -> None:
    assert (
        Protocol("", dialect="PZC00").format(ENDPOINT, "val", just_header=True)
        == f"PZC00+{ENDPOINT}+val".encode()
    )
    assert Protocol("").format(AGENT, "val", just_header=True) == f"PZC01+{AGENT}+val+".encode()


@every
@given(senders, texts)
def test_just_the_header_is_where_a_message_of_that_topic_begins(
    protocol: Protocol, sender: str, topic: str
) -> None:
    header = protocol.format(sender, topic, just_header=True)
    assert protocol.format(sender, topic, "content")[0].startswith(header)


@every
@pytest.mark.parametrize("just_header", [False, True])
@pytest.mark.parametrize(
    ("sender", "topic"), [("a+b", "t"), ("a", "\ud800"), ("\ud800", "t"), ("a", "t" * 3000)]
)
def test_a_header_that_cannot_be_written_is_refused(
    protocol: Protocol, just_header: bool, sender: str, topic: str
) -> None:
    with pytest.raises(LocalProtocolError):
        protocol.format(sender, topic, just_header=just_header)


@every
@pytest.mark.parametrize("msgid", ["x" * 129, "é" * 65, "\ud800"])
def test_an_id_that_no_receiver_would_take_is_refused(protocol: Protocol, msgid: str) -> None:
    with pytest.raises(LocalProtocolError, match="message id"):
        protocol.format(AGENT, "topic", 1, msgid)


@every
def test_a_content_that_cannot_be_expressed_is_a_protocol_error(protocol: Protocol) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be formatted"):
        protocol.format(AGENT, "topic", object())


def test_a_json_agent_refuses_pickles() -> None:
    with pytest.raises(SerializerRefused):
        Protocol("a long secret of lab", "json").parse(Protocol("a long secret of lab").format(AGENT))
    lenient = Protocol("a long secret of lab", "json", accept_serializers=["json", "pickle"])
    frames = Protocol("a long secret of lab").encode(AGENT, "topic", (1,), serializer="pickle")
    assert lenient.parse(frames)[2] == (1,)


@pytest.mark.parametrize("name", ["pickle", "pickle0", "pickle2", "json", "msgpack"])
def test_every_serializer_is_formatted_and_parsed(name: str) -> None:
    protocol = Protocol("a long secret of lab", name)
    frames = protocol.format(AGENT, "", {"a": [1, 2.5, None]})
    assert frames[1] == name.encode()
    assert protocol.parse(frames)[2] == {"a": [1, 2.5, None]}


def test_a_reply_in_pzc00_has_the_request_s_id_only() -> None:
    frames = Protocol("a long secret of lab").encode(ENDPOINT, "", 2, reply_to=PIZCO_ID, dialect="PZC00")
    assert (frames[0], frames[3]) == (f"PZC00+{ENDPOINT}+".encode(), PIZCO_ID.encode())


# --- settings ----------------------------------------------------------------------------------------


def test_without_arguments_everything_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Protocol()
    assert (plain.signed, plain.codec.serializer, plain.codec.accept) == (False, "pickle", ("PZC01", "PZC00"))
    for name, value in {
        "PZC_KEY": "a key of the lab",
        "PZC_SER": "json",
        "PZC_ACCEPT": "PZC01",
        "PZC_SEAL": "1",
    }.items():
        monkeypatch.setenv(name, value)
    protocol = Protocol()
    assert protocol.signed
    assert protocol.codec.accept == ("PZC01",)
    frames = protocol.format(AGENT)
    assert (frames[1], frames[4][0]) == (b"json", 3)
    assert frames[4].endswith(Key("a key of the lab").key_id.encode())


def test_arguments_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PZC_KEY": "a key of the lab", "PZC_SER": "json", "PZC_SEAL": "1"}.items():
        monkeypatch.setenv(name, value)
    frames = Protocol("a long secret of mine", "msgpack", seal=False).format(AGENT)
    assert (frames[1], frames[4][0]) == (b"msgpack", 1)
    assert frames[4].endswith(Key("a long secret of mine").key_id.encode())
    assert not Protocol("").signed
    assert (
        Protocol(keyring=Keyring.from_key("a long secret of ring"))
        .format(AGENT)[4]
        .endswith(Key("a long secret of ring").key_id.encode())
    )


def test_sealing_encrypts_whatever_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_SEAL", "1")
    monkeypatch.setenv("PZC_KEY", "a key of the lab")
    protocol = Protocol()
    assert protocol.format(AGENT)[4][0] == 3
    assert protocol.codec.accept == ("PZC01",)


def test_with_a_key_originals_are_served_only_when_they_are_asked_for() -> None:
    assert Protocol("").codec.accept == ("PZC01", "PZC00")
    assert Protocol("a long secret of lab").codec.accept == ("PZC01",)
    assert Protocol("a long secret of lab", dialect="PZC00").codec.accept == ("PZC01", "PZC00")


def test_sealing_with_the_original_s_dialect_is_the_user_s_own_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Protocol("a long secret of lab", seal=True, accept=("PZC01", "PZC00")).codec.accept == (
        "PZC01",
        "PZC00",
    )
    monkeypatch.setenv("PZC_ACCEPT", "PZC01,PZC00")
    assert Protocol("a long secret of lab", seal=True).codec.accept == ("PZC01", "PZC00")


def test_sealing_without_any_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_SEAL", "1")
    with pytest.raises(ConfigError, match="PZC_SEAL=1 needs a key"):
        Protocol()
    assert not Protocol("").signed


def test_who_accepts_only_the_original_s_dialect_speaks_it() -> None:
    protocol = Protocol("a long secret of lab", accept=["PZC00"])
    assert protocol.parse(protocol.format(ENDPOINT, "t", 1))[2] == 1
    assert protocol.codec.dialect == "PZC00"


@pytest.mark.parametrize(
    "options",
    [
        {"accept": ()},
        {"accept": ["PZC02"]},
        {"dialect": "PZC02"},
        {"dialect": "PZC00", "accept": ["PZC01"]},
    ],
)
def test_arguments_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Protocol("a long secret of lab", **options)


def test_an_unknown_serializer_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="no serializer is called 'yaml'"):
        Protocol("", "yaml")


def test_a_protocol_does_not_show_its_key() -> None:
    assert "topsecret" not in repr(Protocol("a long secret of topsecret"))
    assert "unsigned" in repr(Protocol(""))


def test_the_fingerprint_tells_protocols_apart_by_what_they_send_and_accept() -> None:
    assert Protocol("a long secret of lab").fingerprint == Protocol("a long secret of lab").fingerprint
    variants = [
        Protocol("a long secret of lab"),
        Protocol("a long secret of other"),
        Protocol(""),
        Protocol("a long secret of lab", "json"),
        Protocol("a long secret of lab", accept=["PZC01", "PZC00"]),
        Protocol("a long secret of lab", dialect="PZC00"),
        Protocol("a long secret of lab", accept_serializers=["json"]),
        Protocol(keyring=Keyring([Key("a long secret of lab", role=Role.OBSERVER)])),
        Protocol(
            keyring=Keyring(
                [Key("a long secret of lab"), Key("a long secret of other")], Key("a long secret of lab")
            )
        ),
    ]
    assert len({protocol.fingerprint for protocol in variants}) == len(variants)


# --- what was formatted ------------------------------------------------------------------------------


@every
@given(senders, texts, texts, st.none() | st.uuids(version=4).map(lambda value: value.urn))
def test_what_was_formatted_is_parsed(
    protocol: Protocol, sender: str, topic: str, content: str, msgid: str | None
) -> None:
    frames = protocol.format(sender, topic, content, msgid)
    assert [type(frame) for frame in frames] == [bytes] * 5
    found = protocol.parse(frames, check_sender=sender, check_msgid=msgid)
    assert found[:3] == (sender, topic, content)
    assert found[3] == msgid or msgid is None


@every
@pytest.mark.parametrize("msgid", [None, ""])
def test_a_message_without_given_id_gets_a_fresh_one(protocol: Protocol, msgid: str | None) -> None:
    found = {protocol.parse(protocol.format(AGENT, "topic", 1, msgid))[3] for _ in range(10)}
    assert len(found) == 10
    assert all(each.startswith("urn:uuid:") for each in found)


@pytest.mark.parametrize("seconds", [-25, 25])
def test_a_message_is_parsed_though_clocks_differ_by_less_than_thirty_seconds(seconds: float) -> None:
    protocol = Protocol("a long secret of lab")
    frames = protocol.format(AGENT, "topic", 1)
    with ShiftedClock(seconds):
        assert protocol.parse(frames)[2] == 1


@pytest.mark.parametrize("seconds", [-31, 31])
def test_an_old_message_is_not_parsed(seconds: float) -> None:
    protocol = Protocol("a long secret of lab")
    frames = protocol.format(AGENT, "topic", 1)
    with ShiftedClock(seconds), pytest.raises(StaleMessage):
        protocol.parse(frames)
