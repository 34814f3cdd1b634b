"""Clients that call, stream, lock, wait for futures and batch while their server dies at random moments."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from pzc import CallTimeout, PeerLost, Protocol, Proxy, PzcError, Refused, batch, close, lock

from tests.contract.rigs.calling import KEY, TIMEOUT
from tests.contract.rigs.faults import Metronome, Mortal

CALL_TIMEOUT = 1.0
"""Seconds, of every call."""

OVERRUN = 0.3
"""Seconds by which a call may end after its timeout."""

LATE_MACHINE = 0.7
"""Most seconds more on a busy machine: as many as a thread that only waits was late meanwhile."""

RECOVERED = 3.0
"""Seconds after which the same proxy works again, from the moment on when its server does."""

FAULTS = ("kill", "restart", "freeze", "freeze and kill")
TRANSPORTS = ("auto", "unix", "tcp")
EXPECTED = (CallTimeout, PeerLost, Refused)

T = TypeVar("T")


@dataclass
class Moment:
    """What happens to a server; times in seconds.

    Attributes:
        back: monotonic time at which the server was back.
        over: set soon after that.
    """

    number: int
    fault: str
    transport: str
    after: float
    frozen: float
    away: float
    back: float = field(default=0.0, repr=False)
    over: threading.Event = field(default_factory=threading.Event, repr=False)

    @classmethod
    def draw(cls, number: int, dice: Random) -> Moment:
        fault, transport = dice.choice(FAULTS), dice.choice(TRANSPORTS)
        after, frozen, away = (round(dice.uniform(0, most), 3) for most in (0.3, 1.4, 0.2))
        return cls(number, fault, transport, after, frozen, away)

    def strike(self, server: Mortal) -> None:
        """Let it happen."""
        pause = threading.Event().wait
        try:
            pause(self.after)
            if self.fault.startswith("freeze"):
                server.freeze()
                pause(self.frozen)
            if self.fault == "freeze":
                server.thaw()
            else:
                server.end(signal.SIGINT if self.fault == "restart" else signal.SIGKILL)
                pause(self.away)
                server.start()
            self.back = time.monotonic()
            pause(0.05)
        finally:
            self.over.set()


@dataclass
class Findings:
    """What all clients of a test saw; safe from any thread."""

    metronome: Metronome
    wrong: list[str] = field(default_factory=list)
    overruns: list[tuple[float, str]] = field(default_factory=list)
    recoveries: list[tuple[float, str]] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    def ended(self, what: str, begin: float, limit: float) -> None:
        end = time.monotonic()
        over = end - begin - limit
        self.overruns.append((over, what))
        if over > OVERRUN and over > OVERRUN + min(LATE_MACHINE, self.metronome.late(begin, end)):
            self.wrong.append(f"{what} ended {over:.2f} s after its timeout")


class Client:
    """One proxy in one thread."""

    numbers = itertools.count(1)

    def __init__(self, endpoint: str, transport: str, kind: str, findings: Findings, seed: str) -> None:
        self.kind, self.name = kind, f"{kind} over {transport}"
        self._findings = findings
        self._dice = Random(f"{seed} {self.name}")
        self._act: Callable[[], object] = getattr(self, f"_{kind}")
        self._worked: list[float] = []
        self._about = ""
        self.proxy = Proxy(endpoint, transport=transport, timeout=CALL_TIMEOUT, protocol=Protocol(KEY))

    def close(self) -> None:
        close(self.proxy)

    def live(self, moment: Moment, about: str) -> None:
        """Be active until the moment is over, then note when the proxy worked again."""
        self._about = f"{self.name}, {about}"
        self._worked.clear()
        while not moment.over.wait(0.002):
            self._act()
        begin = time.monotonic()
        while time.monotonic() < max(begin, moment.back + RECOVERED):
            if self._mark() is not None:
                break
        since = next((at - moment.back for at in self._worked if at > moment.back), RECOVERED + 1.0)
        self._findings.recoveries.append((since, self._about))
        if since > RECOVERED:
            self._wrong(f"the proxy did not work within {RECOVERED} s after the server was back")

    def _wrong(self, what: str) -> None:
        self._findings.wrong.append(f"{what} ({self._about})")

    def _ask(self, what: str, function: Callable[[], T], limit: float = CALL_TIMEOUT) -> T | None:
        """Result of one call, or None when it failed in a way that it may."""
        begin = time.monotonic()
        try:
            result = function()
        except EXPECTED as exc:
            self._findings.outcomes.append(type(exc).__name__)
            return None
        except Exception as exc:
            kind = "an untyped error" if not isinstance(exc, PzcError) else "another error than expected"
            self._wrong(f"{what} ended with {kind}: {exc!r:.300}")
            return None
        finally:
            self._findings.ended(f"{what} ({self._about})", begin, limit)
        self._findings.outcomes.append("result")
        self._worked.append(time.monotonic())
        return result

    def _answer(self, number: int, result: object) -> None:
        if result is None:
            return
        if result != number:
            self._wrong(f"call {number} was answered with {result!r:.100}")
        self._findings.answered.append(number)

    def _member(self, name: str) -> Any:
        return self._ask("looking up a member", lambda: getattr(self.proxy, name))

    def _mark(self, seconds: float = 0.0) -> int | None:
        number, mark = next(self.numbers), self._member("mark")
        if mark is None:
            return None
        result = self._ask("a call", lambda: mark(number, seconds))
        self._answer(number, result)
        return result

    def _calls(self) -> None:
        self._mark(self._dice.choice((0.0, 0.0, 0.0, 0.01, 0.1)))

    def _streams(self) -> None:
        count, items = self._member("count"), self._dice.choice((3, 100))
        stream = count and self._ask("a generator call", lambda: count(next(self.numbers), items))
        if stream is None:
            return
        with stream:
            for expected in range(items):
                item = self._ask("an item", lambda: next(stream))
                if item is None:
                    return
                if item != expected:
                    self._wrong(f"item {expected} was {item!r:.100}")

    def _locks(self) -> None:
        wait = self._dice.choice((0.0, 0.1))
        held = self._ask("taking the lock", lambda: lock(self.proxy, wait=wait), CALL_TIMEOUT + wait)
        if held is None:
            return
        self._mark()
        self._ask("returning the lock", held.release)
        threading.Event().wait(0.02)  # let the others work, too

    def _futures(self) -> None:
        mark, later = self._member("mark"), self._member("later")
        if mark is None or later is None:
            return
        begun: list[tuple[int, float, Future[Any]]] = []
        for _ in range(10):
            number, begin = next(self.numbers), time.monotonic()
            future: Any = self._ask("a future", lambda n=number: mark.future(n, 0.002))
            if future is not None:
                begun.append((number, begin, future))
        for number, begin, future in begun:
            left = CALL_TIMEOUT - (time.monotonic() - begin)
            self._answer(number, self._ask("a future's result", lambda f=future: f.result(TIMEOUT), left))
        number = next(self.numbers)
        promised: Any = self._ask("a call that goes on", lambda: later(number, 0.05))
        if promised is not None:
            # Nobody waits for an answer to it: what is waited for is a sign of life of the server.
            limit = max(CALL_TIMEOUT, 2.0)
            self._answer(number, self._ask("its result", lambda: promised.result(TIMEOUT), limit))

    def _batches(self) -> None:
        numbers = [next(self.numbers) for _ in range(5)]

        def run() -> list[Any]:
            with batch(self.proxy) as recorded:
                for number in numbers:
                    recorded.mark(number)
            return recorded.results

        if self._member("mark") is not None:
            for number, result in zip(numbers, self._ask("a batch", run) or (), strict=False):
                self._answer(number, result)
        mark = self._member("mark")
        if mark is not None:
            self._ask("a one-way call", lambda: mark.oneway(next(self.numbers)))


KINDS = ("calls", "streams", "locks", "futures", "batches")


class Rig:
    """One server and its clients."""

    def __init__(self, server: Mortal, findings: Findings, seed: str) -> None:
        self._server, self._findings = server, findings
        self._seed, self._dice = seed, Random(seed)
        self._pool = ThreadPoolExecutor(len(KINDS))
        self._clients: list[tuple[str, Client]] = []

    def live(self, moments: int) -> None:
        """Go through so many moments."""
        server = self._server
        server.start()
        try:
            for transport, kind in itertools.product(TRANSPORTS, KINDS):
                client = Client(server.endpoint, transport, kind, self._findings, self._seed)
                self._clients.append((transport, client))
            for number in range(moments):
                self._go_through(Moment.draw(number, self._dice))
        finally:
            server.thaw()
            self._pool.shutdown()
            for _, client in self._clients:
                client.close()
            server.end()

    def _go_through(self, moment: Moment) -> None:
        about = f"seed {self._seed!r}, {moment}"
        clients = [client for transport, client in self._clients if transport == moment.transport]
        living = [self._pool.submit(client.live, moment, about) for client in clients]
        moment.strike(self._server)
        for each in living:
            each.result(TIMEOUT)
