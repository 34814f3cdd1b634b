"""Contact: one endpoint as the caller of a served object sees it: ask it, and read what it answers."""

from __future__ import annotations

import logging
import math
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from ...protocol.errors import AgentClosed, CallTimeout, ConfigError, PzcError, Refused
from ...protocol.frames import PZC00
from ...protocol.values import TRAVELLING
from ..agent import Agent
from ..messages import PS
from ..naming.naming import Place
from ..serving import inproc
from ..serving.execution import NOT_NOW
from ..settings import TRANSPORTS
from . import answers
from .answers import REMOTE
from .bundles import ACTIONS
from .endings import until
from .futures import CallFuture
from .locking import Exclusive
from .peers import Peer
from .reply import Reply
from .streams import RemoteStream
from .trails import Trail

logger = logging.getLogger("pzc.proxy")

MOVE_TIMEOUT = 2.0
"""Seconds that a server has to answer at an endpoint that it moved to."""

_TELL_TIMEOUT = 5.0
_DIRECTLY = ("auto", "inproc")


class Closable(Protocol):
    """Something that ends with its contact."""

    def close(self) -> None:
        """End it, without waiting."""
        ...


class Contact:
    """Asks the object that is served at one endpoint; safe from any thread.

    Args:
        agent: who asks.
        peer: who is there now.
        timeout: default of a call in seconds.
        hide_traceback: leave remote tracebacks out of the notes of exceptions.
        transport: default of a call, one of `TRANSPORTS`.

    Attributes:
        server: id of the agent that the endpoint was last known to belong to.
        direct: the way to a server of this process; None for any other.
        lock_token: what every request carries while the lock is held: it relies on that.
        lock_used: True from the first `lock` on. A request without the token then says as whom it comes
            (``as``), so that one sent by another thread while the lock is taken or given back is not
            refused because of this very lock. Only those on their way at the first `lock` may be.
        exclusive: the lock as this contact has it.
        trail: by which it follows a server that has a name; None for one that has not.
        anchor: what keeps the contact open as long as it lives; None when `close` is called by hand.
    """

    def __init__(
        self, agent: Agent, peer: Peer, timeout: float, hide_traceback: bool, transport: str
    ) -> None:
        self.agent = agent
        self.peer = peer
        self.endpoint = peer.endpoint
        self.timeout = timeout
        self.hide_traceback = hide_traceback
        self.transport = transport
        self.server = peer.agent_id
        self.direct = inproc.find(peer, agent.agent_id, agent.protocol)
        self._ending = agent.new_ending()
        self._quick_unix = agent.quick_way(peer, "unix", self._ending)
        self._quick_tcp = agent.quick_way(peer, "tcp", self._ending)
        self._outbox = agent.outbox(peer)
        self.lock_token: str | None = None
        self.lock_used = False
        self.exclusive = Exclusive()
        self.anchor: weakref.ref[Any] | None = None
        self.trail: Trail | None = None
        self._closed = False
        self._mutex = threading.Lock()
        self._belongings: weakref.WeakSet[Closable] = weakref.WeakSet()

    def request(
        self,
        action: str,
        options: dict[str, Any],
        timeout: float | None = None,
        transport: str | None = None,
        idempotent: bool = False,
    ) -> Any:
        """One call; the result, a `CallFuture`, a `RemoteStream`, or `REMOTE`.

        Args:
            action: of the Proxy-Server protocol.
            options: of the action; not to be used again.
            timeout: seconds, None for the default.
            transport: None for the default.
            idempotent: send it again when the reply is lost.

        Raises:
            Exception: what the remote member raised.
            CallTimeout, PeerLost, SignatureError, SerializeError: as `Agent.request`.
            AgentClosed: after `close`, also when that came during the call.
        """
        if self._closed:
            self._refuse_closed()
        if self.lock_used and "lock" not in options and "as" not in options:
            return self._request_locked(action, options, timeout, transport, idempotent)
        if self.direct is not None and transport is None and self.transport in _DIRECTLY:
            content = self.direct.call((PS, action, options))
            if content is not NOT_NOW:
                if content[1] == "return":
                    return self._arrived(content[2])
                return self._read(
                    Reply(content, self.direct.serializer, self.direct.trusted, self.server), timeout
                )
        seconds = self.timeout if timeout is None else timeout
        transport = self.transport if transport is None else transport
        try:
            if not idempotent:
                quick = self._quick_unix if transport != "tcp" else self._quick_tcp
                content = quick.ask((PS, action, options), seconds)
                if content is not None:
                    if answers.is_return(content):
                        return self._arrived(content[2])
                    return self._read(Reply(content, "pickle", quick.trusted, self.server), timeout)
            with until(self._ending):
                if self.trail is not None:
                    seconds = self.agent.reach(self._place, seconds).left
                reply = self.agent.exchange(
                    self.endpoint, (PS, action, options), seconds, transport=transport, idempotent=idempotent
                )
        except CallTimeout as exc:
            self.name_call(exc)
            raise
        except AgentClosed as exc:
            raise self._closed_meanwhile(exc) from exc
        content = reply.content
        if reply.sender != self.server:
            self.notice(reply)
        if answers.is_return(content):
            return self._arrived(content[2])
        return self._read(reply, timeout)

    def _arrived(self, value: Any) -> Any:
        """A result; a proxy that came so asks with the keys that this one has."""
        if value.__class__ in TRAVELLING:
            value._proxy_asks_with(self.agent.protocol)
        return value

    def _place(self, _: float) -> Place:
        return Place(self.endpoint, settled=False)

    def _request_locked(self, action: str, options: dict[str, Any], *more: Any) -> Any:
        token = self.exclusive.begin_call(self)
        if token is None:
            return self.request(action, {**options, "as": self.exclusive.token}, *more)
        try:
            return self.request(action, {**options, "lock": token}, *more)
        finally:
            self.exclusive.end_call()

    def _read(self, reply: Reply, timeout: float | None) -> Any:
        action, value = answers.read(reply, self.endpoint, self.hide_traceback)
        return self.value_of(action, value, self.peer, timeout)

    def request_later(self, action: str, options: dict[str, Any], timeout: float | None = None) -> CallFuture:
        """As `request`, without waiting; never blocks. Calls that gather are sent together."""
        if self._closed:
            self._refuse_closed()
        timeout = self.timeout if timeout is None else timeout
        if not self.lock_used:
            return self._later(action, options, timeout, None)
        token = self.exclusive.begin_call(self)
        options["as" if token is None else "lock"] = self.exclusive.token
        ended = None if token is None else self.exclusive.end_call
        try:
            return self._later(action, options, timeout, ended)
        except BaseException:
            if ended is not None:
                ended()
            raise

    def _later(
        self, action: str, options: dict[str, Any], timeout: float, ended: Callable[..., object] | None
    ) -> CallFuture:
        outbox = self._outbox
        if outbox is None:
            return self._later_alone(action, options, timeout, ended)
        self.agent.check_usable()
        body = outbox.encode((PS, action, options)) if action in ACTIONS else None
        if body is None:
            return self._later_alone(action, options, timeout, ended)
        future = CallFuture(self, outbox.peer, outbox.new_urn(), sent=False)
        if ended is not None:
            future.ended = ended
        outbox.put(future, body, timeout)
        return future

    def _later_alone(
        self, action: str, options: dict[str, Any], timeout: float, ended: Callable[..., object] | None
    ) -> CallFuture:
        peer = self.peer
        reply: Any = self.agent.exchange_later(peer, (PS, action, options), timeout)
        if ended is not None:
            reply.add_done_callback(ended)
        future = CallFuture(self, peer, reply.msgid)
        reply.add_done_callback(future.take)
        return future

    def send(
        self,
        action: str,
        options: dict[str, Any],
        timeout: float | None = None,
        transport: str | None = None,
    ) -> None:
        """One call that is never answered; returns once it was sent.

        Raises:
            Refused: when an original Pizco is there.
            CallTimeout, PeerLost, SerializeError: as `Agent.request`.
        """
        content = self._unanswered(action, options)
        timeout = self.timeout if timeout is None else timeout
        transport = self.transport if transport is None else transport
        with until(self._ending):
            self.agent.send(self.endpoint, content, timeout, transport=transport)

    def send_later(self, action: str, options: dict[str, Any], timeout: float | None = None) -> Future[None]:
        """As `send`, in the order of `request_later`, without waiting; the future ends when it was sent."""
        content = self._unanswered(action, options)
        return self.agent.send_later(self.peer, content, self.timeout if timeout is None else timeout)

    def _unanswered(self, action: str, options: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        if self._closed:
            self._refuse_closed()
        self.need("take a one-way call")
        if self.lock_used:
            options["as" if self.lock_token is None else "lock"] = self.exclusive.token
        options["oneway"] = True
        return PS, action, options

    def ask(self, content: dict[str, Any], timeout: float | None = None) -> Reply:
        """A control request; errors as `request`."""
        if self._closed:
            self._refuse_closed()
        timeout = self.timeout if timeout is None else timeout
        with until(self._ending):
            return self.agent.exchange(self.endpoint, content, timeout, transport=self.transport)

    def tell(self, content: dict[str, Any], peer: Peer | None = None) -> None:
        """A control request whose answer nobody waits for; any thread, finalizers included."""
        tell(self.agent, self.peer if peer is None else peer, content)

    def need(self, what: str) -> Peer:
        """The peer, when it is no original Pizco.

        Raises:
            Refused: saying what an original cannot do.
        """
        if self.peer.dialect == PZC00:
            raise Refused(f"an original Pizco cannot {what}, and {self.endpoint} is one")
        return self.peer

    def value_of(self, action: str, value: Any, peer: Peer, timeout: float | None = None) -> Any:
        """What a call gives whose reply was read by `answers.read`."""
        if action == "stream":
            stream = RemoteStream(self, peer, value, self.timeout if timeout is None else timeout)
            self.own(stream)
            return stream
        if action in answers.GOES_ON:
            future = CallFuture(self, peer, str(value))
            future.ask_on()
            return future
        return value

    def notice(self, reply: Reply) -> None:
        """Another agent than before has answered at the endpoint."""
        peer = self.peer
        if peer.dialect != PZC00:
            peer = replace(peer, agent_id=reply.sender, key_id=reply.key_id)
        self._turn_to(peer, reply.sender)

    def move(self, before: str, endpoint: str) -> None:
        """The server is at another endpoint than before, perhaps as another agent; not the I/O thread.

        Raises:
            PzcError: when it could not be reached; nothing has changed then.
        """
        peer = self.agent.meet(endpoint, MOVE_TIMEOUT)
        self.endpoint = endpoint
        if peer.agent_id != self.server:
            self.agent.abandon(before)
        self._turn_to(peer, peer.agent_id)

    def _turn_to(self, peer: Peer, server: str) -> None:
        self.server, self.peer = server, peer
        self.direct = inproc.find(self.peer, self.agent.agent_id, self.agent.protocol)
        self._quick_unix = self.agent.quick_way(self.peer, "unix", self._ending)
        self._quick_tcp = self.agent.quick_way(self.peer, "tcp", self._ending)
        self._outbox = self.agent.outbox(self.peer)

    def await_original(self, call_id: str, future: CallFuture) -> None:
        """Finish the future when an original Pizco tells the result of a call."""
        future.finish(error=Refused(f"nobody listens to the results of {self.endpoint}"))

    def name_call(self, error: CallTimeout) -> None:
        """Complete the call id of an error, so that `attach` finds the result."""
        if error.call_id and "@" not in error.call_id and self.peer.dialect != PZC00:
            error.call_id = f"{error.call_id}@{self.endpoint}"

    def own(self, belonging: Closable) -> None:
        """Close something, if it still lives, when this contact is closed."""
        with self._mutex:
            self._belongings.add(belonging)

    def close(self) -> None:
        """Refuse what comes, end what waits, close what was made of this contact. Again: no effect."""
        self._closed = True
        self._ending.set()
        with self._mutex:
            belongings = list(self._belongings)
        if self.trail is not None:
            self.trail.close()
        for belonging in belongings:
            belonging.close()

    def _refuse_closed(self) -> None:
        raise AgentClosed(f"the proxy of {self.endpoint} was closed")

    def _closed_meanwhile(self, error: AgentClosed) -> AgentClosed:
        if not self._closed:
            return error
        return AgentClosed(f"the proxy of {self.endpoint} was closed during a call, which may run on there")


def tell(agent: Agent, peer: Peer, content: dict[str, Any]) -> None:
    """Send a control request from the I/O thread and forget it; any thread, finalizers included."""
    if peer.dialect != PZC00:
        agent.loop.call(partial(_send, agent, peer, content))


def _send(agent: Agent, peer: Peer, content: dict[str, Any]) -> None:
    try:
        answer: Future[Reply] = agent.exchange_later(peer, content, _TELL_TIMEOUT)
    except PzcError as exc:
        logger.debug("%s could not be told %s: %s", peer.endpoint, content, exc)
    else:
        answer.add_done_callback(_log_failure)


def _log_failure(answer: Future[Reply]) -> None:
    if not answer.cancelled() and answer.exception() is not None:
        logger.debug("a notice was not answered: %s", answer.exception())


def checked_timeout(seconds: float | None) -> float | None:
    """A timeout in seconds, or None.

    Raises:
        ConfigError: when it is not positive.
    """
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise ConfigError(f"timeout={seconds!r} cannot be used: expected a positive number of seconds")
    return seconds


def checked_transport(transport: str | None) -> str | None:
    """A transport, or None.

    Raises:
        ConfigError: when there is none of that name.
    """
    if transport is not None and transport not in TRANSPORTS:
        raise ConfigError(f"transport={transport!r} cannot be used: expected one of {', '.join(TRANSPORTS)}")
    return transport


__all__ = ["REMOTE", "Closable", "Contact", "checked_timeout", "checked_transport", "tell"]
