"""Control: requests that are answered at once, whatever the lane is doing, in the thread that got them.

::

    content                  answer                              without the receiver's id
    'info'                   both endpoints, lock, fast lane     allowed
    'ping'                   'pong'                              allowed
    'stop'                   'stopping', then the agent stops    refused
    {"pzc": "hello", ...}    who this agent is, and its time     allowed
    {"pzc": "placed", ...}   once the PUB socket holds the mark  refused
    {"pzc": "statistics"}    what this agent saw                 refused
    {"pzc": "future", ...}   what a call was answered            refused
    {"pzc": "cancel", ...}   whether a call was still there      refused
    {"pzc": "calls", ...}    by `bundled`, more than once      refused
    {"pzc": word, ...}       by whoever added the word           refused
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ...protocol.frames import PZC01
from ...protocol.keyring import Role
from .. import messages
from ..messages import as_text
from ..notifying.publisher import Publisher
from ..sockets import endpoints
from ..sockets.loop import Loop
from ..wire import now_ms
from .calls import Calls
from .execution import authorize
from .replies import Replies, Request
from .responder import Responder
from .results import Results

logger = logging.getLogger("pzc.control")

Word = Callable[[Request, dict[str, Any]], object]

PLACED_TIMEOUT = 2.0
"""Seconds that a publisher waits for a subscriber's filter before it answers 'not yet'."""

STOP_DELAY = 0.1
"""Seconds between the answer to a 'stop' request and the stop, as the original's."""


class Control:
    """Answers control requests of one agent; any thread.

    Args:
        loop: for timers, and for what only the I/O thread may touch.
        responder: keeps the nonces of the handshake.
        replies: sends the answers.
        calls: that run or wait.
        results: that are kept.
        publisher: whose marks are waited for.
        describe: what the handshake tells.
        stop: called `STOP_DELAY` seconds after a 'stop' request.
    """

    def __init__(
        self,
        loop: Loop,
        responder: Responder,
        replies: Replies,
        calls: Calls,
        results: Results,
        publisher: Publisher,
        describe: Callable[[], dict[str, Any]],
        stop: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._responder = responder
        self._replies = replies
        self._calls = calls
        self._results = results
        self._publisher = publisher
        self._describe = describe
        self._stop = stop
        self._unplaced: list[tuple[Request, str, str]] = []
        self.words: dict[str, Word] = {
            "placed": self._on_placed,
            "future": self._future,
            "cancel": self._cancel,
        }

    def answer(self, request: Request, content: Any) -> bool:
        """Answer a control request; False for any other content.

        Raises:
            RoleRefused: when the key may not stop this agent.
        """
        if type(content) is tuple:
            return False
        word = messages.control(content) if request.envelope.dialect == PZC01 else None
        if word == "hello":
            self._loop.call(partial(self._hello, request, content))
        elif messages.is_word(content, "info"):
            self._replies.reply(request, self._info(request))
        elif messages.is_word(content, "ping"):
            self._replies.reply(request, "pong")
        elif messages.is_word(content, "stop") and not request.handshake:
            authorize(request.envelope.signer, Role.ADMIN)
            self._replies.reply(request, "stopping")
            self._loop.call_later(STOP_DELAY, self._stop)
        elif word in self.words and not request.handshake:
            self.words[word](request, content)
        else:
            return False
        return True

    def _info(self, request: Request) -> dict[str, Any]:
        about = self._describe()
        if request.envelope.dialect == PZC01:
            return {key: about[key] for key in ("rep_endpoint", "pub_endpoint", "name", "lane", "lock")}
        pub = about["pub_endpoint"]
        if request.reached and endpoints.is_wildcard(pub):
            pub = f"tcp://{request.reached}:{endpoints.split(pub)[1]}"
        return {"rep_endpoint": self._replies.rep_endpoint, "pub_endpoint": pub}

    def _future(self, request: Request, content: dict[str, Any]) -> None:
        call_id = as_text(content.get("id"))
        running = self._calls.find(call_id, request.caller.key_id) is not None
        reply = partial(self._replies.reply, request)
        self._results.ask(call_id, request.caller, running, reply)

    def _cancel(self, request: Request, content: dict[str, Any]) -> None:
        call_id, caller = as_text(content.get("id")), request.caller
        call = self._calls.find(call_id, caller.key_id) or self._calls.find_any(call_id)
        if call is None:
            state = "unknown"
        else:
            if call.caller.key_id != caller.key_id:
                authorize(caller.key, Role.ADMIN)
            state = self._calls.cancel(call)
            logger.info("call %s was cancelled by agent %s: %s", call.id, caller.agent, state)
        self._replies.reply(request, {"pzc": "cancel", "state": state})

    def _hello(self, request: Request, content: dict[str, Any]) -> None:
        nonces, stamp = self._responder.nonces, request.envelope.stamp
        if stamp is not None:
            nonces.take(content.get("answer"), request.envelope.key_id, request.envelope.sender, stamp.ms)
        challenge = as_text(content.get("challenge", ""))[:64]
        nonce = nonces.give(request.envelope.key_id)
        answer = {"pzc": "hello", "challenge": challenge, "nonce": nonce, "time_ms": now_ms()}
        self._replies.reply(request, {**self._describe(), **answer})

    def _on_placed(self, request: Request, content: dict[str, Any]) -> None:
        self._publisher.check_broadcast(as_text(content.get("topic")))
        self._loop.call(partial(self._placed, request, content))

    def _placed(self, request: Request, content: dict[str, Any]) -> None:
        entry = (request, as_text(content.get("mark")), as_text(content.get("topic")))
        self._unplaced.append(entry)
        self.on_filters()
        if entry in self._unplaced:
            self._loop.call_later(PLACED_TIMEOUT, partial(self._give_up, entry))

    def _give_up(self, entry: tuple[Request, str, str]) -> None:
        if entry in self._unplaced:
            self._unplaced.remove(entry)
            self._replies.reply(entry[0], {"pzc": "placed", "placed": False})

    def on_filters(self) -> None:
        """Answer whoever waits for a mark that has arrived."""
        for entry in [e for e in self._unplaced if self._publisher.has_mark(e[1])]:
            self._unplaced.remove(entry)
            answer = {"epoch": self._describe()["epoch"], "last": self._publisher.last_at(entry[1])}
            self._replies.reply(entry[0], {"pzc": "placed", "placed": True, **answer})
