"""Two ends of a Unix connection that know each other, for tests."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pzc.protocol.codec import Codec
from pzc.protocol.errors import ProtocolError
from pzc.protocol.frames import Buffer, Kind
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.message import Message
from pzc.protocol.session import ARRAYS, Party, Session
from pzc.protocol.signing import Suite
from pzc.transport import compiled
from pzc.transport.exchange import UnixExchange
from pzc.transport.laned import exchange_of
from pzc.transport.link_stream import LinkStream

from tests.contract.rigs.calling import TIMEOUT

CLIENT, SERVER, NONCE = "ab" * 16, "cd" * 16, "/" + "ef" * 16
EPOCHS = 7, 0xFFFFFFFF
KEY = Key("a secret of the lab")
CALL = ("PSMessage", "exec", {"name": "add", "args": (1, 2)})

Make = Callable[[LinkStream, Session, Callable[[], int]], UnixExchange]
LANES: dict[str, Make] = {"python": UnixExchange, **({"compiled": exchange_of} if compiled.LANE else {})}
PAIRS = [(one, two) for one in LANES for two in LANES]


@dataclass
class Ends:
    """Both ends, and what they refused."""

    asking: UnixExchange
    answering: UnixExchange
    refused: list[ProtocolError] = field(default_factory=list)

    def note(self, _frames: list[Buffer], error: ProtocolError) -> Message | None:
        self.refused.append(error)
        return None

    def close(self) -> None:
        self.asking.close()
        self.answering.close()


def soon(seconds: float = TIMEOUT) -> float:
    return time.monotonic() + seconds


def pair(
    makes: Sequence[Make] = (UnixExchange, UnixExchange),
    *,
    suite: Suite | None = Suite.HMAC_SHA256,
    serializer: str = "pickle",
    behind: Sequence[object] = (),
) -> Ends:
    """An end that asks and one that answers, each made by its own function.

    Args:
        makes: those functions.
        suite: of the signatures; None without a key.
        serializer: of both ends.
        behind: what the asking end has sent at once behind the first message, from which the other end
            has come to know it.
    """
    key = None if suite is None else KEY
    codec = Codec(None if key is None else Keyring([key]), serializer=serializer, accept_serializers=None)
    near, far = map(LinkStream, socket.socketpair())
    client, server = Party(CLIENT, EPOCHS[0], key), Party(SERVER, EPOCHS[1], key)
    asks = Session(
        codec, client, server, asks=True, binding=NONCE, suite=suite, abilities=ARRAYS,
    )  # fmt: skip
    counts = itertools.count(5).__next__, itertools.count(5).__next__
    for each in ("first", *behind):
        near.send(asks.seal(each, 1, counts[0]()), soon())
    frames = far.receive(soon(), threading.Event())
    first = codec.open(frames, kind=Kind.REQUEST, receiver=SERVER + NONCE)
    answers = Session.answering(codec, SERVER, EPOCHS[1], first, binding=NONCE)
    ends = Ends(makes[0](near, asks, counts[0]), makes[1](far, answers, counts[1]))
    ends.asking.otherwise = ends.answering.otherwise = ends.note
    return ends
