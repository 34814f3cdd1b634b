"""Pizco client: servers and publishers that are an original Pizco's.

A server tells the result of a call that returned a future by a notification (`Completions`)::

    event                                 effect
    reply names the call                  its future is remembered, or done if the result came earlier
    notification on ``__future__``        the future is done; without one, it is kept for the reply
    publisher lost, proxy closed          every remembered future fails
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

from ...delivery.policies import Policy
from ...protocol import errors
from ...protocol.contents import as_list, as_table, is_word, shown
from ...protocol.errors import PeerLost, Refused, RemoteError, RemoteProtocolError, SignatureError
from ...protocol.exceptions import text_of
from ...protocol.frames import PZC00, topic_filter
from ...protocol.memo import keep_recent
from ...transport.peer import Peer
from ...transport.wire import Protocol
from ..notification import Notification
from ..operations import OPERATIONS
from ..reply import Reply
from .pizco import FUTURE_TOPIC, is_spoken

_SENT = frozenset({"__call__", "__getitem__", "__setitem__"})
"""Methods that an original's proxy asks for. Others may end its server: it cannot send a view of keys."""


Ask = Callable[[Peer, object, float], Reply]


class OriginalPeer(Peer):
    """An original Pizco, known by its REP endpoint."""

    native = False

    def need(self, what: str) -> None:
        """See `Peer.need`."""
        raise Refused(f"an original Pizco cannot {what}, and {self.endpoint} is one")

    def filter(self, topic: str) -> bytes:
        """See `Peer.filter`; also what begins like the topic."""
        return topic_filter(PZC00, self.agent_id, topic)


def publisher(endpoint: str) -> Peer:
    """A publisher that is a PUB socket and nothing else."""
    return OriginalPeer(endpoint, PZC00, endpoint, 0, "", endpoint, 0, {})


def is_alone(protocol: Protocol) -> bool:
    """True where peers are asked as originals from the first."""
    return protocol.codec.dialect == PZC00


def meet(protocol: Protocol, endpoint: str, proved: bool, ask: Ask, deadline: float) -> Peer:
    """The original behind an endpoint, by its answer to ``info``.

    Raises:
        VersionError: where originals are not accepted.
        SignatureError: when it cannot read the request, or a key has `proved` that a native peer is there.
        RemoteProtocolError: for any other answer.
    """
    if not is_spoken(protocol):
        raise errors.VersionError(
            f"{endpoint} answered in PZC00, which this side does not accept: PZC_ACCEPT=PZC01,PZC00 does"
        )
    if proved:
        raise SignatureError(
            f"{endpoint} has proved that it speaks PZC01 and answers in PZC00: either somebody sent an "
            "old answer, or another program took its place; in that case start this one anew"
        )
    reply = ask(OriginalPeer(endpoint, PZC00, endpoint, 0, "", "", 0, {}), "info", deadline).content
    if is_word(reply, ""):
        raise SignatureError(
            f"signature refused by {endpoint}: keys differ, or it does not accept PZC00 (empty reply)"
        )
    fields = as_table(reply)
    rep, pub = fields.get("rep_endpoint"), fields.get("pub_endpoint")
    if not isinstance(rep, str) or not isinstance(pub, str):
        raise RemoteProtocolError(f"{endpoint} did not answer 'info' as an agent: {shown(reply, 200)}")
    return OriginalPeer(endpoint, PZC00, rep, 0, "", pub, 0, fields)


def check_subscription(peer: Peer, policy: Policy, transport: str | None, initial: bool) -> None:
    """Refuse what an original publisher does not offer."""
    if initial:
        raise Refused(f"{peer.endpoint} is an original Pizco, which keeps nothing: omit initial=True")
    if not policy.lossy or transport not in (None, "auto", "tcp") or not peer.pub_endpoint:
        raise errors.PolicyRefused(
            f"{peer.endpoint} is an original Pizco, which offers broadcast notifications only: "
            "use drop(n) or latest(k)"
        )


def instead(peer: Peer, method: str) -> Callable[..., Any] | None:
    """What is done with a copy of the member instead of asking for a method; None when that is asked for.

    Raises:
        Refused: for what an original's proxy cannot say.
    """
    if peer.native or method in _SENT:
        return None
    operation = OPERATIONS.get(method)
    if operation is None or not operation.reads:
        peer.need(f"be asked for {method!r}")
    return OPERATIONS[method].do


def table_of(told: Any, endpoint: str) -> dict[str, dict[str, Any]]:
    """The table out of an answer to ``inspect``: names held remotely, and names sent by value.

    Raises:
        RemoteProtocolError: when it is something else.
    """
    sets = as_list(told)
    if len(sets) != 2 or not all(map(_is_names, sets)):
        raise RemoteProtocolError(
            f"{endpoint} answered 'inspect' with {shown(told)} instead of two sets of names: "
            "it is no original Pizco's server"
        )
    return {name: {"kind": "remote"} for name in sets[0] if name.isidentifier() and not name.startswith("_")}


def _is_names(told: object) -> bool:
    if not isinstance(told, set | frozenset | list | tuple):
        return False
    return all(isinstance(name, str) for name in cast("set[object]", told))


_EARLY = 1000


class Completions:
    """Results told by one original server; safe from any thread.

    Args:
        subscribe: as `Agent.subscribe`, whose errors it raises.
        endpoint: of the server.
    """

    def __init__(self, subscribe: Callable[..., Any], endpoint: str) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, Any] = {}
        self._early: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._subscription = subscribe(endpoint, FUTURE_TOPIC, self._on_completion)
        self._subscription.on_lost = self._lose

    def expect(self, call_id: str, future: Any) -> None:
        """Finish a future when the result of its call is told."""
        with self._lock:
            early = self._early.pop(call_id, None)
            if early is None:
                self._futures[call_id] = future
        if early is not None:
            _complete(future, early)

    def _on_completion(self, notification: Notification) -> None:
        content = as_table(notification.content)
        call_id = str(content.get("msgid"))
        with self._lock:
            future = self._futures.pop(call_id, None)
            if future is None:
                keep_recent(self._early, call_id, content, _EARLY)
        if future is not None:
            _complete(future, content)

    def _lose(self, reason: str) -> None:
        with self._lock:
            lost, self._futures = self._futures, {}
        for future in lost.values():
            future.finish(error=PeerLost(f"the result will not come: {reason}"))

    def close(self, reason: str) -> None:
        """Stop listening; what is still expected fails."""
        self._subscription.close()
        self._lose(reason)


def _complete(future: Any, content: dict[str, Any]) -> None:
    error = content.get("exception")
    if isinstance(error, BaseException) and not isinstance(error, Exception):
        error = RemoteError(type(error).__name__, text_of(error))  # SystemExit would end whoever asks for it
    future.finish(content.get("result"), error if isinstance(error, Exception) else None)
