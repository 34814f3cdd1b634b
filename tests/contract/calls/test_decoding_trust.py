"""Whose pickles are unpickled in full: lines 4.1, 4.4 and 4.7."""

from __future__ import annotations

import os
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from pzc import (
    Agent,
    Key,
    Keyring,
    Policy,
    Protocol,
    Proxy,
    PzcError,
    Role,
    Server,
    batch,
    block,
    close,
    drop,
    mailbox,
    register_class,
)

from tests.contract.rigs import pizco

SECRETS = {"watcher": Role.OBSERVER, "driver": Role.OPERATOR, "house": Role.ADMIN}
ORIGINAL = b"a key that originals and we know"
TIMEOUT = pizco.TIMEOUT


def ring(active: str) -> Protocol:
    """What somebody speaks who signs with that key and knows all three."""
    keys = {name: Key(f"a long secret of the {name}", name, role) for name, role in SECRETS.items()}
    return Protocol(keyring=Keyring(keys.values(), keys[active]))


def trusting(name: str) -> Protocol:
    """What somebody speaks who holds one key, and lets its holders do everything."""
    return Protocol(keyring=Keyring([Key(f"a long secret of the {name}", name, Role.ADMIN)]))


@register_class
class Trap:
    """Unpickled in full it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "made")


class Instrument:
    """Echoes, and gives away what it holds."""

    def __init__(self, held: object) -> None:
        self._held = held
        self.voltage = 1.0

    def echo(self, value: object) -> str:
        return type(value).__name__

    def give(self) -> object:
        return self._held

    def give_some(self) -> Iterator[object]:
        yield 1
        yield self._held


def ask(endpoint: str, frames: list[Any]) -> list[bytes]:
    """What a raw REQ socket gets for frames."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        socket.send_multipart(frames)
        assert socket.poll(int(TIMEOUT * 1000))
        return socket.recv_multipart()


# --- requests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("signer", SECRETS)
def test_a_pickle_that_is_addressed_to_nobody_runs_no_code(trap: Trap, signer: str) -> None:
    with Server(Instrument(None), protocol=ring("house")) as server:
        for content in (trap, {"pzc": "hello", "challenge": trap}, ("info", trap), ["ping", trap]):
            ask(server.rep_endpoint, ring(signer).encode("0" * 32, "", content, serializer="pickle"))
    assert not trap.path.exists()


@pytest.mark.parametrize("signer", ["watcher", "driver"])
def test_an_addressed_pickle_is_unpickled_in_full_from_an_operator_only(trap: Trap, signer: str) -> None:
    with Server(Instrument(None), protocol=ring("house")) as server:
        call = ("PSMessage", "exec", {"name": "echo", "args": (trap,), "kwargs": {}})
        frames = ring(signer).encode("0" * 32, "", call, receiver=server.agent_id, serializer="pickle")
        ask(server.rep_endpoint, frames)
    assert trap.path.exists() == (signer == "driver")


def one_by_one(proxy: Any, trap: Trap) -> None:
    proxy.echo(trap)


def later(proxy: Any, trap: Trap) -> None:
    first, second = proxy.echo.future(trap), proxy.echo.future([trap])
    first.exception(TIMEOUT)
    second.result(TIMEOUT)


def together(proxy: Any, trap: Trap) -> None:
    with batch(proxy) as calls:
        calls.echo(trap)


def set_one(proxy: Any, trap: Trap) -> None:
    proxy.voltage = trap


def as_stream(proxy: Any, trap: Trap) -> None:
    list(proxy.give_some(trap))


@pytest.mark.parametrize("transport", ["unix", "tcp"])
@pytest.mark.parametrize("use", [one_by_one, later, together, set_one, as_stream])
def test_an_observers_calls_run_no_code_by_any_way(
    trap: Trap, transport: str, use: Callable[[Any, Trap], None]
) -> None:
    with Server(Instrument(None), protocol=ring("house")) as server:
        # It takes its own key for more than an observer's, so it sends pickles.
        proxy = Proxy(server.rep_endpoint, protocol=trusting("watcher"), transport=transport, timeout=TIMEOUT)
        assert proxy.voltage == 1.0
        with pytest.raises(PzcError):
            use(proxy, trap)
        close(proxy)
    assert not trap.path.exists()


# --- replies -----------------------------------------------------------------------------------------


def call(proxy: Any) -> None:
    proxy.give()


def call_later(proxy: Any) -> None:
    for future in [proxy.give.future() for _ in range(3)]:
        future.result(TIMEOUT)


def call_together(proxy: Any) -> None:
    with batch(proxy) as calls:
        calls.give()


def call_for_a_stream(proxy: Any) -> None:
    list(proxy.give_some())


@pytest.mark.parametrize("transport", ["unix", "tcp"])
@pytest.mark.parametrize("use", [call, call_later, call_together, call_for_a_stream])
def test_replies_that_an_observers_key_signed_run_no_code(
    trap: Trap, transport: str, use: Callable[[Any], None]
) -> None:
    with Server(Instrument(trap), protocol=trusting("watcher")) as server:
        proxy = Proxy(server.rep_endpoint, protocol=ring("watcher"), transport=transport, timeout=TIMEOUT)
        assert [proxy.voltage for _ in range(5)] == [1.0] * 5
        with pytest.raises(PzcError):
            use(proxy)
        close(proxy)
    assert not trap.path.exists()


# --- notifications -----------------------------------------------------------------------------------


@pytest.mark.parametrize("signer", ["watcher", "driver"])
@pytest.mark.parametrize(
    ("policy", "transport"),
    [(drop(), "tcp"), (drop(), "unix"), (block(), "tcp"), (block(), "unix"), (mailbox(), "tcp")],
    ids=["drop tcp", "drop unix", "block tcp", "block unix", "mailbox"],
)
def test_notifications_are_unpickled_in_full_from_an_operator_only(
    trap: Trap, signer: str, policy: Policy, transport: str
) -> None:
    with Agent(protocol=trusting(signer)) as source, Agent(protocol=ring(signer)) as reader:
        found = reader.subscribe(source.rep_endpoint, "t", policy=policy, transport=transport)
        assert source.wait_for_subscribers("t")
        source.publish("t", 1)
        assert found.recv(TIMEOUT).content == 1
        source.publish("t", trap)
        source.publish("t", 2)
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            try:
                if found.recv(TIMEOUT).content == 2:
                    break
            except PzcError:  # what could not be decoded
                continue
    assert trap.path.exists() == (signer == "driver")


# --- originals ---------------------------------------------------------------------------------------


def both() -> Protocol:
    return Protocol(ORIGINAL.decode(), accept=("PZC01", "PZC00"))


def test_a_signed_pickle_of_an_original_runs_no_code_at_a_server(trap: Trap) -> None:
    with Server(Instrument(None), protocol=both()) as server:
        options = {"name": "echo", "method": "__call__", "args": (trap,), "kwargs": {}}
        ask(server.rep_endpoint, pizco.make(ORIGINAL, pizco.ME, ("PSMessage", "exec", options)))
    assert not trap.path.exists()


def test_a_text_whose_frames_were_moved_becomes_no_trusted_pickle(trap: Trap) -> None:
    """Nothing separates the frames under the signature of an original: what was content becomes header."""
    text = f"pickle0cposix\nmkdir\n(V{trap.path}\ntR"
    body, msgid = pickle.dumps(text, 1), uuid.uuid4().urn.encode()
    header = f"PZC00+{pizco.ME}+".encode()
    signature = pizco.sign(ORIGINAL, [header, b"pickle1", body, msgid])
    start = body.index(b"pickle0")
    moved = [header + b"pickle1" + body[:start], b"pickle0", body[start + 7 :], msgid, signature]
    with Server(Instrument(None), protocol=both()) as server:
        ask(server.rep_endpoint, moved)
    assert not trap.path.exists()


def test_a_signed_reply_of_an_original_runs_no_code_at_a_client(trap: Trap) -> None:
    with pizco.Server(Instrument(trap), ORIGINAL) as server:
        proxy = Proxy(server.endpoint, protocol=both(), timeout=TIMEOUT)
        with pytest.raises(PzcError):
            proxy.give()
        close(proxy)
    assert not trap.path.exists()


# --- another's reply ---------------------------------------------------------------------------------


class Impostor:
    """A REP endpoint that shakes hands with one key, and signs what follows with another."""

    def __init__(self, content: object) -> None:
        self._content = content
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        self.endpoint = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._agent_id = "ab" * 16
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        met, other = ring("driver"), ring("house")
        while True:
            frames = self._socket.recv_multipart()
            if frames == [b"end"]:
                return
            sender, msgid = frames[0].split(b"+")[1].decode(), frames[3].decode()
            if frames[1] == b"json" and b"hello" in frames[2]:
                content: dict[str, Any] = met.parse(frames)[2]
                content |= {"agent_id": self._agent_id, "time_ms": time.time_ns() // 1_000_000, "name": ""}
                content |= {
                    "epoch": met.epoch,
                    "pub_endpoint": self.endpoint,
                    "serializers": ["pickle", "json"],
                }
                answer = met.encode(
                    self._agent_id, "", content, reply_to=msgid, receiver=sender, serializer="json"
                )
            else:
                answer = other.encode(self._agent_id, "", self._content, reply_to=msgid, receiver=sender)
            self._socket.send_multipart(answer)

    def close(self) -> None:
        with self._context.socket(zmq.REQ) as end:
            end.connect(self.endpoint)
            end.send(b"end")
            self._thread.join(TIMEOUT)
        self._socket.close()
        self._context.term()


def test_a_reply_with_another_key_than_the_handshakes_is_refused_before_it_is_decoded(trap: Trap) -> None:
    impostor = Impostor(("PSMessage", "return", trap))
    try:
        with Agent(protocol=ring("driver")) as agent, pytest.raises(PzcError, match="another key"):
            agent.request(impostor.endpoint, ("PSMessage", "inspect", {}), TIMEOUT)
    finally:
        impostor.close()
    assert not trap.path.exists()
