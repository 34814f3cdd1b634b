"""Two ends of the lane in C with nothing around them: what the rules cost on top."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import socket
from collections.abc import Callable
from typing import Any

from pzc.transport.compiled import LANE, LaneError

from benchmarks.jobs import WrongResult
from benchmarks.sample import Bench, add_request

_KEY = b"thirty-two bytes of a signing key"[:32]
_CLIENT, _SERVER = (b"PZC01+client++3+", b"client/nonce", 1), (b"PZC01+server++", b"server/nonce", 2)
_TIMEOUT = 30.0


def bare_lane(connection: socket.socket, asks: bool, serializer: bytes = b"pickle") -> Any:
    """One end of a connection, which is closed: the lane has a number of its own for it."""
    if LANE is None:
        raise WrongResult("the lane in C is not built here")
    own, peer = (_CLIENT, _SERVER) if asks else (_SERVER, _CLIENT)
    with connection:
        count = itertools.count(1).__next__
        return LANE(connection.fileno(), asks, _KEY, b"01234567", serializer, own, peer, count)


def asking(connection: socket.socket) -> Callable[[], Any]:
    """A function that calls `add` once."""
    lane, content = bare_lane(connection, asks=True), add_request()

    def call() -> Any:
        found = lane.ask(pickle.dumps(content), _TIMEOUT, _TIMEOUT)
        return pickle.loads(found[0] if found else b"")[2]

    return call


def answering(connection: socket.socket, bench: Bench) -> None:
    """Answer until the client hangs up."""
    lane = bare_lane(connection, asks=False)
    with contextlib.suppress(LaneError):
        while True:
            for body, msgid, _, _ in lane.take(-1.0) or ():
                request = pickle.loads(body)[2]
                result = getattr(bench, request["name"])(*request["args"])
                lane.post(((pickle.dumps(("PSMessage", "return", result)), msgid),), _TIMEOUT)
