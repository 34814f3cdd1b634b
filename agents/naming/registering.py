"""Registering: this process and a registry, which tells processes of each other.

::

    state       event                                   next
    away        at once, later after `AGAIN` seconds    meeting
    meeting     it answers the handshake                connected: it is told the whole, and asked
    meeting     it does not, or is no registry          away
    connected   it answers                              connected: it is asked again
    connected   this process's entries change           connected: it is told the whole at once, or behind the
                                                        telling that is under way
    connected   no answer, or a refusal                 away: what is known from it is held for a while;
                                                        after that, everything is asked for anew

A question waits at the registry until there is something to tell, at most `WAIT` seconds. It travels over the
loop; only the handshake takes a helper. A registry that was restarted says so by its incarnation and is told
the whole again. With a key whose role may not register, this process asks and tells nothing of itself.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Collection
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, cast

from ...discovery.datagrams import MAX_DATAGRAM
from ...discovery.directory import NAMES_HELD
from ...protocol.contents import as_list
from ...protocol.errors import AgentClosed, PzcError, RemoteProtocolError, RoleRefused
from ...transport import helpers, wire
from ...transport.counters import Counters
from ...transport.loop import Loop, Timer
from ...transport.peer import Peer
from ..client.client import Client
from ..reply import Reply
from .connections import Connections

logger = logging.getLogger("pzc.registry")

WAIT = 0.9
"""Seconds that a question waits at the registry for news; it is also the sign of life."""

LATE = 1.0
"""Seconds more within which it must have answered."""

AGAIN = 0.25
"""Seconds from one attempt to meet to the next."""

MEET_TIMEOUT = 1.0
"""Seconds for the handshake."""


class Registrant(Protocol):
    """The `Participant` that exchanges records with a registry; in the I/O thread, without waiting."""

    process: bytes

    def beat(self, local: bool) -> list[bytes]: ...  # noqa: D102
    def whole(self, local: bool) -> list[bytes]: ...  # noqa: D102
    def heard(self, datagrams: Collection[bytes]) -> None: ...  # noqa: D102
    def lost(self, processes: Collection[bytes]) -> None: ...  # noqa: D102
    def silent(self) -> None: ...  # noqa: D102
    def back(self) -> None: ...  # noqa: D102


class Registering:
    """The relation of this process to one registry.

    Args:
        loop: does the work.
        protocol: signs and verifies.
        endpoint: REP endpoint of the registry.
        registrant: tells of this process, and learns of others.

    Attributes:
        state: see the module's docstring.
        error: why it is away.
        graph: connected topics, as the registry last told.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: wire.Protocol,
        endpoint: str,
        registrant: Registrant,
    ) -> None:
        self.endpoint = endpoint
        self.state = "away"
        self.error = ""
        self.graph = Connections()
        self._loop = loop
        self._process = registrant.process
        self._client = Client(loop, protocol, os.urandom(16).hex(), Counters())
        self._registrant = registrant
        self._peer: Peer | None = None
        self._cursor: list[Any] = ["", 0]
        self._tells = True
        self._news = True
        self._telling = False
        self._round = 0
        self._lost = math.inf
        self._meeting = threading.Lock()
        self._helpers = helpers.acquire()
        self._timer: Timer | None = None
        self._closed = False

    def start(self) -> None:
        """Begin; any thread."""
        self._loop.call(self._meet)

    def changed(self) -> None:
        """The entries of this process have changed; any thread."""
        self._loop.call(self._on_changed)

    def statistics(self) -> dict[str, str]:
        """Where the registry is, and how things are with it."""
        return {"endpoint": self.endpoint, "state": self.state, "error": self.error}

    def close(self) -> None:
        """Say goodbye and end; any thread but the I/O thread."""
        with contextlib.suppress(PzcError):  # the loop has ended
            self._loop.run(self._end)
        self._client.hang_up()
        with contextlib.suppress(PzcError), self._meeting:
            self._client.close()
        helpers.release(self._helpers)

    def _end(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._peer is not None and self._tells:
            content = {"pzc": "relay", "process": self._process.hex(), "bye": True}
            with contextlib.suppress(PzcError):
                self._client.submit_to(self._peer, content, LATE).add_done_callback(_heed)

    # --- meeting ---------------------------------------------------------------------------------------

    def _meet(self) -> None:
        self._timer = None
        if self._closed:
            return
        self.state = "meeting"
        self._helpers.submit(self._shake_hands, again=bool(self.error))

    def _shake_hands(self) -> None:
        """In a helper, because it waits."""
        with self._meeting:
            if not self._closed:
                self._meet_peer()

    def _meet_peer(self) -> None:
        try:
            self._client.forget(self.endpoint)
            peer = self._client.peer(self.endpoint, time.monotonic() + MEET_TIMEOUT)
            if not isinstance(peer.details.get("registry"), str):
                raise RemoteProtocolError(f"{self.endpoint} is an agent, but no registry: start pzc registry")
        except AgentClosed:
            return
        except Exception as exc:
            self._loop.call(partial(self._lose, exc))
            return
        self._loop.call(partial(self._met, peer))

    def _met(self, peer: Peer) -> None:
        if self._closed:
            return
        if self.error:
            logger.info("the registry at %s answers again", self.endpoint)
        self._peer, self.state, self.error = peer, "connected", ""
        if time.monotonic() >= self._lost + NAMES_HELD:
            self._cursor = ["", 0]
        elif peer.details["registry"] == self._cursor[0]:
            self._registrant.back()
        self._news, self._telling = True, False
        self._ask(WAIT)

    def _lose(self, error: Exception) -> None:
        if self._closed:
            return
        first = not self.error
        self.error = f"{type(error).__name__}: {error}"
        if first:
            logger.warning(
                "the registry at %s is away (%s); what is known lives on for a while",
                self.endpoint,
                self.error,
            )
        before = self.state
        self.state, self._peer, self._round = "away", None, self._round + 1
        if before == "connected":
            self._lost = time.monotonic()
            self._registrant.silent()
        if self._timer is None:
            self._timer = self._loop.call_later(AGAIN, self._meet)

    # --- asking ----------------------------------------------------------------------------------------

    def _on_changed(self) -> None:
        self._news = True
        self._tell_news()

    def _tell_news(self) -> None:
        """Tell the whole at once; while that is under way, what changes gathers."""
        if self._news and self._tells and not self._telling and self.state == "connected":
            self._telling = True
            self._ask(0.0)

    def _ask(self, wait: float) -> None:
        """Ask for news; the answer to a question that may wait is followed by the next one."""
        peer = self._peer
        if peer is None or self._closed:
            return
        content = {
            "pzc": "relay", "process": self._process.hex() if self._tells else "", "host": host_token(),
            "cursor": self._cursor, "edges": self.graph.snapshot()[0], "wait": wait,
            **self._told(),
        }  # fmt: skip
        try:
            answer = self._client.submit_to(peer, content, wait + LATE)
        except PzcError as exc:
            self._lose(exc)
            return
        done = partial(self._on_answer, self._round, wait > 0)
        answer.add_done_callback(lambda told: self._loop.call(partial(done, told)))

    def _told(self) -> dict[str, Any]:
        if not self._tells:
            return {}
        news, self._news = self._news, False
        local, others = map(self._registrant.whole if news else self._registrant.beat, (True, False))
        told = {"beats": {"local": local[:1], "others": others[:1]}}
        return {**told, "whole": {"local": local[1:], "others": others[1:]}} if news else told

    def _on_answer(self, asked: int, goes_on: bool, answer: Future[Reply]) -> None:
        if self._closed or asked != self._round or self._peer is None:
            _heed(answer)
            return
        error = answer.exception()
        if error is None:
            try:
                self._take(cast("dict[str, Any]", answer.result().content))
            except Exception as exc:  # what a peer says may be anything
                error = RemoteProtocolError(f"the registry's answer cannot be read: {exc}")
        if isinstance(error, RoleRefused) and self._tells:
            logger.info("this process's key may read from the registry only: %s", error)
            self._tells, error = False, None
        if error is not None:
            self._lose(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            return
        if goes_on:
            self._ask(WAIT)
        else:
            self._telling = False
        self._tell_news()

    def _take(self, told: dict[str, Any]) -> None:
        incarnation, cursor = told["cursor"]
        if self._cursor[0] not in ("", incarnation):
            self._registrant.silent()
        if incarnation != self._cursor[0] or cursor > self._cursor[1]:
            self._cursor = [str(incarnation), int(cursor)]
        if gone := [bytes.fromhex(process) for process in told["gone"]]:
            self._registrant.lost(gone)
        if datagrams := datagrams_of(told["datagrams"]):
            self._registrant.heard(datagrams)
        self._news = self._news or (self._tells and not told["known"])
        if "edges" in told:
            self.graph.replace(*told["edges"])


def _heed(answer: Future[Reply]) -> None:
    """Nobody waits for this answer any more."""
    if not answer.cancelled():
        answer.exception()


def host_token() -> str:
    """Equal for processes that reach each other by loopback: one boot of a machine, one network namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/net')}"
    except OSError:
        return f"process {os.getpid()}"


def datagrams_of(told: object) -> tuple[bytes, ...]:
    """Datagrams as another process tells them.

    Raises:
        ValueError: when they are none.
    """
    found = tuple(as_list(told))
    fit = all(isinstance(each, bytes) and len(each) <= MAX_DATAGRAM for each in found)
    if not (isinstance(told, list | tuple) and fit):
        raise ValueError("expected a list of datagrams")
    return found
