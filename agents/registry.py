"""Registry: an agent that tells processes of each other, where multicast does not reach; and the topic graph.

A process asks again and again, and the answer waits until there is something to tell::

    request                                              answer
    {"pzc": "relay", "process": hex, "host": token,      {"pzc": "relay", "cursor": [incarnation, n],
     "cursor": [incarnation, n], "edges": revision,       "datagrams": [bytes, ...], "gone": [hex, ...],
     "wait": s, "beats": views, "whole": views}           "known": bool,
                                                          "edges": [revision, [[source, target], ...]]}
    {"pzc": "relay", "process": hex, "bye": true}        {"pzc": "relay"}

Views are ``{"local": [bytes, ...], "others": [bytes, ...]}`` of the datagrams that multicast would carry:
they are verified here, handed out as they are, and verified by whoever gets them. To ask takes the role
observer, to tell of oneself operator. ``beats``, ``whole`` and the answer's ``edges`` are there when needed.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..delivery.standstill import Standstill
from ..discovery.datagrams import Reader, Refusal
from ..discovery.records import Advertise, Heartbeat
from ..discovery.registry_state import RegistryState, Views
from ..protocol.errors import PzcError, RemoteProtocolError
from ..protocol.keyring import Role
from ..transport.endpoints import RANDOM_TCP
from ..transport.loop import Timer
from ..transport.wire import Protocol
from .naming.connections import Connections
from .naming.registering import datagrams_of
from .server.call import Call
from .server.replies import authorize
from .serving import Server

logger = logging.getLogger("pzc.registry")

_QUESTIONS = 20_000
"""Questions that wait for news at a registry; others are answered at once."""

MAX_WAIT = 5.0
"""Seconds that an answer may wait for news."""

LOOK = 1.0
"""Most seconds from one look for silent processes to the next."""

GATHER = 0.02
"""Seconds in which changes gather before those who wait are told."""


@dataclass(eq=False, slots=True)
class _Question:
    """A request as read and verified; ``known``: its process is, and has not to tell its whole."""

    request: Call
    process: bytes
    host: str
    cursor: int
    current: bool
    edges: int | None
    wait: float
    beats: Views | None
    whole: Views | None
    bye: bool
    known: bool = True
    timer: Timer | None = None


class Registry(Server):
    """A server of `Connections`, which also answers the word ``relay``; see the module's docstring.

    Args:
        rep_endpoint: where processes ask; other machines reach it when it is bound to an interface of theirs.
        pub_endpoint: as `Agent`.
        name: as `Agent`.
        protocol: as `Agent`.
        state: file that keeps the connections of topics; None forgets them at the end.

    Raises:
        BindError, ConfigError: as `Agent`; also for a file that cannot be written.
    """

    def __init__(
        self,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = "",
        *,
        name: str | None = "registry",
        protocol: Protocol | None = None,
        state: str | Path | None = None,
    ) -> None:
        self.state = RegistryState()
        self.incarnation = secrets.token_hex(8)
        self.topics = Connections(state, self._status)
        self._waiting: dict[_Question, None] = {}
        self._flushing = self._ended = False
        self._looking: Timer | None = None
        self._standstill = Standstill(LOOK, time.monotonic())
        super().__init__(
            self.topics, rep_endpoint, pub_endpoint, name=name, protocol=protocol,
            expose=("connect", "disconnect", "connections", "status", "changed"),
        )  # fmt: skip

    def _prepare(self) -> None:
        super()._prepare()
        self._reader = Reader(self.protocol.codec.keyring)
        self._control.words["relay"] = self._on_relay
        self.topics.listen(partial(self.loop.call, self._soon))

    def describe(self) -> dict[str, Any]:
        """As `Agent.describe`, with what proves that this is a registry."""
        return {**super().describe(), "registry": self.incarnation}

    def statistics(self) -> dict[str, Any]:
        """As `Agent.statistics`, with what the registry knows."""
        return {**super().statistics(), "registry": self.topics.status}

    def _status(self) -> dict[str, Any]:
        return {
            "processes": len(self.state),
            "bytes": self.state.size,
            "waiting": len(self._waiting),
            "refused": dict(self._reader.refused),
        }

    def _on_relay(self, request: Call, content: dict[str, Any]) -> None:
        envelope = request.message
        tells = any(content.get(part) is not None for part in ("beats", "whole", "bye"))
        authorize(envelope.signer, Role.OPERATOR if tells else Role.OBSERVER)
        question = self._read(request, content)
        # What came in a large request is read in a thread of the lane.
        self.loop.call(partial(self._answer, question))

    def _read(self, request: Call, content: dict[str, Any]) -> _Question:
        try:
            process = bytes.fromhex(content.get("process") or "")
            incarnation, cursor = content.get("cursor") or ("", 0)
            wait = min(max(0.0, float(content.get("wait") or 0)), MAX_WAIT)
            host = str(content.get("host") or "")[:128]
            beats, whole = (
                _views(content[part]) if content.get(part) else None for part in ("beats", "whole")
            )
            current = incarnation == self.incarnation
            last = int(cursor) if current else 0
        except (TypeError, ValueError, KeyError, OverflowError) as exc:
            raise RemoteProtocolError(f"a question to the registry cannot be read: {exc}") from None
        if len(process) not in (0, 16) or (not process and (beats or whole)):
            raise RemoteProtocolError(f"a process id has 16 bytes, not {len(process)}")
        if beats and max(len(beats.local), len(beats.others)) > 1:  # they count for no bound on bytes
            raise RemoteProtocolError("a process tells one sign of life to each side")
        for views in (beats, whole):
            if views is not None:
                self._verify(process, views)
        bye, edges = content.get("bye") is True, content.get("edges")
        edges = edges if current and isinstance(edges, int) else None
        return _Question(request, process, host, last, current, edges, wait, beats, whole, bye)

    def _verify(self, process: bytes, views: Views) -> None:
        for datagram in (*views.local, *views.others):
            said = self._reader.read(datagram)
            if isinstance(said, Refusal):
                raise RemoteProtocolError(f"what the process tells is refused ({said.reason}): {said.detail}")
            if said.process != process or not isinstance(said, Heartbeat | Advertise):
                raise RemoteProtocolError("a process tells of itself and of nobody else")

    def _answer(self, question: _Question) -> None:
        request = question.request
        try:
            self._write_down(question)
        except PzcError as exc:
            self._answering.replies.refuse(request, exc)
            return
        waits = question.known and question.current and len(self._waiting) < _QUESTIONS
        if question.bye:
            self._answering.replies.reply(request, {"pzc": "relay"})
        elif not self._tell(question, if_any=bool(waits and question.wait)):
            self._waiting[question] = None
            question.timer = self.loop.call_later(question.wait, partial(self._tell, question))

    def _write_down(self, told: _Question) -> None:
        """Write down what a process told."""
        state, owner = self.state, told.request.caller.identity
        now, before = time.monotonic(), state.cursor
        if told.bye:
            state.bye(told.process, owner)
        elif told.whole is not None:
            state.whole(told.process, owner, told.host, told.beats or Views(), told.whole, now)
        elif told.beats is not None:
            told.known = state.hear(told.process, owner, told.beats, now)
        if state.cursor != before:
            self._soon()
        self._look_later()

    def _tell(self, question: _Question, if_any: bool = False) -> bool:
        """Answer a question; ``if_any``: when there is something to tell, and it is not gathering."""
        news = self.state.news(question.cursor, question.process, question.host)
        revision, connections = self.topics.snapshot()
        if if_any and not news and question.edges == revision:
            return False
        self._waiting.pop(question, None)
        if question.timer is not None:
            question.timer.cancel()
        answer: dict[str, Any] = {
            "pzc": "relay", "cursor": [self.incarnation, news.cursor], "datagrams": news.datagrams,
            "gone": [process.hex() for process in news.gone], "known": question.known,
        }  # fmt: skip
        if question.edges != revision:
            answer["edges"] = [revision, [list(pair) for pair in connections]]
        self._answering.replies.reply(question.request, answer)
        return True

    def _soon(self) -> None:
        if not self._flushing and not self._ended:
            self._flushing = True
            self.loop.call_later(GATHER, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        for question in list(self._waiting):
            self._tell(question, if_any=True)

    def _look_later(self) -> None:
        """Look for silent processes when the first of them can be."""
        if self._looking is not None or self._ended:
            return
        due = self.state.next_deadline  # looks at every process
        if due is not None:
            self._looking = self.loop.call_later(min(LOOK, max(0.0, due - time.monotonic())), self._look)

    def _look(self) -> None:
        self._looking, now = None, time.monotonic()
        self.state.excuse(self._standstill.look(now), now)
        for process in self.state.tick(now):
            logger.info("process %s is gone: it was silent", process.hex()[:8])
            self._soon()
        self._look_later()

    def _let_go(self) -> None:
        self.loop.run(self._end_waiting)
        super()._let_go()

    def _end_waiting(self) -> None:
        self._ended = True
        if self._looking is not None:
            self._looking.cancel()
        for question in list(self._waiting):
            self._tell(question)


def _views(told: Any) -> Views:
    return Views(datagrams_of(told["local"]), datagrams_of(told["others"]))
