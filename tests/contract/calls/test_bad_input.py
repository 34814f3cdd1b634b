from __future__ import annotations

import os
import random
import struct
import threading

import pytest
import zmq

from pzc import Agent, Protocol

from tests.contract.rigs import junk
from tests.contract.rigs.calling import KEY, TIMEOUT, RawPeer, counts, until
from tests.contract.rigs.junk import GREETING, READY, command, send_raw, works
from tests.contract.rigs.peers import Elsewhere, Forwarder

pair = junk.pair


def spoken(kind: bytes, junk: bytes) -> bytes:
    """Junk after a flawless introduction."""
    return GREETING + command(READY[kind]) + junk


@pytest.mark.parametrize("port", ["rep", "pub"])
def test_random_bytes_over_tcp_disturb_nobody(pair: tuple[Agent, Agent], port: str) -> None:
    agent, client = pair
    endpoint = agent.rep_endpoint if port == "rep" else agent.pub_endpoint
    kind = b"DEALER" if port == "rep" else b"SUB"
    dice = random.Random(7)
    for number in range(120):
        junk = dice.randbytes(dice.randrange(1, 600))
        send_raw(endpoint, [junk, GREETING + junk, spoken(kind, junk)][number % 3])
    assert works(agent, client)


@pytest.mark.parametrize("size", [1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
@pytest.mark.parametrize("port", ["rep", "pub"])
def test_a_frame_that_claims_to_be_huge_costs_its_sender_the_connection_and_us_no_memory(
    pair: tuple[Agent, Agent], port: str, size: int
) -> None:
    agent, client = pair
    endpoint, kind = (agent.rep_endpoint, b"DEALER") if port == "rep" else (agent.pub_endpoint, b"SUB")
    before = _memory()
    send_raw(endpoint, spoken(kind, b"\2" + struct.pack(">Q", size) + b"x" * 100))
    assert _memory() - before < 200 << 20
    assert works(agent, client)


def _memory() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_message_of_large_frames_is_refused_by_its_sizes(pair: tuple[Agent, Agent]) -> None:
    agent, client = pair
    large = bytes(8 << 20)
    with RawPeer(agent.rep_endpoint) as peer:
        for place in (0, 1, 3, 4):
            frames = [b"PZC01+a++0+", b"json", b"1", b"i", b"\0"]
            frames[place] = frames[place] + large
            assert len(peer.ask(frames)) == 5
    assert counts(agent)["refused_FrameError"] == 4
    assert works(agent, client)


def test_messages_of_many_frames_are_refused_by_their_number(pair: tuple[Agent, Agent]) -> None:
    agent, client = pair
    with RawPeer(agent.rep_endpoint) as peer:
        for number in (1, 2, 3, 4, 6, 7, 50, 5000):
            assert len(peer.ask([b"x"] * number)) == 5
    assert counts(agent)["refused_FrameError"] == 8
    assert works(agent, client)


@pytest.mark.parametrize("key", ["", KEY], ids=["unsigned", "signed"])
def test_what_a_hostile_publisher_sends_is_counted_and_disturbs_nobody(key: str) -> None:
    def junk_and(number: int, frames: list[bytes]) -> list[list[bytes]]:
        header, _, content, msgid, signature = frames
        start = header[: header.index(b"+t+") + 3]
        return [
            [header], [header] * 5, [header, *[b"x"] * 5], [start + b"\xff+", b"json", b"1", b"i", b"\0"],
            [header, b"json", b"1", b"i", b""], [header + b"k" * 5000, b"json", b"1", b"i", b"\0"],
            [header, b"nothing", content, msgid, signature], [header, b"json", b"{", b"urn:uuid:0", b"\0"],
            frames,
        ]  # fmt: skip

    with (
        Elsewhere(protocol=Protocol(key)) as agent,
        Forwarder(agent.pub_endpoint, junk_and) as forwarder,
        Agent(protocol=Protocol(key)) as client,
    ):
        agent.advertised = forwarder.endpoint
        with client.subscribe(agent.rep_endpoint, "t", timeout=TIMEOUT) as subscription:
            agent.publish("t", 7)
            assert subscription.recv(TIMEOUT).content == 7
            assert (subscription.received, subscription.dropped) == (1, 0)
        assert counts(client)["notifications_refused"] == 8
        assert client.request(agent.rep_endpoint, 7, TIMEOUT) == 7


@pytest.mark.parametrize("key", ["", KEY], ids=["unsigned", "signed"])
def test_what_a_hostile_server_answers_is_an_error_in_time(key: str) -> None:
    replies = [
        [b""], [b"junk"], [b""] * 5, [b"\xff"] * 5, [b"x"] * 9, [b"PZC01+a++0+", b"json", b"1", b"i", b"\0"],
        [b"PZC01+a++" + b"0" * 32 + b"+", b"json", b"1", b"i", b"\0"], [b"PZC00+a+", b"json", b"1", b"i", b""],
        [b"PZC00+a+", b"pickle", b"\x80", b"urn:uuid:1", b""],
    ]  # fmt: skip
    with (
        zmq.Context() as context,
        context.socket(zmq.ROUTER) as server,
        Agent(protocol=Protocol(key)) as client,
    ):
        server.bind("tcp://127.0.0.1:*")
        endpoint = server.getsockopt_string(zmq.LAST_ENDPOINT)
        stop = threading.Event()
        answers = iter(replies * 2)

        def answer() -> None:
            while not stop.is_set():
                if server.poll(20):
                    route = server.recv_multipart()[0]
                    server.send_multipart([route, b"", *next(answers, [b"end"])])

        thread = threading.Thread(target=answer)
        thread.start()
        for _ in replies:
            with pytest.raises((ValueError, TimeoutError, OSError)):
                client.request(endpoint, 7, timeout=0.3)
        stop.set()
        thread.join(TIMEOUT)
        assert works(client, client)


def test_a_flood_of_bad_requests_does_not_keep_a_good_one_waiting(pair: tuple[Agent, Agent]) -> None:
    agent, client = pair
    with RawPeer(agent.rep_endpoint, zmq.DEALER) as peer:
        for _ in range(5000):
            peer.socket.send_multipart([b"", b"PZC01+a++0+", b"json", b"1", b"i", b"\0"])
        assert client.request(agent.rep_endpoint, 7, TIMEOUT) == 7
        for _ in range(5000):
            peer.receive()
    assert counts(agent)["requests_refused"] == 5000


STRANGE = [
    b"GET / HTTP/1.1\r\nHost: psu\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
    b"\xff" * 4096, b"", b"\n", GREETING[:10], GREETING[:12] + b"CURVE" + GREETING[17:],
    GREETING + command(b"\6BROKEN"), b"\1\0" + b"\x05\x00abcd" * 50,
]  # fmt: skip
"""What never becomes a peer."""


@pytest.mark.parametrize("port", ["rep", "pub"])
def test_whoever_does_not_speak_zmq_is_counted_and_disturbs_nobody(
    pair: tuple[Agent, Agent], port: str
) -> None:
    agent, client = pair
    for data in STRANGE:
        send_raw(agent.rep_endpoint if port == "rep" else agent.pub_endpoint, data)
    until(lambda: counts(agent).get(f"{port}_strangers", 0) >= len(STRANGE))
    assert works(agent, client)


def test_what_subscribers_send_to_the_pub_socket_is_counted_and_disturbs_nobody(
    pair: tuple[Agent, Agent],
) -> None:
    agent, client = pair
    with RawPeer(agent.pub_endpoint, zmq.XSUB) as peer:
        for message in (b"\2junk", b"junk", b"\xff" * 2000, b"\3"):
            peer.socket.send(message)
        until(lambda: counts(agent).get("pub_malformed", 0) == 4)
        peer.socket.send(b"\1" + os.urandom(60))
        peer.socket.send(b"\0never subscribed")
        assert works(agent, client)
