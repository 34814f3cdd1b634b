"""Where the microseconds of one same-host ``add(1, 2)`` go: each stage alone, and the floor below it.

The stages are functions of the package, called again and again in one process; the whole call and the
floor (as many bytes to and fro over a raw Unix socket) are measured between two processes. All of it is
pinned to one core, where no two parts can overlap, so that a sum means something.
"""

from __future__ import annotations

import dataclasses
import secrets
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from pzc import Protocol, Proxy, Server, close
from pzc.agents.messages import ps_message
from pzc.protocol import serializers
from pzc.protocol.frames import Kind
from pzc.protocol.window import ReplayWindow

from benchmarks.call_cases import CASES, Effort
from benchmarks.children import START_TIMEOUT, Child, ChildFailure, Parent, core_to_pin
from benchmarks.jobs import WrongResult, quiet
from benchmarks.rounds import ROUND_TIMEOUT, environment, run_case
from benchmarks.sample import Bench, add_request
from benchmarks.tables import spread, table

REPEATS = 7
CALLS = 2000

Stage = tuple[str, str, Callable[[], object]]
"""Side, what it does, and the function that does it once."""


class Both:
    """A client's and a server's part of one call, in one process, without anything between them."""

    def __init__(self) -> None:
        self.protocol = Protocol()
        self.client, self.server = secrets.token_hex(16), secrets.token_hex(16)
        self.window = ReplayWindow()

    def request(self) -> list[Any]:
        """Frames of a request."""
        return self.protocol.encode(self.client, "", add_request(), receiver=self.server)

    def reply(self, msgid: str) -> list[Any]:
        """Frames of the reply to a request."""
        answer = ps_message("return", 3)
        return self.protocol.encode(self.server, "", answer, reply_to=msgid, receiver=self.client)

    def requests(self) -> Iterator[list[bytes]]:
        """Requests that were made beforehand: one can be opened once."""
        made = [[bytes(frame) for frame in self.request()] for _ in range(CALLS * REPEATS + 1)]
        return iter(made)

    def open_request(self, frames: list[bytes]) -> Any:
        """Verify a request as a server does."""
        return self.protocol.open(frames, Kind.REQUEST, receiver=self.server, window=self.window)


def _stages(both: Both, server: Server, proxy: Proxy) -> Iterator[Stage]:
    """In the order of a call."""
    protocol, content, answer = both.protocol, add_request(), ps_message("return", 3)
    name = protocol.codec.serializer
    frames = [bytes(frame) for frame in both.request()]
    opened = both.open_request(frames)
    reply = [bytes(frame) for frame in both.reply(opened.msgid)]

    def open_reply() -> Any:
        return protocol.open(reply, Kind.REPLY, receiver=both.client, judge_time=False)

    opened_reply, made = open_reply(), both.requests()
    if server.on_request(both.client, "", content, opened.msgid)[2] != 3:
        raise WrongResult("the server did not answer 3")
    ends, data = socket.socketpair(), b"".join(frames)

    def cross() -> None:
        ends[0].sendall(data)
        ends[1].recv(1 << 16)

    yield "client", "find the method `proxy.add`", lambda: proxy.add
    yield "client", f"content to bytes ({name})", lambda: serializers.encode(name, content)
    yield "client", "content to bytes, id, header, sign", both.request
    yield "kernel", "send and receive once, no change of process", cross
    yield "server", "verify: sizes, signature, time, replay", lambda: both.open_request(next(made))
    yield "server", f"bytes to content ({name})", lambda: protocol.content(opened)
    yield "server", "find and call `add`", lambda: server.on_request(both.client, "", content, opened.msgid)
    yield "server", f"result to bytes ({name})", lambda: serializers.encode(name, answer)
    yield "server", "result to bytes, id, header, sign", lambda: both.reply(opened.msgid)
    yield "client", "verify: sizes, signature, addressee", open_reply
    yield "client", f"bytes to result ({name})", lambda: protocol.content(opened_reply)
    for end in ends:
        end.close()


INSIDE = ("content to bytes (", "result to bytes (")
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
            both = Both()
            parent.tell(
                stages=[
                    [side, what, _time(function)] for side, what, function in _stages(both, server, proxy)
                ]
            )
            close(proxy)
    except Exception as exc:
        parent.tell(error=f"{type(exc).__name__}: {exc}")


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
    added = sum(us for side, what, us in stages if side != "kernel" and not _inside(what))
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
