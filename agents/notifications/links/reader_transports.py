"""Transports of a link at its reader: over a Unix connection, by long polls over tcp, or inside the process.

==========  ====================================================================================
call        what it does
==========  ====================================================================================
open        ask for the link and return the answer; once, before anything else. `LinkOver` when the
            publisher says that it is over
ask         ask for something more, in order, without waiting
tell        send news that nobody answers, if there are any when it is this word's turn; never waits in
            the I/O thread; False: not now
listen      from now on tell a `Reception` when something has come; once, after `open`
ready       what has come, without waiting but for the rest of a message; PzcError when the way is over.
            For the thread of the receiver
close       end it, from any thread; whoever listens is told
==========  ====================================================================================
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ....protocol import limits, link_codec
from ....protocol.errors import (
    AgentClosed,
    CallTimeout,
    PeerLost,
    PzcError,
    Refused,
    RemoteProtocolError,
    ReplayedMessage,
)  # fmt: skip
from ....protocol.link_messages import LinkMessage, Notify, Open, Report
from ....protocol.message import Message
from ....protocol.shown import shown
from ....transport.descriptors import Starved
from ....transport.loop import Loop
from ....transport.peer import Peer
from ....transport.threads import Future
from ....transport.transport import Disconnected
from ...client.client import Client
from ...reply import Reply, accepted, reply_of
from .reception import Reception

SEND_TIMEOUT = REST_TIMEOUT = 4.0
"""Seconds in which a publisher that lives takes a few bytes, or sends the rest of what it has begun."""

_GRACE = 0.5
"""Seconds behind its time that an answer is still waited for."""

News = Callable[[], Report | None]

M = TypeVar("M", bound=LinkMessage)
T = TypeVar("T")


class Received(Struct):
    """A verified message.

    Attributes:
        notify: decoded.
        key_id: key that signed it, empty when unsigned.
        fd: descriptor that came with it, -1 without one.
    """

    notify: Notify
    key_id: str
    fd: int = -1


class ReaderTransport(Protocol):
    """See the module's docstring."""

    kind: str
    more: bool
    """Whether `ready` is to be asked again before something more has come."""

    def open(self, message: Open, deadline: float) -> LinkMessage:
        """The answer to the request for the link; errors as `Client.request`."""
        ...

    def ask(self, message: LinkMessage) -> Future[LinkMessage]:
        """The answer to come."""
        ...

    def tell(self, news: News) -> bool:
        """Send and forget; False when it is to be tried again soon."""
        ...

    def listen(self, reception: Reception) -> None:
        """Tell it when something has come."""
        ...

    def ready(self) -> list[Received | None]:
        """Messages of notifications, and None for what is none; empty when nothing has come."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class LinkOver(PeerLost):
    """The publisher closed the link: what it has not sent it never will."""


def opened(peer: Peer, answer: Future[T], timeout: float | None = 0) -> T:
    """The answer to the request for a link, with the errors of `ReaderTransport.open`."""
    try:
        return answer.result(timeout)
    except (TimeoutError, ReplayedMessage) as exc:  # its answer may be on the way
        raise CallTimeout(f"{peer.endpoint} did not open a link in time") from exc
    except Disconnected:
        raise
    except (PeerLost, RemoteProtocolError) as exc:
        raise LinkOver(str(exc)) from exc
    finally:
        del answer  # else its error, whose traceback holds this frame, would hold itself


class OverUnix:
    """The Unix connection on which the link was asked for.

    Args:
        loop: whose thread must not wait.
        client: formats and verifies.
        peer: the publisher.
        deadline: in monotonic seconds.

    Raises:
        PeerLost: when it has no fast lane for this user on this host.

    Attributes:
        hopeless: one of both sides cannot have what it takes, so that to open another one would not help.
    """

    kind = "unix"

    def __init__(self, loop: Loop, client: Client, peer: Peer, deadline: float) -> None:
        self._loop = loop
        self._peer, self._key_id = peer, peer.publishing
        self._exchange = client.dedicate(peer, deadline, "link")
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._asked: dict[str, Future[LinkMessage]] = {}
        self._opened = ""
        self._closed = self.hopeless = False
        self._early: list[Received | None] = []
        self._watched = -1
        self._reception: Reception | None = None
        self.more = True

    def open(self, message: Open, deadline: float) -> LinkMessage:
        """See `ReaderTransport.open`."""
        answer = self.ask(message)
        try:
            while not answer.done():
                self._early.append(self._taken(self._exchange.receive(deadline)))
            return opened(self._peer, answer)
        except (Refused, Starved):
            self.hopeless = True
            raise
        finally:
            del answer

    def ask(self, message: LinkMessage) -> Future[LinkMessage]:
        """See `ReaderTransport.ask`."""
        answer: Future[LinkMessage] = Future()
        with self._sending, self._lock:  # whoever receives the answer finds what it is of
            if self._closed:
                raise PeerLost(f"the link to {self._peer.endpoint} was closed")
            msgid = self._transmit(message, SEND_TIMEOUT)
            self._asked[msgid] = answer
            self._opened = self._opened or msgid
        return answer

    def tell(self, news: News) -> bool:
        """See `ReaderTransport.tell`."""
        hurry = self._loop.in_thread()
        if not self._sending.acquire(blocking=not hurry):
            return False
        try:
            report = news()
            if report is not None:
                self._transmit(report, 0.0 if hurry else SEND_TIMEOUT)
        finally:
            self._sending.release()
        return True

    def _transmit(self, message: LinkMessage, timeout: float) -> str:
        packed = "link", link_codec.encode(message)
        return self._exchange.send(None, time.monotonic() + timeout, packed=packed)

    def listen(self, reception: Reception) -> None:
        """See `ReaderTransport.listen`."""
        self._loop.call(partial(self._watch, reception))

    def _watch(self, reception: Reception) -> None:
        self._reception = reception
        self._exchange.stream.on_rest = reception.step_aside
        try:
            # A number of its own: it stays this connection's, whoever closes that, until it is not watched.
            self._watched = os.dup(self._exchange.fileno())
        except OSError:
            self._exchange.close()
        else:
            self._loop.register(self._watched, reception.on_ready)
        reception.on_ready()

    def _unwatch(self) -> None:
        if self._watched >= 0:
            self._loop.unregister(self._watched)
            os.close(self._watched)
            self._watched = -1
        if self._reception is not None:  # which finds the end
            self._reception.on_ready()

    def ready(self) -> list[Received | None]:
        """See `ReaderTransport.ready`."""
        if self._early:
            early, self._early = self._early, []
            return early
        found: list[Received | None] = []
        for each in self._exchange.ready(time.monotonic() + REST_TIMEOUT, self._opened):
            if not isinstance(each, bytes):
                found.append(self._taken(each))
            elif isinstance(said := link_codec.decode(each), Notify) and not said.lent:
                found.append(Received(said, self._key_id))
            else:
                found.append(self._heard(self._opened, said))
        self.more = self._exchange.more
        return found

    def _taken(self, message: Message) -> Received | None:
        if message.serializer == "link":
            return self._heard(message.msgid, link_codec.decode(message.content))
        self._step_aside()
        self._answer(message.msgid, reply_of(message, message.decode(writable=True)))
        return None

    def _heard(self, msgid: str, said: LinkMessage) -> Received | None:
        if isinstance(said, Notify) and msgid == self._opened:
            fd = self._exchange.stream.take_descriptor() if said.lent else -1
            return Received(said, self._key_id, fd)
        self._step_aside()
        self._answer(msgid, said)
        return None

    def _step_aside(self) -> None:
        if self._reception is not None:
            self._reception.step_aside()

    def _answer(self, msgid: str, said: LinkMessage | Reply) -> None:
        with self._lock:
            answer = self._asked.pop(msgid, None)
        if answer is None:
            raise RemoteProtocolError(f"{self._peer.endpoint} sent over a link what nobody asked for")
        settle(answer, partial(_said, self._peer, said))

    def close(self) -> None:
        """See `ReaderTransport.close`."""
        self._exchange.close()
        self._loop.call(self._unwatch)
        with self._lock:
            self._closed = True
            asked = list(self._asked.values())
            self._asked.clear()
        for answer in asked:
            answer.set_exception(PeerLost(f"the link to {self._peer.endpoint} was lost"))


class OverTcp:
    """Long polls, one after the other; all of it goes through the I/O thread.

    One that is not answered is said again, until nothing was heard of the publisher for `silence`.

    Args:
        client: asks, polls, and sends news.
        peer: the publisher.
        poll: the next request for notifications; whether the one before was not answered.
    """

    kind = "tcp"
    more = True

    def __init__(self, client: Client, peer: Peer, poll: Callable[[bool], Report]) -> None:
        self._client = client
        self._peer = peer
        self._poll = poll
        self._closed = False
        self._polling: Future[Reply] | None = None
        self._heard = time.monotonic()
        self._opening: Open | None = None
        self._reception: Reception | None = None

    def open(self, message: Open, deadline: float) -> LinkMessage:
        """See `ReaderTransport.open`."""
        self._opening = message
        while True:
            left = max(0.001, min(deadline - time.monotonic(), limits.current.mail_patience))
            asked = self._client.submit_to(self._peer, message, left)
            try:
                return self._said(opened(self._peer, asked, left + _GRACE))
            except CallTimeout:
                if time.monotonic() >= deadline:
                    raise

    def ask(self, message: LinkMessage) -> Future[LinkMessage]:
        """See `ReaderTransport.ask`."""
        answer: Future[LinkMessage] = Future()
        asked = self._client.submit_to(self._peer, message, limits.current.mail_patience)
        asked.add_done_callback(lambda told: settle(answer, lambda: self._said(told.result(0))))
        return answer

    def _said(self, reply: Reply) -> LinkMessage:
        if reply.sender != self._peer.agent_id:
            raise PeerLost(f"{self._peer.endpoint} was restarted")
        self._heard = time.monotonic()
        return _said(self._peer, reply)

    def tell(self, news: News) -> bool:
        """See `ReaderTransport.tell`."""
        report = news()
        if report is not None:  # if it cannot be told, whoever polls finds out
            self._client.send_to(self._peer, report, SEND_TIMEOUT)
        return True

    def listen(self, reception: Reception) -> None:
        """See `ReaderTransport.listen`."""
        self._reception = reception
        reception.look()

    def ready(self) -> list[Received | None]:
        """See `ReaderTransport.ready`."""
        if self._closed:
            raise AgentClosed("the link was closed here")
        polling = self._polling
        if polling is None:
            self._ask_again(lost=False)
            return []
        if not polling.done():
            return []
        self._polling = None
        try:
            said = self._said(polling.result(0))
        except (CallTimeout, ReplayedMessage) as exc:
            silence = time.monotonic() - self._heard
            if silence >= limits.current.silence:
                raise PeerLost(f"{self._peer.endpoint} has been silent for {silence:.1f} s") from exc
            self._ask_again(lost=True)
            return []
        return [Received(expected(self._peer, said, Notify), self._peer.publishing)]

    def _ask_again(self, *, lost: bool) -> None:
        poll, patience = self._poll(lost), limits.current.mail_patience
        if lost and self._opening is not None:  # the publisher is to say again what the answer may have said
            self._client.submit_to(self._peer, replace(self._opening, received=poll.received), patience)
        timeout = poll.hold + patience
        self._polling = polling = self._client.submit_to(self._peer, poll, timeout)
        polling.add_done_callback(lambda _: self._look())

    def _look(self) -> None:
        if self._reception is not None:
            self._reception.look()

    def close(self) -> None:
        """See `ReaderTransport.close`."""
        self._closed = True
        self._look()


def _said(peer: Peer, answer: Reply | LinkMessage) -> LinkMessage:
    content: object = accepted(answer).content if isinstance(answer, Reply) else answer
    return expected(peer, content, LinkMessage)


def expected(peer: Peer, said: object, kind: type[M]) -> M:
    """What a publisher said over a link, when it is of that kind.

    Raises:
        RemoteProtocolError: for anything else.
    """
    if not isinstance(said, kind):
        raise RemoteProtocolError(f"{peer.endpoint} said over a link {shown(said, 200)}")
    return said


def settle(answer: Future[LinkMessage], said: Callable[[], LinkMessage]) -> None:
    """Finish what was asked for with its answer, or its refusal."""
    try:
        answer.set_result(said())
    except PzcError as exc:
        answer.set_exception(exc.with_traceback(None))
