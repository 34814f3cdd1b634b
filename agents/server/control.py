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
    {"pzc": "running"}       what runs and waits                 refused
    {"pzc": "pipeline"}      the same; its connection reads   refused
                             on while its calls run
    {"pzc": "cancel", ...}   whether a call was still there      refused
    {"pzc": word, ...}       by whoever added the word           refused
    a link message           by whoever added the word ``link``  refused
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from ...protocol.contents import as_text, control, is_word
from ...protocol.errors import Refused, RemoteProtocolError
from ...protocol.keyring import Role
from ...protocol.link_messages import LinkMessage
from ...protocol.memo import keep_recent
from ...transport.loop import Loop
from ...transport.wire import now_ms
from ..notifications.publisher import Publisher
from .call import Call, Calls
from .replies import Replies, authorize
from .reply_cache import ReplyCache
from .unix_listener import UnixConnection

_INFO = "rep_endpoint", "pub_endpoint", "stream_endpoint", "stream_name", "name", "lane", "lock"

_MARKS = 2000
"""Subscriptions to what one agent broadcasts that wait for their mark."""

_NONCES = 4096
"""Measurements of clocks that peers may have begun."""

_CLOCKS = 16_384
"""Clocks of peers that are remembered."""


class Nonces:
    """Nonces that were given to peers, each good for one measurement of its clock. I/O thread only.

    The holder of another key cannot answer for a peer.
    """

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._offsets: OrderedDict[tuple[str, str], int] = OrderedDict()

    def give(self, key_id: str) -> str:
        """A new nonce, for a peer that signs with that key."""
        nonce = secrets.token_hex(8)
        keep_recent(self._given, (key_id, nonce), now_ms(), _NONCES)
        return nonce

    def take(self, nonce: object, key_id: str, sender: str, sent_ms: int) -> None:
        """A peer echoed a nonce in a message it stamped ``sent_ms``: remember its clock offset."""
        given = self._given.pop((key_id, nonce), None) if isinstance(nonce, str) else None
        now = now_ms()
        if given is not None and now - given <= 10_000:
            keep_recent(self._offsets, (key_id, sender), sent_ms - (given + now) // 2, _CLOCKS)

    @property
    def measured(self) -> bool:
        """True when any clock was measured."""
        return bool(self._offsets)

    def offset_of(self, key_id: str, sender: str) -> int:
        """Sender's clock minus ours in milliseconds, 0 when it was never measured."""
        return self._offsets.get((key_id, sender), 0)


logger = logging.getLogger("pzc.control")

Word = Callable[[Call, Any], object]

PLACED_TIMEOUT = 2.0
"""Seconds that a publisher waits for a subscriber's filter before it answers 'not yet'."""

STOP_DELAY = 0.1
"""Seconds between the answer to a 'stop' request and the stop."""


class Control:
    """Answers control requests of one agent; any thread.

    Args:
        loop: for timers, and for what only the I/O thread may touch.
        nonces: of the handshake.
        replies: sends the answers.
        calls: that run or wait.
        cache: results that are kept.
        publisher: whose marks are waited for.
        describe: what the handshake tells.
        stop: called `STOP_DELAY` seconds after a 'stop' request.

    Attributes:
        words: what answers a control word; others add theirs.
    """

    def __init__(
        self,
        loop: Loop,
        nonces: Nonces,
        replies: Replies,
        calls: Calls,
        cache: ReplyCache,
        publisher: Publisher,
        describe: Callable[[], dict[str, Any]],
        stop: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._nonces = nonces
        self._replies = replies
        self._calls = calls
        self._cache = cache
        self._publisher = publisher
        self._describe = replies.pizco.describe = describe
        self._stop = stop
        self._unplaced: dict[Call, tuple[str, str]] = {}
        self.words: dict[str, Word] = {
            "placed": self._on_placed,
            "future": self._future,
            "cancel": self._cancel,
            "running": self._running,
            "pipeline": self._pipeline,
        }

    def answer(self, request: Call, content: Any) -> bool:
        """Answer a control request; False for any other content.

        Raises:
            RoleRefused: when the key may not stop this agent.
        """
        word = _word(content) if request.caller.native else None
        if word == "hello":
            self._loop.call(partial(self._hello, request, content))
        elif word in self.words and not request.handshake:
            self.words[word](request, content)
        elif is_word(content, "info"):
            about = self._describe()
            self._replies.reply(request, {key: about[key] for key in _INFO})
        elif is_word(content, "ping"):
            self._replies.reply(request, "pong")
        elif is_word(content, "stop") and not request.handshake:
            authorize(request.caller.key, Role.ADMIN)
            self._replies.reply(request, "stopping")
            self._loop.call_later(STOP_DELAY, self._stop)
        else:
            return False
        return True

    def _future(self, request: Call, content: dict[str, Any]) -> None:
        call_id = as_text(content.get("id"))
        running = self._calls.find(call_id, request.caller.key_id) is not None
        reply = partial(self._replies.reply, request)
        self._cache.ask(call_id, request.caller, running, reply)

    def _running(self, request: Call, content: dict[str, Any]) -> None:
        self._replies.reply(request, {"pzc": "running", "running": self._calls.running()})

    def _pipeline(self, request: Call, content: dict[str, Any]) -> None:
        connection = request.caller.carrier
        if not isinstance(connection, UnixConnection):
            raise Refused("only a Unix connection can be told to read on")
        connection.go_on()
        self._replies.reply(request, {"pzc": "pipeline"})

    def _cancel(self, request: Call, content: dict[str, Any]) -> None:
        caller = request.caller
        if content.get("everybody") is True:
            authorize(caller.key, Role.ADMIN)
            theirs = self._calls.all()
        elif content.get("mine") is True:
            theirs = [call for call in self._calls.all() if call.caller.identity == caller.identity]
        elif content.get("key") is True:
            theirs = [call for call in self._calls.all() if call.caller.key_id == caller.key_id]
        else:
            self._cancel_one(request, as_text(content.get("id")))
            return
        states = [self._calls.cancel(call) for call in theirs]
        told = {"pzc": "cancel", "removed": states.count("removed"), "told": states.count("told")}
        logger.info("agent %s cancelled %d calls", caller.identity.shown, len(states))
        self._replies.reply(request, told)

    def _cancel_one(self, request: Call, call_id: str) -> None:
        caller = request.caller
        call = self._calls.find(call_id, caller.key_id) or self._calls.find_any(call_id)
        if call is None:
            state = "unknown"
        else:
            if call.caller.key_id != caller.key_id:
                authorize(caller.key, Role.ADMIN)
            state = self._calls.cancel(call)
            logger.info("call %s was cancelled by agent %s: %s", call.id, caller.identity.shown, state)
        self._replies.reply(request, {"pzc": "cancel", "state": state})

    def _hello(self, request: Call, content: dict[str, Any]) -> None:
        caller, stamp = request.caller, request.message.stamp
        if stamp is None:
            raise RemoteProtocolError("a handshake says when it was made")
        self._nonces.take(content.get("answer"), caller.key_id, caller.agent, stamp.ms)
        challenge = as_text(content.get("challenge", ""))[:64]
        nonce = self._nonces.give(caller.key_id)
        answer = {"pzc": "hello", "challenge": challenge, "nonce": nonce, "time_ms": now_ms()}
        self._replies.reply(request, {**self._describe(), **answer})

    def _on_placed(self, request: Call, content: dict[str, Any]) -> None:
        self._publisher.check_broadcast(as_text(content.get("topic")))
        self._loop.call(partial(self._placed, request, content))

    def _placed(self, request: Call, content: dict[str, Any]) -> None:
        mark, topic = as_text(content.get("mark")), as_text(content.get("topic"))
        if self._publisher.has_mark(mark):
            self._tell_placed(request, mark, topic)
            return
        if len(self._unplaced) >= _MARKS:
            self._give_up(next(iter(self._unplaced)))
        self._unplaced[request] = mark, topic
        self._loop.call_later(PLACED_TIMEOUT, partial(self._give_up, request))

    def _give_up(self, request: Call) -> None:
        if self._unplaced.pop(request, None) is not None:
            self._replies.reply(request, {"pzc": "placed", "placed": False})

    def on_filters(self) -> None:
        """Answer whoever waits for a mark that has arrived."""
        arrived = [each for each in self._unplaced.items() if self._publisher.has_mark(each[1][0])]
        for request, (mark, topic) in arrived:
            del self._unplaced[request]
            self._tell_placed(request, mark, topic)

    def _tell_placed(self, request: Call, mark: str, topic: str) -> None:
        answer = {
            "epoch": self._describe()["epoch"], "last": self._publisher.last_at(mark),
            "types": self._publisher.types_of(topic),
        }  # fmt: skip
        self._replies.reply(request, {"pzc": "placed", "placed": True, **answer})


def _word(content: object) -> str | None:
    return "link" if isinstance(content, LinkMessage) else control(content)
