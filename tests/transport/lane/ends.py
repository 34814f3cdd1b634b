"""Two ends of a Unix connection in one process, each in C or in Python, that know each other."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from pzc.protocol.codec import Codec
from pzc.protocol.frames import PZC01, Kind, format_header
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.session import Party, Session
from pzc.transport import compiled
from pzc.transport.link_stream import LinkStream

LANE: Any = compiled.LANE
LaneError = compiled.LaneError
if os.environ.get("LANE_UNDER_TEST"):  # one that was built for this run, with sanitizers
    loader = importlib.machinery.ExtensionFileLoader("_lane", os.environ["LANE_UNDER_TEST"])
    spec = importlib.util.spec_from_loader("_lane", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    LANE, LaneError = module.Lane, module.LaneError

ASKER, ANSWERER, NONCE = "a" * 32, "b" * 32, "/" + "0f" * 16
ASKER_EPOCH, ANSWERER_EPOCH = 0xAAAA0001, 0xBBBB0002
KEY = Key("a long secret of the lab", "alice")
ABILITIES = 3
NEVER = threading.Event()
MS = 1_700_000_000_000


def soon(seconds: float = 5.0) -> float:
    """A deadline."""
    return time.monotonic() + seconds


class Python:
    """One end in Python: a session over a stream."""

    def __init__(self, sock: socket.socket, asks: bool, key: Key | None, serializer: str = "pickle") -> None:
        codec = Codec(Keyring([key]) if key else None, serializer=serializer)
        asker, answerer = Party(ASKER, ASKER_EPOCH, key), Party(ANSWERER, ANSWERER_EPOCH, key)
        self.session = Session(
            codec,
            asker if asks else answerer,
            answerer if asks else asker,
            asks=asks,
            binding=NONCE,
            abilities=ABILITIES,
        )
        self.stream = LinkStream(sock)
        self.count = itertools.count(1)

    def send(self, body: bytes, answers: Any = None, name: str = "pickle") -> str:
        """Send a request, or the answer to one; its message id."""
        frames = self.session.seal(None, MS, next(self.count), answers=answers, packed=(name, body))
        self.stream.send(frames, soon())
        return bytes(frames[3]).decode()

    def receive(self) -> Any:
        """The next message."""
        return self.session.open(self.stream.receive(soon(), NEVER))

    def close(self) -> None:
        self.stream.close()


def lane(
    sock: socket.socket,
    asks: bool,
    key: Key | None = KEY,
    serializer: str = "pickle",
    first: int = 1,
    last: int = -1,
) -> Any:
    """One end in C; it duplicates the socket, which is closed here."""
    request = format_header(PZC01, ASKER, "", ABILITIES)
    reply = format_header(PZC01, ANSWERER, "", 0)[:-2]
    asker = (request, (ASKER + NONCE).encode(), ASKER_EPOCH)
    answerer = (reply, (ANSWERER + NONCE).encode(), ANSWERER_EPOCH)
    own, peer = (asker, answerer) if asks else (answerer, asker)
    secret, key_id = (key.hmac_key, key.key_id.encode()) if key else (b"", b"")
    count = itertools.count(first).__next__
    with sock:
        return LANE(sock.fileno(), asks, secret, key_id, serializer.encode(), own, peer, count, last)


def ask(asks: Any, body: bytes | None, seconds: float) -> bytes | None:
    """What is in the reply to a request, or to the one before."""
    found = asks.ask(body, seconds, seconds)
    return None if found is None else found[0]


@contextlib.contextmanager
def lanes(key: Key | None = KEY, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Both ends in C."""
    one, other = socket.socketpair()
    asks, answers = lane(one, True, key, **options), lane(other, False, key, **options)
    try:
        yield asks, answers
    finally:
        asks.close()
        answers.close()


@contextlib.contextmanager
def wire(asks: bool, key: Key | None = KEY, **options: Any) -> Iterator[tuple[Any, socket.socket]]:
    """A lane and, for what a stranger would write, the socket at the other end."""
    one, other = socket.socketpair()
    made = lane(one, asks, key, **options)
    try:
        with other:
            yield made, other
    finally:
        made.close()


def recorded(*bodies: bytes, key: Key | None = KEY, first: int = 1) -> bytes:
    """Requests as they lie in the socket."""
    with wire(True, key, first=first) as (made, other):
        made.post(bodies, 5.0)
        return other.recv(1 << 20)


def recorded_reply(body: bytes, msgid: str, key: Key | None = KEY) -> bytes:
    """A reply as it lies in the socket."""
    with wire(False, key) as (made, other):
        made.post([(body, msgid)], 5.0)
        return other.recv(1 << 20)


KINDS = Kind.REQUEST, Kind.REPLY
