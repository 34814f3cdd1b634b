"""Where the microseconds of one same-host ``add(1, 2)`` go: each stage alone, and the floor below it.

The stages are functions of the package, called again and again in one process; the whole call and the
floor (as many bytes to and fro over a raw Unix socket) are measured between two processes. All of it is
pinned to one core, where no two parts can overlap, so that a sum means something.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import secrets
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from pzc import Proxy, Server, close
from pzc.protocol.codec import Codec
from pzc.protocol.contents import ps_message
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.message import Message
from pzc.protocol.session import ARRAYS, Party, Session
from pzc.transport.compiled import LANE
from pzc.transport.link_stream import LinkStream

from benchmarks.call_cases import CASES, Effort
from benchmarks.children import (
    ROUND_TIMEOUT,
    START_TIMEOUT,
    Child,
    ChildFailure,
    Parent,
    core_to_pin,
    environment,
)
from benchmarks.jobs import WrongResult, quiet
from benchmarks.rounds import run_case
from benchmarks.sample import Bench, add_request
from benchmarks.tables import spread, table

_NONCE = "/nonce"
REPEATS = 7
CALLS = 2000

Stage = tuple[str, str, Callable[[], object]]
"""Side, what it does, and the function that does it once."""


class Both:
    """A client's and a server's end of one connection, in one process, without anything between them."""

    def __init__(self) -> None:
        key = Key(secrets.token_hex(32))
        codec = Codec(Keyring([key]))
        client, server = (Party(secrets.token_hex(16), secrets.randbits(32), key) for _ in range(2))
        self._asking = Session(codec, client, server, asks=True, binding=_NONCE, abilities=ARRAYS)
        self._answering = Session(codec, server, client, asks=False, binding=_NONCE, abilities=ARRAYS)
        self._count = itertools.count(1)

    def request(self) -> list[Any]:
        """Frames of a request."""
        return self._asking.seal(add_request(), time.time_ns() // 1_000_000, next(self._count))

    def open(self, frames: list[Any]) -> Message:
        """A request, verified and decoded."""
        self._answering.last = -1  # it is opened again and again
        message = self._answering.open(frames)
        message.decode()
        return message

    def reply(self, message: Message) -> list[Any]:
        """Frames of the reply to a request."""
        now = time.time_ns() // 1_000_000
        return self._answering.seal(ps_message("return", 3), now, next(self._count), answers=message)

    def result(self, frames: list[Any]) -> Any:
        """What a reply says."""
        return self._asking.open(frames).decode()


def _stages(both: Both, proxy: Proxy) -> Iterator[Stage]:
    """In the order of a call."""
    content, answer = add_request(), ps_message("return", 3)
    frames = both.request()
    message = both.open(frames)
    reply = both.reply(message)
    if both.result(reply)[2] != 3 or proxy.add(1, 2) != 3:
        raise WrongResult("the answer is not 3")
    ends, data = socket.socketpair(), b"".join(frames)
    streams, never = [LinkStream(end) for end in socket.socketpair()], threading.Event()

    def cross() -> None:
        ends[0].sendall(data)
        ends[1].recv(1 << 16)

    def carry() -> None:
        streams[0].send(frames, math.inf)
        streams[1].receive(math.inf, never)

    packed, unpacked = pickle.dumps(content), pickle.dumps(answer)
    yield "client", "content to bytes (pickle)", lambda: pickle.dumps(content)
    yield "client", "content to bytes, id, sign", both.request
    yield "kernel", "send and receive once, no change of process", cross
    yield "both", "the same with frames, twice in a call", carry
    yield "server", "bytes to content (pickle)", lambda: pickle.loads(packed)
    yield "server", "verify, bytes to content", lambda: both.open(frames)
    yield "server", "role, lock, lane, method: a call within the process", lambda: proxy.add(1, 2)
    yield "server", "result to bytes (pickle)", lambda: pickle.dumps(answer)
    yield "server", "result to bytes, id, sign", lambda: both.reply(message)
    yield "client", "bytes to result (pickle)", lambda: pickle.loads(unpacked)
    yield "client", "verify, bytes to result", lambda: both.result(reply)
    yield from _compiled(packed, unpacked)
    for end in ends:
        end.close()
    for stream in streams:
        stream.close()


def _compiled(request: bytes, reply: bytes) -> Iterator[Stage]:
    """The lane in C does in one stage what takes five in Python."""
    if LANE is None:
        return
    key = Key(secrets.token_hex(32))
    client, server = (b"PZC01+client++3+", b"client/nonce", 1), (b"PZC01+server++", b"server/nonce", 2)
    one, other = socket.socketpair()
    same = key.hmac_key, key.key_id.encode(), b"pickle"
    count = itertools.count(1).__next__
    with one, other:
        asks = LANE(one.fileno(), True, *same, client, server, count)
        answers = LANE(other.fileno(), False, *same, server, client, count)

    def both_ways() -> None:
        asks.post((request,), 5.0)
        for _, msgid, _, _ in answers.take(5.0) or ():
            answers.post(((reply, msgid),), 5.0)
        asks.take(5.0)

    yield "both", "compiled: sign, send, receive and verify, twice in a call", both_ways
    asks.close()
    answers.close()


INSIDE = ("content to bytes (", "result to bytes (", "bytes to content (", "bytes to result (")
"""Stages that are a part of the one behind them, and not added up."""


def _time(function: Callable[[], object]) -> float:
    """Microseconds of processor time of one call, without the loop around it; the best of the repeats."""
    return max(0.0, _loop(function) - _loop(_empty))


def _empty() -> None:
    pass


def _loop(function: Callable[[], object]) -> float:
    taken: list[float] = []
    with quiet():
        for _ in range(REPEATS):
            began = time.thread_time_ns()  # of this thread alone: what else runs on the core does not count
            for _ in repeat(None, CALLS):
                function()
            taken.append((time.thread_time_ns() - began) / CALLS / 1e3)
    return min(taken)


def main() -> None:
    """The child: times every stage and tells them."""
    parent = Parent()
    try:
        with Server(Bench()) as server:
            proxy = Proxy(server.rep_endpoint)
            stages = [[side, what, _time(function)] for side, what, function in _stages(Both(), proxy)]
            parent.tell(stages=stages)
            close(proxy)
    except Exception as exc:
        parent.fail(exc)


def measure(effort: Effort, rounds: int) -> str:
    """The table of stages, the floor, the whole call, and what none of them explains.

    Raises:
        ChildFailure: when a part could not be measured.
    """
    core = core_to_pin()
    case = next(case for case in CASES if case.key == "add-unix")
    contenders = {name: case.contenders[name] for name in ("ours", "floor")}
    outcome = run_case(dataclasses.replace(case, contenders=contenders, bars=()), effort, rounds, core)
    for reason in outcome.failures.values():
        raise ChildFailure(reason)
    with Child("call_stages", environment=environment(secrets.token_hex(32), {}), core=core) as child:
        stages: list[tuple[str, str, float]] = child.receive(START_TIMEOUT + ROUND_TIMEOUT)["stages"]
    rows = [[side, f"of which {what}" if _inside(what) else what, f"{us:.2f}"] for side, what, us in stages]
    added = sum(us for side, what, us in stages if side in ("client", "server") and not _inside(what))
    floor, whole = outcome.values["floor"], outcome.values["ours"]
    rest = statistics.median(whole) - statistics.median(floor) - added
    rows += [
        ["both", "sum of the stages of client and server", f"{added:.2f}"],
        ["kernel", "floor: as many bytes to and fro between two processes", spread(floor, "us")],
        ["both", "the whole call, measured", spread(whole, "us")],
        ["both", "the rest: framing, locks, waiting, threads", f"{rest:.2f}"],
    ]
    return table(("side", "stage", "µs"), rows)


def _inside(what: str) -> bool:
    return what.startswith(INSIDE)


if __name__ == "__main__":
    main()
