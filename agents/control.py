"""Control: requests that are answered at once, in the I/O thread, whatever the lane is doing.

::

    content                  answer                              without the receiver's id
    'info'                   both endpoints                      allowed
    'ping'                   'pong'                              allowed
    'stop'                   'stopping', then the agent stops    refused
    {"pzc": "hello", ...}    who this agent is, and its time     allowed
    {"pzc": "placed", ...}   once the PUB socket holds the mark  refused
    {"pzc": "statistics"}    what this agent saw                 refused
    {"pzc": word, ...}       by whoever added the word           refused
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..protocol.frames import PZC01
from ..protocol.keyring import Role
from . import messages
from .loop import Loop
from .publisher import Publisher
from .responder import Request, Responder
from .wire import now_ms

Word = Callable[[Request, dict[str, Any]], None]

PLACED_TIMEOUT = 2.0
"""Seconds that a publisher waits for a subscriber's filter before it answers 'not yet'."""

STOP_DELAY = 0.1
"""Seconds between the answer to a 'stop' request and the stop, as the original's."""


class Control:
    """Answers control requests of one agent. I/O thread only.

    Args:
        loop: for timers.
        responder: sends the answers.
        publisher: whose marks are waited for.
        describe: what the handshake tells.
        authorize: raises RoleRefused when a request's key may not do what needs the role.
        stop: called `STOP_DELAY` seconds after a 'stop' request.
    """

    def __init__(
        self,
        loop: Loop,
        responder: Responder,
        publisher: Publisher,
        describe: Callable[[], dict[str, Any]],
        authorize: Callable[[Request, Role], None],
        stop: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._responder = responder
        self._publisher = publisher
        self._describe = describe
        self._authorize = authorize
        self._stop = stop
        self._unplaced: list[tuple[Request, str, str]] = []
        self.words: dict[str, Word] = {"placed": self._placed}

    def answer(self, request: Request, content: Any) -> bool:
        """Answer a control request; False for any other content.

        Raises:
            RoleRefused: when the key may not stop this agent.
        """
        word = messages.control(content) if request.envelope.dialect == PZC01 else None
        if word == "hello":
            self._hello(request, content)
        elif messages.is_word(content, "info"):
            endpoints = {"rep_endpoint": self._responder.endpoint, "pub_endpoint": self._publisher.endpoint}
            self._responder.reply(request, endpoints)
        elif messages.is_word(content, "ping"):
            self._responder.reply(request, "pong")
        elif messages.is_word(content, "stop") and not request.handshake:
            self._authorize(request, Role.ADMIN)
            self._responder.reply(request, "stopping")
            self._loop.call_later(STOP_DELAY, self._stop)
        elif word in self.words and not request.handshake:
            self.words[word](request, content)
        else:
            return False
        return True

    def _hello(self, request: Request, content: dict[str, Any]) -> None:
        nonces, stamp = self._responder.nonces, request.envelope.stamp
        if stamp is not None:
            nonces.take(content.get("answer"), request.envelope.sender, stamp.ms)
        challenge = str(content.get("challenge", ""))[:64]
        answer = {"pzc": "hello", "challenge": challenge, "nonce": nonces.give(), "time_ms": now_ms()}
        self._responder.reply(request, {**self._describe(), **answer})

    def _placed(self, request: Request, content: dict[str, Any]) -> None:
        entry = (request, str(content.get("mark")), str(content.get("topic")))
        self._unplaced.append(entry)
        self.on_filters()
        if entry in self._unplaced:
            self._loop.call_later(PLACED_TIMEOUT, partial(self._give_up, entry))

    def _give_up(self, entry: tuple[Request, str, str]) -> None:
        if entry in self._unplaced:
            self._unplaced.remove(entry)
            self._responder.reply(entry[0], {"pzc": "placed", "placed": False})

    def on_filters(self) -> None:
        """Answer whoever waits for a mark that has arrived."""
        for entry in [e for e in self._unplaced if self._publisher.has_mark(e[1])]:
            self._unplaced.remove(entry)
            answer = {"epoch": self._describe()["epoch"], "last": self._publisher.last_at(entry[1])}
            self._responder.reply(entry[0], {"pzc": "placed", "placed": True, **answer})
