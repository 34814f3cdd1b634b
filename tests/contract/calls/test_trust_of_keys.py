"""Whom an agent with a key believes: lines 4.2, 4.3, 4.6, 4.8 and S1."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq

from pzc import (
    Agent,
    ConfigError,
    Protocol,
    ProtocolError,
    Proxy,
    Refused,
    Server,
    UnknownName,
    attach,
    block,
    mailbox,
)
from pzc.testing import Timings

from tests.contract.rigs import pizco
from tests.contract.rigs.strangers import strangers

KEY = "a key that both sides know"
SECRET = KEY.encode()
TIMEOUT = pizco.TIMEOUT
BOTH = ("PZC01", "PZC00")

Answer = Callable[[list[bytes]], list[bytes]]


class Supply:
    """Something to be called."""

    def __init__(self) -> None:
        self.calls = 0

    def switch(self) -> int:
        self.calls += 1
        return self.calls

    def readings(self) -> Iterator[int]:
        yield from range(10)


@contextmanager
def impostor(answer: Answer, endpoint: str = "tcp://127.0.0.1:*") -> Iterator[tuple[str, list[list[bytes]]]]:
    """A socket that answers every request in its own way; its endpoint, and what it was sent."""
    context, heard = zmq.Context(), list[list[bytes]]()
    socket, stop, told = context.socket(zmq.ROUTER), context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    socket.bind(endpoint)
    told.bind("inproc://stop")
    stop.connect("inproc://stop")

    def run() -> None:
        poller = zmq.Poller()
        for each in (socket, told):
            poller.register(each, zmq.POLLIN)
        while told not in dict(poller.poll()):
            *route, empty, header, serializer, content, msgid, proof = socket.recv_multipart()
            frames = [header, serializer, content, msgid, proof]
            heard.append(frames)
            socket.send_multipart([*route, empty, *answer(frames)])

    thread = threading.Thread(target=run, name="impostor")
    thread.start()
    try:
        yield socket.getsockopt_string(zmq.LAST_ENDPOINT), heard
    finally:
        stop.send(b"")
        thread.join(TIMEOUT)
        context.destroy(0)


def in_original_words(key: bytes) -> Answer:
    """Answers as an original that cannot read what it was sent."""
    return lambda frames: pizco.make(key, "tcp://127.0.0.1:1", "")


def originals(heard: list[list[bytes]]) -> list[bytes]:
    return [frames[0] for frames in heard if frames[0].startswith(b"PZC00")]


@pytest.mark.parametrize("accept", [None, BOTH], ids=["as it is", "both"])
def test_unsigned_bytes_do_not_make_a_client_sign_calls_of_the_original(
    accept: tuple[str, ...] | None,
) -> None:
    with impostor(in_original_words(b"")) as (endpoint, heard):
        with pytest.raises(ProtocolError):
            Proxy(endpoint, protocol=Protocol(KEY, accept=accept), timeout=TIMEOUT)
        assert heard
        assert originals(heard) == []


def test_who_has_proved_to_speak_pzc01_is_not_spoken_to_in_pzc00() -> None:
    with Agent(protocol=Protocol(KEY, accept=BOTH)) as agent:
        with Server(Supply(), protocol=Protocol(KEY, accept=BOTH), discovery=False) as server:
            endpoint = server.rep_endpoint
            assert agent.request(endpoint, "ping", TIMEOUT) == "pong"
        with impostor(in_original_words(SECRET), endpoint) as (_, heard):
            for said in ("answered in PZC00", "proved that it speaks PZC01"):  # as known, then as a stranger
                with pytest.raises(ProtocolError, match=said):
                    agent.request(endpoint, "ping", TIMEOUT)
            assert originals(heard) == []


def test_a_captured_call_of_an_original_runs_nowhere() -> None:
    supply = Supply()
    content = ("PSMessage", "exec", {"name": "switch", "method": "__call__", "args": (), "kwargs": {}})
    captured = pizco.make(SECRET, "tcp://127.0.0.1:1", content)
    for _ in range(2):  # the second one knows nothing of the first
        with Server(supply, protocol=Protocol(KEY), discovery=False) as server:
            assert ask(server.rep_endpoint, captured)[4] == b""
    assert supply.calls == 0


def ask(endpoint: str, frames: list[bytes]) -> list[bytes]:
    """What an agent answers to frames."""
    context = zmq.Context()
    with context.socket(zmq.REQ) as socket:
        socket.connect(endpoint)
        socket.send_multipart(frames)
        assert socket.poll(int(TIMEOUT * 1000)), "nothing came"
        answer = socket.recv_multipart()
    context.destroy(0)
    return answer


def test_originals_are_served_beside_a_key_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_ACCEPT", "PZC01,PZC00")
    with Server(Supply(), protocol=Protocol(KEY), discovery=False) as server:
        with pizco.Client(SECRET, server.rep_endpoint) as client:
            exec_ = {"name": "switch", "method": "__call__", "args": (), "kwargs": {}}
            assert client.request("exec", exec_) == 1
    with pytest.raises(ConfigError, match="PZC00"):
        Protocol(KEY, dialect="PZC00", accept=("PZC01",))


def test_a_strangers_filter_makes_no_publisher_sign_for_originals() -> None:
    with Agent(protocol=Protocol(KEY), discovery=False) as agent, strangers(agent) as heard:
        agent.publish("v", 1)
        assert heard()[0].startswith(b"PZC01+")
        agent.publish("v", 2)
        assert heard()[0].startswith(b"PZC01+")


def test_a_signed_notification_of_the_original_is_no_request() -> None:
    taken: list[Any] = []
    protocol = Protocol(KEY, accept=BOTH)
    with Answering(taken, protocol=protocol) as agent, strangers(agent) as heard:
        agent.publish("v", "switch everything off")
        signed = next(frames for frames in iter(heard, None) if frames[0].startswith(b"PZC00+"))
        topic, split = b"v", signed[0][: -len(b"v")]
        assert ask(agent.rep_endpoint, signed) != []
        assert ask(agent.rep_endpoint, [split, topic + signed[1], *signed[2:]]) != []
    assert taken == []


@pytest.mark.parametrize("topic", ['json"do it"', "pickle.", "pickle2"])
def test_a_topic_that_reads_as_a_serializer_is_not_signed_for_originals(topic: str) -> None:
    with Agent(protocol=Protocol(KEY, accept=BOTH), discovery=False) as agent, strangers(agent) as heard:
        agent.publish(topic, 1)
        agent.publish("v", 1)
        headers = [heard()[0] for _ in range(3)]
    assert sum(header.startswith(b"PZC00+") for header in headers) == 1


class Answering(Agent):
    """An agent that takes whatever it is asked."""

    def __init__(self, taken: list[Any], **options: Any) -> None:
        self.taken = taken
        super().__init__(discovery=False, **options)

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
        self.taken.append(content)
        return "taken"


ROLES = """
active = "{active}"
[keys.admin]
secret = "the secret of the administrators"
role = "admin"
[keys.alice]
secret = "the secret of the operator Alice"
role = "operator"
[keys.bob]
secret = "the secret of the operator Bob"
role = "operator"
[keys.guest]
secret = "the secret of everybody who looks"
role = "observer"
"""


@pytest.fixture
def signed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Protocol]:
    """A protocol that signs with one key of the keyring that everybody has."""

    def protocol(active: str) -> Protocol:
        path = tmp_path / f"{active}.toml"
        path.write_text(ROLES.format(active=active), encoding="utf-8")
        path.chmod(0o600)
        with monkeypatch.context() as patch:
            patch.setenv("PZC_KEYRING", str(path))
            return Protocol()

    return protocol


def found(name: str, by: Agent) -> str:
    """Where a name leads."""
    return by.request(name, "info", TIMEOUT)["rep_endpoint"]


def test_an_observers_announcement_takes_no_name(signed_by: Callable[[str], Protocol]) -> None:
    with (
        Agent(name="psu", protocol=signed_by("alice")) as psu,
        Agent(protocol=signed_by("admin")) as client,
    ):
        assert found("psu", client) == psu.rep_endpoint
        with Agent(name="psu", protocol=signed_by("guest")), Agent(name="cam", protocol=signed_by("guest")):
            with Agent(name="dac", protocol=signed_by("alice")) as dac:
                assert found("dac", client) == dac.rep_endpoint  # said after what the guest said
            assert found("psu", client) == psu.rep_endpoint
            with pytest.raises(UnknownName):
                client.request("cam", "info", 1.0)


def test_a_name_stays_with_the_key_that_it_was_first_seen_with(signed_by: Callable[[str], Protocol]) -> None:
    with Agent(protocol=signed_by("admin")) as client:
        with Agent(name="psu", protocol=signed_by("alice")) as psu:
            assert found("psu", client) == psu.rep_endpoint
            with Agent(name="psu", protocol=signed_by("bob")), Agent(name="dac", protocol=signed_by("bob")):
                found("dac", client)
                assert found("psu", client) == psu.rep_endpoint
        with Agent(name="psu", protocol=signed_by("bob")), Agent(name="adc", protocol=signed_by("bob")):
            found("adc", client)
            with pytest.raises(UnknownName):
                client.request("psu", "info", 1.0)
        with Agent(name="psu", protocol=signed_by("alice")) as psu:
            assert found("psu", client) == psu.rep_endpoint


def test_the_calls_of_one_key_make_no_result_of_another_forgotten(
    signed_by: Callable[[str], Protocol],
) -> None:
    with Server(Supply(), protocol=signed_by("admin"), discovery=False) as server:
        with (
            Proxy(
                server.rep_endpoint, protocol=signed_by("alice"), transport="tcp", timeout=TIMEOUT
            ) as alice,
            Proxy(server.rep_endpoint, protocol=signed_by("bob"), transport="tcp", timeout=TIMEOUT) as bob,
        ):
            future = alice.switch.future()
            assert future.result(TIMEOUT) == 1
            for _ in range(11):
                futures = [bob.switch.future() for _ in range(1000)]
                assert [each.result(TIMEOUT) for each in futures]
            again = attach(future.call_id, protocol=signed_by("alice"), timeout=TIMEOUT)
            assert again.result(TIMEOUT) == 1


def test_the_mailboxes_of_one_key_leave_room_for_another(signed_by: Callable[[str], Protocol]) -> None:
    with (
        Timings(mailboxes=1),
        Agent(protocol=signed_by("admin"), discovery=False) as publisher,
        Agent(protocol=signed_by("guest"), discovery=False) as guest,
        Agent(protocol=signed_by("alice"), discovery=False) as alice,
    ):
        guest.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name="one"))
        with pytest.raises(Refused, match="no room"):
            guest.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name="two"))
        inbox = alice.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name="one"))
        publisher.publish("t", 7)
        assert inbox.recv(TIMEOUT).content == 7


def test_the_links_of_one_key_leave_room_for_another(signed_by: Callable[[str], Protocol]) -> None:
    with (
        Timings(links=1),
        Agent(protocol=signed_by("admin"), discovery=False) as publisher,
        Agent(protocol=signed_by("guest"), discovery=False) as guest,
        Agent(protocol=signed_by("alice"), discovery=False) as alice,
    ):
        guest.subscribe(publisher.rep_endpoint, "t", key="k", transport="unix")
        with pytest.raises(Refused, match="this key has 1 links"):
            guest.subscribe(publisher.rep_endpoint, "t", key="k", transport="tcp")
        inbox = alice.subscribe(publisher.rep_endpoint, "t", policy=block(), transport="tcp")
        publisher.publish("t", 7)
        assert inbox.recv(TIMEOUT).content == 7


def test_the_streams_of_one_key_leave_room_for_another(signed_by: Callable[[str], Protocol]) -> None:
    with (
        Timings(streams=1),
        Server(Supply(), protocol=signed_by("admin"), discovery=False) as server,
        Proxy(server.rep_endpoint, protocol=signed_by("alice"), timeout=TIMEOUT) as alice,
        Proxy(server.rep_endpoint, protocol=signed_by("bob"), timeout=TIMEOUT) as bob,
    ):
        with closing(alice.readings()) as open:
            assert next(open) == 0
            with pytest.raises(Refused, match="this key has 1 streams"):
                next(alice.readings())
            assert list(bob.readings()) == list(range(10))
