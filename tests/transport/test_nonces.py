"""A GCM nonce never comes twice under one key, whoever encodes: threads, copies, forks, restarts.

The clock stands still in these tests, so that only counters and epochs keep nonces apart.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import ids
from pzc.protocol.keyring import Key, Keyring
from pzc.transport import wire
from pzc.transport.wire import Protocol

NOW = 1_700_000_000_000
KEY = Key("a long secret of lab-secret")
AGENT, PEER = "a" * 32, "b" * 32
FOREIGN_ID = ids.MessageIds(3).next_urn(NOW)


@pytest.fixture(autouse=True)
def _clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "now_ms", lambda: NOW)


def new() -> Protocol:
    return Protocol(keyring=Keyring([KEY]), seal=True)


def spent(frames: Sequence[bytes]) -> bytes:
    """Sender and epoch, from which the key is derived, and nonce that one message used, read from its frames alone."""
    sender, sequence = frames[0].decode().split("+")[1], frames[0].decode().rsplit("+", 2)[1]
    own = sequence if len(sequence) == 32 else frames[3].decode().removeprefix("urn:uuid:").replace("-", "")
    stamp = ids.parse_hex(own)
    return sender.encode() + stamp.epoch.to_bytes(4, "big") + stamp.nonce()


def burst(protocol: Protocol, count: int = 30) -> list[bytes]:
    """A mixture of every kind of message; the replies all echo one id that somebody else chose."""
    found = []
    for _ in range(count):
        for frames in (
            protocol.encode(AGENT, "", "request", receiver=PEER),
            protocol.encode(AGENT, "", "reply", reply_to=FOREIGN_ID, receiver=PEER),
            protocol.encode(AGENT, "topic", "notification", sequence=1),
            protocol.format(AGENT, "topic", "formatted", FOREIGN_ID),
            protocol.format(AGENT),
        ):
            found.append(spent([bytes(frame) for frame in frames]))
    return found


def in_child(work: Callable[[], list[bytes]]) -> list[bytes]:
    """What ``work`` gives in a forked child; every item has 48 bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(b"".join(work()))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(child, 0)
    assert raw
    assert not len(raw) % 48
    return [raw[start : start + 48] for start in range(0, len(raw), 48)]


def repeated(found: list[bytes]) -> list[bytes]:
    return [item for item, count in Counter(found).items() if count > 1]


def test_one_protocol_never_repeats_a_nonce() -> None:
    assert not repeated(burst(new(), 300))


def test_many_protocols_of_one_sender_repeat_no_nonce() -> None:
    """As after so many restarts."""
    assert not repeated([item for _ in range(100) for item in burst(new(), 5)])


def test_threads_that_share_a_protocol_repeat_no_nonce() -> None:
    protocol, found = new(), []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        found.extend(burst(protocol, 50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 * 50 * 5
    assert not repeated(found)


def test_forked_children_repeat_no_nonce_of_each_other_or_their_parent() -> None:
    protocol, twin = new(), new()
    found = [*burst(protocol), *burst(twin)]
    for _ in range(4):
        found += in_child(lambda: [*burst(protocol), *burst(twin), *in_child(lambda: burst(protocol))])
        found += [*burst(protocol), *burst(twin)]
    assert len(found) == (2 + 4 * 5) * 150
    assert not repeated(found)


def test_a_fork_amid_encoding_threads_repeats_no_nonce() -> None:
    protocol, found, stop = new(), [], threading.Event()

    def work() -> None:
        while not stop.is_set():
            found.extend(burst(protocol, 5))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = [item for _ in range(5) for item in in_child(lambda: burst(protocol))]
    stop.set()
    for thread in threads:
        thread.join()
    assert found
    assert not repeated([*found, *children])


def test_a_fork_and_each_call_to_begin_epoch_change_the_epoch() -> None:
    protocol = new()
    epochs = [protocol.epoch]
    epochs += [int.from_bytes(item, "big") for item in in_child(lambda: [protocol.epoch.to_bytes(48, "big")])]
    protocol.begin_epoch()
    epochs.append(protocol.epoch)
    assert len(set(epochs)) == 3


@given(st.lists(st.sampled_from(["encode", "restart", "new"]), max_size=30))
def test_no_sequence_of_events_repeats_a_nonce(events: list[str]) -> None:
    alive, found = [new()], []
    for number, event in enumerate(events):
        one = alive[number % len(alive)]
        if event == "restart":
            one.begin_epoch()
        elif event == "new":
            alive.append(new())
        found += [item for protocol in alive for item in burst(protocol, 1)]
    assert not repeated(found)
