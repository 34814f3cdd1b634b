from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from pzc import (
    Agent,
    DecodeError,
    Protocol,
    Proxy,
    Server,
    VersionError,
)
from pzc.testing import Timings

from tests.contract.acceptance import acceptance
from tests.contract.rigs import requesting
from tests.contract.rigs.calling import (
    KEY,
    TIMEOUT,
    Frames,
    Gate,
    Middle,
    RawPeer,
    counts,
    in_thread,
    lines,
    until,
)
from tests.contract.rigs.failing import HostileError
from tests.contract.rigs.requesting import SENDER, request_for, still_answers

key, agent, peer = requesting.key, requesting.agent, requesting.peer


class Creates:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_reply_echoes_the_id_of_its_request(agent: Agent, peer: RawPeer, key: str) -> None:
    request = request_for(agent, 7, key)
    assert peer.ask(request)[3] == request[3]


@pytest.mark.parametrize(
    "frames",
    [
        [b""], [b"", b""], [b"junk"], [b""] * 5, [b"\xff"] * 5, [b"x"] * 4, [b"x"] * 6, [b"x"] * 200,
        [b"PZC01+" + b"x" * 70_000 + b"++0+", b"json", b"1", b"i", b"\0"],
        [b"PZC01+a++0+", b"pickle", b"1", b"\xff", b"\0"], [b"PZC01+a", b"json", b"1", b"i", b"\0"],
        [b"PZC01+", b"", b"", b"", b""], [b"PZC01++++", b"", b"", b"", b""], [b"PZC01+\xff\xfe++0+", b"", b"", b"", b""],
        [b"PZC02+a++0+", b"json", b"1", b"i", b"\0"], [b"PZC00+a", b"json", b"1", b"i", b""],
        [b"PZC00+a+", b"json", b"1", b"i", b"x"], [b"PZC00+a+b", b"pickle99", b"1", b"urn:uuid:1", b""],
        [b"PZC00+a+" + b"t" * 2040, b"json", b"1", b"i", b""], [b"PZC00+\xff+", b"json", b"1", b"i", b""],
        [b"PZC01+a++0+", b"j" * 40, b"1", b"i", b"\0"], [b"PZC01+a++0+", b"json", b"1", b"i" * 200, b"\0"],
        [b"PZC01+a++0+", b"json", b"1", b"i", b"\7" * 600],
    ],
)  # fmt: skip
def test_whatever_it_sends_a_plain_req_socket_gets_exactly_one_reply(
    agent: Agent, peer: RawPeer, key: str, frames: Frames
) -> None:
    assert len(peer.ask(frames)) == 5
    assert not peer.socket.poll(20)
    still_answers(agent, key)


def test_another_version_is_answered_with_the_originals_empty_reply(agent: Agent, peer: RawPeer) -> None:
    reply = peer.ask([b"PZC07+a+", b"json", b"1", b"i", b""])
    assert reply[0] == f"PZC00+{agent.rep_endpoint}+".encode()
    assert pickle.loads(reply[2]) == ""
    assert counts(agent)["refused_VersionError"] == 1


def test_a_dialect_that_is_not_accepted_is_refused_and_told(key: str) -> None:
    with (
        Agent(protocol=Protocol(key, accept=["PZC00"])) as agent,
        Agent(protocol=Protocol(key, accept=["PZC01"])) as client,
        pytest.raises(VersionError, match="answered in PZC00, which this side does not accept"),
    ):
        client.request(agent.rep_endpoint, 7, timeout=600.0)


@pytest.mark.parametrize(
    "content", [("PSMessage", "exec"), ("PSMessage", 7, {}), ["PSMessage"] * 3, {"pzc": "x"}, {"pzc": []}]
)
def test_an_authenticated_request_of_no_known_form_is_content_like_any_other(
    agent: Agent, key: str, content: Any
) -> None:
    with Agent(protocol=Protocol(key)) as client:
        assert client.request(agent.rep_endpoint, content) == content


@pytest.mark.usefixtures("beside_originals")
def test_a_reply_that_its_serializer_cannot_express_becomes_an_error_reply(key: str) -> None:
    class Unspeakable(Agent):
        def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
            return threading.Lock()

    for serializer in ("pickle", "json", "msgpack"):
        for dialect in ("PZC01", "PZC00"):
            protocol = Protocol(key, serializer, dialect=dialect)
            with Unspeakable(protocol=Protocol(key)) as agent, Agent(protocol=protocol) as client:
                message, action, _ = client.request(agent.rep_endpoint, 7, TIMEOUT)
            assert (message, action) == ("PSMessage", "raise")


def test_a_reply_whose_sender_has_gone_is_counted() -> None:
    gate = Gate()
    with Server(gate) as server:
        with RawPeer(server.rep_endpoint) as peer:
            request = ("PSMessage", "exec", {"name": "wait", "method": "__call__"})
            peer.socket.send_multipart(request_for(server, request))
            assert gate.entered.wait(TIMEOUT)
        still_answers(server)
        gate.opened.set()
        until(lambda: counts(server).get("replies_lost") == 1)


class Camera:
    def frame(self) -> bytes:
        return bytes(1 << 20)


def test_answers_that_nobody_reads_have_a_bound_and_whoever_reads_is_answered() -> None:
    with Timings(unsent_per_key=8 << 20), Server(Camera()) as server, Proxy(server.rep_endpoint) as camera:
        with RawPeer(server.rep_endpoint, zmq.DEALER) as peer:
            peer.socket.setsockopt(zmq.RCVHWM, 1)
            request = ("PSMessage", "exec", {"name": "frame", "method": "__call__"})
            for _ in range(60):
                peer.socket.send_multipart([b"", *request_for(server, request)])
            until(lambda: counts(server).get("replies_unsent", 0) > 20)
            assert len(camera.frame()) == 1 << 20
            answers = [peer.receive() for _ in range(60)]
        assert len(answers[0][3]) > 1 << 20
        assert sum(b"unsent_per_key" in each[3] for each in answers) > 20
        with RawPeer(server.rep_endpoint, zmq.DEALER) as peer:
            for _ in range(4):
                peer.socket.send_multipart([b"", *request_for(server, request)])
            assert all(len(peer.receive()[3]) > 1 << 20 for _ in range(4))


def test_a_message_without_envelope_is_counted_and_dropped() -> None:
    with Agent() as agent, RawPeer(agent.rep_endpoint, zmq.DEALER) as peer:
        peer.socket.send_multipart([b"a", b"b"])
        peer.ask([b"", *request_for(agent, 7)])
        assert counts(agent)["requests_without_envelope"] == 1


def test_a_request_through_proxies_of_zmq_finds_its_way_back() -> None:
    with (
        Agent() as agent,
        Middle(agent.rep_endpoint, lambda *message: [message[2]]) as middle,
        Agent() as client,
    ):
        assert client.request(middle.endpoint, 7, TIMEOUT) == 7


@acceptance("P2")
def test_a_json_only_agent_runs_nothing_that_a_pickle_asks_for(tmp_path: Path, key: str) -> None:
    trap = tmp_path / "created"
    with Agent(protocol=Protocol(key, "json")) as agent, RawPeer(agent.rep_endpoint) as peer:
        reply = peer.ask(request_for(agent, Creates(trap), key, serializer="pickle"))
        assert refusal_in(reply) == "SerializerRefused"
        assert not trap.exists()
        assert counts(agent)["refused_SerializerRefused"] == 1
        still_answers(agent, key)


@acceptance("P2")
@pytest.mark.parametrize("serializer", ["pickle", "pickle0", "pickle2", "buffers"])
@pytest.mark.parametrize("padding", [0, 100_000], ids=["small", "large"])
def test_an_agent_without_key_runs_nothing_that_a_pickle_asks_for(
    tmp_path: Path, serializer: str, padding: int
) -> None:
    trap = tmp_path / "created"
    with Agent() as agent, RawPeer(agent.rep_endpoint) as peer:
        reply = peer.ask(request_for(agent, [b"x" * padding, Creates(trap)], serializer=serializer))
        assert refusal_in(reply) == "SerializerRefused"
        assert not trap.exists()
        still_answers(agent)


def test_the_notifications_of_a_json_only_agent_reach_a_subscriber_that_sends_pickle(key: str) -> None:
    with Agent(protocol=Protocol(key, "json")) as agent, Agent(protocol=Protocol(key, "pickle")) as client:
        subscription = client.subscribe(agent.rep_endpoint, "t")
        agent.publish("t", 7)
        assert subscription.recv(TIMEOUT).content == 7


def test_an_agent_without_key_refuses_such_a_pickle_from_an_original_peer_too(tmp_path: Path) -> None:
    trap = tmp_path / "created"
    with Agent() as agent, RawPeer(agent.rep_endpoint) as peer:
        reply = peer.ask(
            [b"PZC00+tcp://x:1+", b"pickle2", pickle.dumps(Creates(trap), 2), b"urn:uuid:1", b""]
        )
        assert pickle.loads(reply[2]) == ""
        assert not trap.exists()
        still_answers(agent)


def test_the_trap_of_these_tests_works(tmp_path: Path) -> None:
    trap = tmp_path / "created"
    pickle.loads(pickle.dumps(Creates(trap)))
    assert trap.exists()
    assert lines(tmp_path / "missing") == []


def test_a_reply_reflected_as_a_request_is_refused() -> None:
    with Agent(protocol=Protocol(KEY)) as agent, RawPeer(agent.rep_endpoint) as peer:
        reply = peer.ask(request_for(agent, "stop", KEY, receiver=agent.agent_id + "x"))
        peer.ask(reply)
        assert counts(agent)["refused_FrameError"] == 1


def test_statistics_can_be_sent() -> None:
    with Agent() as agent, RawPeer(agent.rep_endpoint) as peer:
        peer.ask([b"junk"])
        assert json.loads(json.dumps(agent.statistics()))["counts"]["refused_FrameError"] == 1


def test_a_future_is_no_answer_of_a_plain_agent_but_an_error_reply() -> None:
    class Lazy(Agent):
        def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
            return Future()

    with Lazy() as agent, Agent() as client:
        thread, outcome = in_thread(lambda: client.request(agent.rep_endpoint, 7, TIMEOUT))
        thread.join(TIMEOUT)
        assert outcome[0][1] == "raise"


def answer_in(reply: Frames) -> Any:
    """What an answer holds, whoever it is meant for."""
    read: dict[bytes, Callable[[bytes], Any]] = {b"json": json.loads, b"pickle": pickle.loads}
    return read[reply[1]](reply[2])


def refusal_in(reply: Frames) -> str:
    """The class of the error in an answer."""
    word, told = answer_in(reply)
    assert word == "PZCError"
    return told["code"]


def test_a_valid_request_of_a_plain_req_socket_is_answered(agent: Agent, peer: RawPeer, key: str) -> None:
    assert answer_in(peer.ask(request_for(agent, 7, key, serializer="json"))) == 7


HEADERS = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda a, b, c: b"PZC01+%s+%s+%s+" % (a, b, c), *[st.binary(max_size=9)] * 3),
    st.builds(lambda a, b: b"PZC00+%s+%s" % (a, b), *[st.binary(max_size=9)] * 2),
)
SERIALIZERS = st.one_of(
    st.sampled_from([b"json", b"pickle", b"msgpack", b"arrays", b"buffers"]), st.binary(max_size=9)
)


def test_random_frames_are_each_answered_once_and_counted() -> None:
    with Agent() as agent, RawPeer(agent.rep_endpoint) as peer:

        @given(
            st.lists(st.tuples(HEADERS, SERIALIZERS, *[st.binary(max_size=60)] * 3), min_size=1, max_size=5)
        )
        def answered(messages: list[tuple[bytes, ...]]) -> None:
            before = counts(agent).get("requests", 0)
            for frames in messages:
                assert len(peer.ask(list(frames))) == 5
            assert counts(agent)["requests"] == before + len(messages)

        answered()


def test_refusals_say_what_was_wrong_and_are_counted_by_their_class(
    agent: Agent, peer: RawPeer, key: str
) -> None:
    header = f"PZC01+{SENDER}".encode()
    assert refusal_in(peer.ask([header, b"json", b"1", b"i", b"\0"])) == "FrameError"
    assert refusal_in(peer.ask(request_for(agent, 7, key + "x" * 16))) == "SignatureError"
    found = counts(agent)
    assert (found["requests"], found["requests_refused"], found["replies"]) == (2, 2, 2)
    assert (found["refused_FrameError"], found["refused_SignatureError"]) == (1, 1)


@pytest.mark.parametrize("serializer", ["json", "msgpack", "arrays"])
def test_a_request_of_garbage_gets_an_error_reply(serializer: str) -> None:
    with Agent() as agent, RawPeer(agent.rep_endpoint) as peer:
        for raw in (b"\xc1 garbage", b"", b"\x80\x05\x95", b"c" * 80_000):
            frames = request_for(agent, None, serializer=serializer)
            frames[2] = raw
            assert refusal_in(peer.ask(frames)) == "DecodeError", raw[:10]
        still_answers(agent)


@pytest.mark.parametrize("key", [""], ids=["unsigned"])
def test_a_large_handshake_is_refused_undecoded(agent: Agent, peer: RawPeer) -> None:
    frames = request_for(agent, {"pzc": "hello", "challenge": "x" * 100_000}, receiver="")
    assert refusal_in(peer.ask(frames)) == "FrameError"


@pytest.mark.parametrize("content", ["stop", 7, ("PSMessage", "get", {"name": "label"}), {"pzc": "placed"}])
def test_nothing_but_a_handshake_is_answered_without_the_receivers_id(
    agent: Agent, peer: RawPeer, key: str, content: object
) -> None:
    assert refusal_in(peer.ask(request_for(agent, content, key, receiver=""))) == "SignatureError"
    still_answers(agent, key)


def test_a_captured_request_sent_to_another_server_of_the_same_key_is_refused() -> None:
    gate = Gate()
    with Server(Gate(), protocol=Protocol(KEY)) as meant, Server(gate, protocol=Protocol(KEY)) as other:
        frames = request_for(meant, ("PSMessage", "exec", {"name": "count", "method": "__call__"}), KEY)
        with RawPeer(other.rep_endpoint) as peer:
            assert refusal_in(peer.ask(frames)) == "SignatureError"
        assert gate.calls == 0
        assert counts(other)["refused_SignatureError"] == 1


def test_a_content_that_fails_while_it_is_read_is_refused_as_such() -> None:
    with Agent(protocol=Protocol(KEY)) as agent, Agent(protocol=Protocol(KEY)) as client:
        with pytest.raises(DecodeError):
            client.request(agent.rep_endpoint, [HostileError("x")], TIMEOUT)
        still_answers(agent, KEY)
