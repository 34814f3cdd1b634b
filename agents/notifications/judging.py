"""Judging: a publisher that says only later what its messages are is judged then, for open subscriptions.

A question waits at the publisher until what it says of the topic differs from what the reader knows. So both
sides are told as soon as a type is said, whichever way the messages come::

    state      event                                next
    asked      no answer, or nothing new            asked again
    asked      the type that is wanted, or none     asked again, from then on knowing that
    asked      another type                         the subscription ends, `Subscription.refusal` says why
    any        the publisher is elsewhere           asked there the next time
    any        another agent answers in its place   that one is asked the next time
    any        the subscription was closed          over
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ...protocol import limits
from ...protocol.errors import AgentClosed, PzcError, TypeMismatch
from ...protocol.frames import PZC01
from ...protocol.peer import Peer
from ...protocol.reply import Reply
from ...transport.loop import Loop
from ..interfaces import Finder
from . import typed
from .subscription import Subscription

PATIENCE = 8.0
"""Seconds for an answer; a publisher keeps the question for `announcing.HELD` of them."""


class Judging:
    """Watches the type of one subscription's topic, until that is closed.

    Args:
        subscription: wants a type.
        peer: its publisher.
        loop: keeps the time.
        finder: knows and asks the publisher.
        help: runs something that may wait, in a thread of the agent.
    """

    def __init__(
        self,
        subscription: Subscription,
        peer: Peer,
        loop: Loop,
        finder: Finder,
        help: Callable[[Callable[[], object]], object],
    ) -> None:
        self._subscription = weakref.ref(subscription)
        self._peer = peer
        self._loop = loop
        self._finder = finder
        self._help = help
        self._known = ""
        if peer.dialect == PZC01:
            loop.call(self._question)

    def move(self, endpoint: str) -> None:
        """The publisher is at another endpoint, perhaps as another agent."""
        self._peer = replace(self._peer, endpoint=endpoint)

    def _question(self) -> None:
        subscription = self._subscription()
        if subscription is None or subscription.closed:
            return
        question = typed.question(subscription.topic, subscription.type, self._known)
        begun = time.monotonic()
        try:
            answer = self._finder.exchange_later(self._peer, question, PATIENCE)
        except AgentClosed:
            return
        except PzcError:
            self._loop.call_later(limits.current.type_pause, self._question)
        else:
            answer.add_done_callback(partial(self._on_answer, begun))

    def _look(self) -> None:
        """Who is there by now; in a thread that may wait."""
        with suppress(PzcError):
            self._peer = self._finder.peer(self._peer.endpoint, PATIENCE)

    def _on_answer(self, begun: float, answer: Future[Reply]) -> None:
        subscription = self._subscription()
        if subscription is None or subscription.closed or answer.cancelled():
            return
        error = answer.exception()
        if isinstance(error, AgentClosed):
            return
        if error is None:
            content, answered_by = answer.result().content, answer.result().sender
            if answered_by != self._peer.agent_id:
                self._help(self._look)
            try:
                typed.check(self._peer.endpoint, subscription.topic, subscription.type, content)
            except TypeMismatch as exc:
                self._help(partial(typed.end, subscription, exc))
                return
            self._known = typed.said(content)
        pause = max(0.0, begun + limits.current.type_pause - time.monotonic())
        self._loop.call_later(pause, self._question)
