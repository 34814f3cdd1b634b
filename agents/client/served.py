"""ServedObject: what a server holds, as one proxy has it: where it is, and what its answers mean."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from ...discovery.records import Place
from ...protocol.contents import PS
from ...protocol.errors import AgentClosed, LockLost, Refused, SerializeError, SerializerRefused
from ...protocol.shown import shown
from ...protocol.values import TRAVELLING
from ...transport import wire
from ...transport.peer import Peer
from ..compat.pizco_client import Completions
from ..naming.follower import Follower
from ..notifications.subscription import Subscription
from ..reply import Reply, reply_of
from . import answers
from .abort import AbortSignal
from .connection import Answer
from .described import Entry
from .exchanges import repeated
from .exclusive import Exclusive
from .interrupts import interrupted, outcome
from .pending import Pending, PendingCall
from .sent import explain
from .streams import RemoteStream
from .terms import USUAL, Terms

if TYPE_CHECKING:
    from ..agent import Agent


Lease = Callable[[wire.Protocol | None], "tuple[Agent, Callable[[], None]]"]
"""Gives the agent of a protocol, and what gives it back, to be called once."""


MOVE_TIMEOUT = 2.0
"""Seconds that a server has to answer at an endpoint that it moved to."""


class ServedObject:
    """A `Served` of the client, for all that one proxy does; safe from any thread.

    Args:
        agent: who asks.
        peer: who is there now.
        timeout: default of a call in seconds.
        transport: default of a call, ``auto``, ``unix`` or ``tcp``; None for that of the settings.

    Attributes:
        server: id of the agent that the endpoint was last known to belong to.
        abort: ends the waits for its calls.
        exclusive: its lock; a call says whether it relies on that.
        follower: by which it follows a server that has a name; None for one that has not.
        completions: hears the results of a server that is not native; None where nobody does.
        leave: ends that its peer is in use; called by `close`.
        anchor: what keeps it open as long as it lives; None when `close` is called by hand.
    """

    def __init__(self, agent: Agent, peer: Peer, timeout: float, transport: str | None = None) -> None:
        self.agent = agent
        self.client = agent.client
        self.peer = peer
        self.endpoint = peer.endpoint
        self.timeout = timeout
        self.hide_traceback: bool = agent.settings["PZC_HIDE_TRACEBACK"]
        self.transport: str = transport or agent.settings["PZC_TRANSPORT"]
        if self.transport == "inproc":  # which is of notifications
            self.transport = "auto"
        self.server = peer.agent_id
        self.abort = AbortSignal(self.client.closed)
        self.exclusive = Exclusive()
        self.anchor: Callable[[], object] | None = None
        self.follower: Follower | None = None
        self.completions: Completions | None = None
        self.leave = self.client.join(peer)
        self._closed = False
        self._mutex = threading.Lock()
        self._belongings: weakref.WeakSet[RemoteStream | Subscription] = weakref.WeakSet()

    def request(
        self, action: str, options: dict[str, Any], terms: Terms = USUAL, abort: AbortSignal | None = None
    ) -> Any:
        """One call; the result, a `PendingCall`, a `RemoteStream`, or `REMOTE`; None when it is one-way.

        Args:
            action: of the Proxy-Server protocol.
            options: of the action; not to be used again.
            terms: how it is made.
            abort: ends the wait for an idempotent call as the end of this object does.

        Raises:
            Exception: what the remote member raised.
            CallTimeout: no reply in time.
            PeerLost: no agent answers there, or the connection broke during the call.
            AgentClosed: after `close`, also when that came during the call, and when the agent was stopped.
            SignatureError, ProtocolError, SerializeError, Refused: see the tree.
        """
        if self._closed:
            self._refuse_closed()
        try:
            if self.exclusive.held:
                self.exclusive.begin_call(options)
            return self._call(action, options, terms, abort)
        except (SerializeError, SerializerRefused) as error:
            explain(error, options)
            raise
        except KeyboardInterrupt as error:
            raise interrupted(error, outcome(self.peer, action, options, self.stop_of(options))) from None
        finally:
            if "lock" in options:
                self.exclusive.end_call(options)

    def request_later(self, action: str, options: dict[str, Any], terms: Terms = USUAL) -> Pending:
        """As `request`, without waiting; never blocks. The future of a one-way call ends when it was sent."""
        if self._closed:
            self._refuse_closed()
        relies = self.exclusive.held and self.exclusive.begin_call(options)
        try:
            future = self._submit(action, options, terms)
        except BaseException as error:
            if relies:
                self.exclusive.end_call(options)
            if isinstance(error, SerializeError):
                explain(error, options)
            raise
        if relies:
            future.when_done(lambda _: self.exclusive.end_call(options))
        return future

    def _call(self, action: str, options: dict[str, Any], terms: Terms, abort: AbortSignal | None) -> Any:
        timeout, transport, idempotent, detached, oneway, keeps = terms
        seconds = self.timeout if timeout is None else timeout
        if transport is None:
            transport = self.transport
        client, content = self.client, (PS, action, options)
        if oneway:
            options["oneway"] = True
            return client.send(self.endpoint, content, seconds, transport, keeps)
        options["timeout"] = seconds
        if detached:
            options["detached"] = True
        started = time.monotonic()
        if idempotent:
            answer, message, word = self._repeat(content, seconds, started, transport, abort)
        else:
            if client.known(self.endpoint) is None and self.follower is not None:
                client.reach(self.here, seconds)  # it may have moved with its name
            answer, message, word = client.exchange(
                self.endpoint, content, seconds, started, transport, self.abort
            )
        if message.facts.sender != self.server:
            self.notice(reply_of(message, answer))
        if word == "return":
            value = answer[2]
            return self.arrived(value) if value.__class__ in TRAVELLING else value
        return self.read(reply_of(message, answer), timeout)

    def _repeat(
        self, content: object, seconds: float, started: float, transport: str, abort: AbortSignal | None
    ) -> Answer:
        """Ask again and again when the peer is lost, wherever it is by then."""
        client = self.client

        def here(left: float) -> Place:
            if abort is not None and abort.is_set():
                raise abort.error()
            return self.here(left)

        def once() -> Answer:
            if client.known(self.endpoint) is None and self.follower is not None:
                client.reach(here, max(0.001, started + seconds - time.monotonic()))
            ends = self.abort if abort is None else AbortSignal(self.abort, abort)
            if ends.is_set() and not ends.abandoned:
                raise ends.error()
            return client.exchange(self.endpoint, content, seconds, started, transport, ends, recover=False)

        return repeated(once, seconds, client.closed)

    def _submit(self, action: str, options: dict[str, Any], terms: Terms) -> Pending:
        timeout, _, _, detached, oneway, _ = terms  # handles in it are released in the same order
        seconds = self.timeout if timeout is None else timeout
        peer = self.client.known(self.endpoint) or self.peer  # as last met
        content = (PS, action, options)
        if oneway:
            options["oneway"] = True
            return self.client.send_to(peer, content, seconds)
        options["timeout"] = seconds
        if detached:
            options["detached"] = True
        entry = PendingCall(self, peer, content, seconds, detached=detached)
        self.client.submit(entry)
        return entry

    def attach(self, peer: Peer, call_id: str, until: float | None = None) -> PendingCall:
        """The future of a call that was made before, by its id; asked for until then (monotonic seconds)."""
        entry = PendingCall(self, peer, None, self.timeout)
        entry.msgid = call_id
        entry.ask_on(until=until)
        return entry

    def stop_of(self, options: dict[str, Any]) -> object:
        """Method that the server calls when a call was cancelled, as far as that is known here."""
        return None

    def ask(self, content: dict[str, Any], timeout: float | None = None) -> Reply:
        """A control request; errors as `request`."""
        if self._closed:
            self._refuse_closed()
        try:
            seconds, started = self.timeout if timeout is None else timeout, time.monotonic()
            answer, message, _ = self.client.exchange(
                self.endpoint, content, seconds, started, self.transport, self.abort
            )
            return reply_of(message, answer)
        except KeyboardInterrupt as error:
            raise interrupted(error, "") from None

    def tell(self, content: dict[str, Any], peer: Peer | None = None) -> None:
        """A control request whose answer nobody waits for; any thread, finalizers included."""
        self.client.tell(self.peer if peer is None else peer, content)

    def need(self, what: str) -> Peer:
        """The peer, when it can do something; errors as `Peer.need`."""
        self.peer.need(what)
        return self.peer

    def here(self, left: float) -> Place:
        """See `Served`."""
        return Place(self.endpoint, settled=self.follower is None)

    def arrived(self, value: Any) -> Any:
        """A result; a proxy that came so asks with the keys that this one has."""
        if value.__class__ in TRAVELLING:
            value._proxy_asks_with(self.agent.protocol)
        return value

    def read(self, reply: Reply, timeout: float | None) -> Any:
        """What a call gives that was not answered with a value."""
        try:
            action, value = answers.read(reply, self.endpoint, self.hide_traceback)
        except LockLost:
            self.exclusive.lost = True
            raise
        return self.value_of(action, value, self.peer, timeout)

    def value_of(self, action: str, value: Any, peer: Peer, timeout: float | None = None) -> Any:
        """What a call gives whose reply was read by `answers.read`; what stayed there becomes a reference."""
        if action == "reference":
            return self.reference(value)
        if action in ("items", "batch"):
            self.exclusive.lost |= isinstance(value.error, LockLost)
            for index, about in value.refs:
                value[0][index] = self.reference(about)
        if action == "stream":
            stream = RemoteStream(self, peer, value, self.timeout if timeout is None else timeout)
            self.own(stream)
            return stream
        if action in answers.GOES_ON:
            return self.attach(peer, str(value))
        return self.arrived(value)

    def reference(self, about: Entry) -> Any:
        """What stands here for something that stayed at the server.

        Raises:
            Refused: when nothing can.
        """
        raise Refused(f"what {self.endpoint} gave stays there: {shown(about, 100)}")

    def notice(self, reply: Reply) -> None:
        """Another agent than before has answered at the endpoint."""
        peer = self.peer
        if peer.native:
            peer = replace(peer, agent_id=reply.sender, key_id=reply.key_id)
        self._turn_to(peer, reply.sender)

    def move(self, before: str, endpoint: str) -> None:
        """The server is at another endpoint than before, perhaps as another agent; not the I/O thread.

        Raises:
            PzcError: when it could not be reached; nothing has changed then.
        """
        peer = self.agent.meet(endpoint, MOVE_TIMEOUT)
        leave, self.leave = self.leave, self.client.join(peer)
        leave()
        self.endpoint = endpoint
        if peer.agent_id != self.server:
            gone = f"{before} is not where its agent is any more; the call may have run"
            abort, self.abort = self.abort, AbortSignal(self.client.closed)
            abort.abort(gone, abandoned=True)
            self.client.give_up(self, abort.error)
        self._turn_to(peer, peer.agent_id)

    def _turn_to(self, peer: Peer, server: str) -> None:
        self.server, self.peer = server, peer

    def await_original(self, call_id: str, future: PendingCall) -> None:
        """Finish the future when a server that is not native tells the result of a call."""
        if self.completions is None:
            future.finish(error=Refused(f"nobody listens to the results of {self.endpoint}"))
        else:
            self.completions.expect(call_id, future)

    def own(self, belonging: RemoteStream | Subscription) -> None:
        """Close something, if it still lives, when this one is closed.

        Raises:
            AgentClosed: when that has happened, and so to the other as well.
        """
        with self._mutex:
            if not self._closed:
                self._belongings.add(belonging)
                return
        belonging.close()
        self._refuse_closed()

    def close(self) -> None:
        """Refuse what comes, end what waits, close what was made of it. Again: no effect."""
        self._closed = True
        self.abort.abort(f"the proxy of {self.endpoint} was closed, and its calls were called off")
        self.client.give_up(self, self.abort.error)
        with self._mutex:
            belongings = list(self._belongings)
        if self.follower is not None:
            self.follower.close()
        for belonging in belongings:
            belonging.close()
        self.leave()

    def _refuse_closed(self) -> NoReturn:
        raise AgentClosed(f"the proxy of {self.endpoint} was closed")
