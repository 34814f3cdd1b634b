from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pzc import (
    Agent,
    DecodeError,
    FrameError,
    Protocol,
    ReplayedMessage,
    Server,
    SignatureError,
)
from pzc.protocol.contents import read_refusal
from pzc.protocol.frames import Kind

from tests.contract.rigs import requesting
from tests.contract.rigs.calling import KEY, Frames, Gate, RawPeer, counts
from tests.contract.rigs.requesting import SENDER, request_for, still_answers
from tests.effort import many

key, agent, peer = requesting.key, requesting.agent, requesting.peer


class Shared:
    """One agent for all examples of a property: hundreds would not end in time."""

    kept: ClassVar[list[tuple[Agent, RawPeer]]] = []

    def __enter__(self) -> tuple[Agent, RawPeer]:
        if not self.kept:
            agent = Agent()
            self.kept.append((agent, RawPeer(agent.rep_endpoint)))
        return self.kept[0]

    def __exit__(self, *exc: object) -> None:
        return None


@pytest.fixture(autouse=True)
def _close_shared() -> Iterator[None]:
    yield
    while Shared.kept:
        agent, peer = Shared.kept.pop()
        peer.close()
        agent.stop()


def signed_bytes(agent: Agent, serializer: str, raw: bytes, key: str = "") -> Frames:
    """A valid request whose content is any bytes."""
    protocol = Protocol(key)
    real = __import__("pzc.protocol.serializers", fromlist=["encode"]).encode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "pzc.protocol.serializers.encode",
            lambda name, content, *how: raw if name == serializer else real(name, content, *how),
        )
        return [
            bytes(f)
            for f in protocol.encode(SENDER, "", None, receiver=agent.agent_id, serializer=serializer)
        ]


def refusal_in(frames: Frames, key: str = "") -> Exception | None:
    """The error inside a reply that is addressed to the test."""
    protocol = Protocol(key)
    envelope = protocol.open(frames, Kind.REPLY, receiver=SENDER)
    return read_refusal(protocol.content(envelope))


def test_a_valid_request_of_a_plain_req_socket_is_answered(agent: Agent, peer: RawPeer, key: str) -> None:
    reply = peer.ask(request_for(agent, 7, key))
    protocol = Protocol(key)
    assert protocol.content(protocol.open(reply, Kind.REPLY, receiver=SENDER)) == 7


HEADERS = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda a, b, c: b"PZC01+%s+%s+%s+" % (a, b, c), *[st.binary(max_size=9)] * 3),
    st.builds(lambda a, b: b"PZC00+%s+%s" % (a, b), *[st.binary(max_size=9)] * 2),
)
SERIALIZERS = st.one_of(st.sampled_from([b"json", b"pickle", b"msgpack", b"buffers"]), st.binary(max_size=9))


@settings(max_examples=many(150))
@given(st.lists(st.tuples(HEADERS, SERIALIZERS, *[st.binary(max_size=60)] * 3), min_size=1, max_size=5))
def test_random_frames_are_each_answered_once_and_counted(messages: list[tuple[bytes, ...]]) -> None:
    with Shared() as (agent, peer):
        before = counts(agent).get("requests", 0)
        for frames in messages:
            assert len(peer.ask(list(frames))) == 5
        assert counts(agent)["requests"] == before + len(messages)


def test_refusals_say_what_was_wrong_and_are_counted_by_their_class(
    agent: Agent, peer: RawPeer, key: str
) -> None:
    header = f"PZC01+{SENDER}".encode()
    assert isinstance(refusal_in(peer.ask([header, b"json", b"1", b"i", b"\0"]), key), FrameError)
    assert isinstance(refusal_in(peer.ask(request_for(agent, 7, key + "x" * 16)), key), SignatureError)
    found = counts(agent)
    assert (found["requests"], found["requests_refused"], found["replies"]) == (2, 2, 2)
    assert (found["refused_FrameError"], found["refused_SignatureError"]) == (1, 1)


@pytest.mark.parametrize("serializer", ["json", "pickle", "msgpack", "buffers"])
def test_an_authenticated_request_of_garbage_gets_an_error_reply(
    agent: Agent, peer: RawPeer, key: str, serializer: str
) -> None:
    for raw in (b"\xc1 garbage", b"", b"\x80\x05\x95", b"c" * 80_000):
        error = refusal_in(peer.ask(signed_bytes(agent, serializer, raw, key)), key)
        assert isinstance(error, DecodeError), raw[:10]
    still_answers(agent, key)


@pytest.mark.parametrize("key", [""], ids=["unsigned"])
def test_a_large_handshake_is_refused_undecoded(agent: Agent, peer: RawPeer) -> None:
    frames = request_for(agent, {"pzc": "hello", "challenge": "x" * 100_000}, receiver="")
    assert isinstance(refusal_in(peer.ask(frames)), FrameError)


@pytest.mark.parametrize("content", ["stop", 7, ("PSMessage", "get", {"name": "label"}), {"pzc": "placed"}])
def test_nothing_but_a_handshake_is_answered_without_the_receivers_id(
    agent: Agent, peer: RawPeer, key: str, content: object
) -> None:
    error = refusal_in(peer.ask(request_for(agent, content, key, receiver="")), key)
    assert isinstance(error, SignatureError)
    assert not agent.join(0.2)


@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("dialect", ["PZC01", "PZC00"])
def test_a_captured_signed_request_is_executed_once(dialect: str) -> None:
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server:
        options = {"dialect": dialect} if dialect == "PZC01" else {"dialect": dialect, "receiver": ""}
        frames = request_for(
            server, ("PSMessage", "exec", {"name": "count", "method": "__call__"}), KEY, **options
        )
        for number in range(3):
            with RawPeer(server.rep_endpoint) as peer:
                reply = peer.ask(frames)
            if number and dialect == "PZC01":
                assert isinstance(refusal_in(reply, KEY), ReplayedMessage)
        assert gate.calls == 1
        assert counts(server)["refused_ReplayedMessage"] == 2


def test_a_captured_request_sent_to_another_server_of_the_same_key_is_refused() -> None:
    gate = Gate()
    with Server(Gate(), protocol=Protocol(KEY)) as meant, Server(gate, protocol=Protocol(KEY)) as other:
        frames = request_for(meant, ("PSMessage", "exec", {"name": "count", "method": "__call__"}), KEY)
        with RawPeer(other.rep_endpoint) as peer:
            assert isinstance(refusal_in(peer.ask(frames), KEY), SignatureError)
        assert gate.calls == 0
        assert counts(other)["refused_SignatureError"] == 1


def test_an_array_as_content_of_a_handshake_is_no_problem() -> None:
    with Agent() as agent, RawPeer(agent.rep_endpoint) as peer:
        assert isinstance(refusal_in(peer.ask(request_for(agent, np.arange(3), receiver=""))), SignatureError)
