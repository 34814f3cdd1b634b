"""Pending calls: what was asked, and nobody waits for now.

::

    state      event                                     next
    made       submitted                                 waiting
    waiting    on its way to the peer                    sent
    sent       a note that it runs                       sent
    sent       reply: return, raise, ...                 done
    sent       reply: future_register                    asked: the call goes on at the server
    asked      reply: pending, or none                   asked again
    asked      reply: return, raise, ...                 done
    asked      the server was replaced, or is silent     done (PeerLost)
               for longer than the timeout
    sent       its connection is over                    asked, for `call_recovery` s; then done (PeerLost)
    any        cancel()                                  cancelled, and the server is told, unless
                                                         the call was not sent yet
    any        its time is over, its proxy was closed,   done (CallTimeout, AgentClosed); the server is
               the agent was stopped                     told, unless the call outlives its caller, which
                                                         is sent still when its proxy was closed
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from dataclasses import replace
from functools import partial
from typing import Any

from ...protocol import limits
from ...protocol.contents import as_table, read_ps_message
from ...protocol.errors import AgentClosed, CallTimeout, PeerLost, PzcError, SerializeError, SerializerRefused
from ...protocol.frames import PZC00
from ...protocol.message import Message
from ...protocol.values import TRAVELLING
from ...transport.inherited import Stays
from ...transport.peer import Peer
from ...transport.threads import Future
from ...transport.transport import Disconnected
from ..reply import Reply, accepted, reply_of
from . import answers
from .interfaces import Served
from .interrupts import interrupted, outcome
from .sent import explain

ASK_TIMEOUT = 30.0
"""Seconds to wait for an answer to one question; a server says 'pending' after 20."""

UNANSWERED = 0.25
"""Seconds after which an unanswered call is kept alive at the server."""


class Pending(Stays, Future[Any]):
    """A request in flight, which gives its `Reply`; its callbacks run in the I/O thread and must be quick.

    Args:
        peer: whom it is sent to.
        content: of the request.
        seconds: its timeout.

    Attributes:
        started: when it was made, in monotonic seconds.
        due: when its answer must have come, in monotonic seconds.
        made: the request as it is to be written; None before and after.
        size: of that, in bytes.
        msgid: of the request; empty until it is written.
        sent: it is on its way.
        again: it was sent a second time, to the agent that has replaced the first one.
        note: what was told last of the call that runs.
        given_up: nobody waits for it any more.
        detached: what it asks for goes on then.
        answered: it wants an answer.
        transport: by which it was sent.
        lasting: it may last, so that the server is shown meanwhile that its caller is alive.
    """

    # What most keep stands here once, instead of being set in each.
    msgid = ""
    size = 0
    made: Any = None
    sent = again = given_up = detached = False
    answered = True
    lasting = False
    transport: object = None
    note: dict[str, Any] | None = None

    def __init__(self, peer: Peer, content: object, seconds: float) -> None:
        super().__init__()
        self.peer = peer
        self.content = content
        self.seconds = seconds
        self.started = now = time.monotonic()
        self.due = now + seconds

    def take(self, message: Message | None, content: Any) -> None:
        """A reply came that is no refusal, or what wants none has gone; I/O thread."""
        self.settle(None if message is None else reply_of(message, content))

    def fail(self, error: BaseException) -> None:
        """There is no reply; any thread."""
        self.settle(error=error)

    def recover(self, error: PzcError) -> None:
        """The connection that it was sent over is lost; any thread."""
        self.fail(Disconnected(str(error)) if isinstance(error, PeerLost) else error)

    def call_off(self) -> None:
        """Nobody waits for it: what it asked for ends as well, where that can be; any thread."""

    def when_done(self, fn: Callable[[Future[Any]], object]) -> None:
        """Call ``fn`` in the thread that completes it: it must be quick, and never wait."""
        super().add_done_callback(fn)

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """Complete it, unless it is complete, or was cancelled."""
        try:
            if self.done() or not self.set_running_or_notify_cancel():
                return
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error.with_traceback(None))  # else the two hold each other
        except InvalidStateError:  # another thread was quicker
            return


class PendingCall(Pending):
    """Future of a remote call. Besides what every future does, `cancel` cancels the call at the server.

    A call that has not started there never does; a running one is told, and its outcome is ignored
    here. Callbacks run in a thread that may wait and call, never in the one of the sockets.

    Args:
        ref: what the call is made of.
        peer: whom it is sent to.
        content: of the request; None for a call that was made before.
        seconds: its timeout.
        detached: it goes on when nobody waits for it any more.
    """

    lasting = True
    _until: float | None = None
    _lost: BaseException | None = None

    def __init__(
        self, ref: Served, peer: Peer, content: object, seconds: float, *, detached: bool = False
    ) -> None:
        super(Pending, self).__init__()  # what that of `Pending` does is written out: of these there are many
        self.peer, self.content, self.seconds = peer, content, seconds
        self.started = now = time.monotonic()
        self.due = now + seconds
        self.ref = ref
        self.detached = detached
        self._client = ref.client
        self._release: Callable[[], object] | None = None
        self._unfinished = [True]  # popped by the one thread that may finish it
        self._owner = ref.anchor and ref.anchor()  # the proxy stays open until it is done

    @property
    def call_id(self) -> str:
        """For `pzc.attach`."""
        if not self.msgid:
            self._client.wait_for_id(self)
        return f"{self.msgid}@{self.peer.endpoint}"

    def result(self, timeout: float | None = None) -> Any:
        """As of every future; Ctrl-C cancels the call, unless it is detached or was attached to.

        Raises:
            AgentClosed: in a forked child, for one of the parent's that is not done.
        """
        self._check_own()
        try:
            return super().result(timeout)
        except KeyboardInterrupt as error:
            raise self._interrupted(error) from None
        finally:
            del self  # an error's traceback has this frame, and the future the error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Likewise."""
        self._check_own()
        try:
            return super().exception(timeout)
        except KeyboardInterrupt as error:
            raise self._interrupted(error) from None

    def _interrupted(self, error: KeyboardInterrupt) -> KeyboardInterrupt:
        call = read_ps_message(self.content)
        if call is None:
            return error
        if not self.detached:
            self.cancel()
        return interrupted(error, outcome(self.peer, *call, self.ref.stop_of(call[1])))

    def _check_own(self) -> None:
        if self._unfinished and self._client.unusable:
            raise AgentClosed(self._client.unusable)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Call ``fn`` with this future when it is done; not in the thread of the sockets."""
        super().add_done_callback(partial(self._client.call_back, fn))

    def take(self, message: Message | None, content: Any) -> None:
        """The reply came; I/O thread."""
        if not self._unfinished or message is None:
            return
        ref = self.ref
        try:
            if message.facts.sender != ref.server:
                ref.notice(reply_of(message, content))
            if answers.is_return(content):
                value = content[2]
                if value.__class__ in TRAVELLING:
                    value = ref.arrived(value)
            else:
                reply = accepted(reply_of(message, content))
                if answers.goes_on(content):
                    self.ask_on(reply)
                    return
                value = ref.read(reply, self.seconds)
        except BaseException as exc:
            self.finish(error=exc)
        else:
            self.finish(value)

    def fail(self, error: BaseException) -> None:
        """There is no reply, or none that can be used; any thread."""
        if isinstance(error, (CallTimeout, PeerLost)):
            error.call_id = self.call_id if self.sent else ""
        self.finish(error=error)

    def ask_on(self, reply: Reply | None = None, until: float | None = None) -> None:
        """Ask for the outcome of a call that goes on.

        Args:
            reply: that said so; None when the peer is known to be the one who has it.
            until: when to ask no longer, in monotonic seconds; default as long as the server lives.
        """
        if until is not None:
            self._until = until
        if self.peer.dialect == PZC00:
            self.ref.await_original(self.msgid, self)
            return
        if reply is not None and reply.sender != self.peer.agent_id:
            self.peer = replace(self.peer, agent_id=reply.sender, key_id=reply.key_id)
        self.sent = True
        left = ASK_TIMEOUT if self._until is None else self._until - time.monotonic()
        if left <= 0:
            raise self._late()
        client = self._client
        self._let_go()
        self._release = client.heartbeat.hold(
            self.peer, after=UNANSWERED, lost=self._lose, patience=self.ref.timeout
        )
        content = {"pzc": "future", "id": self.msgid}
        try:
            asked = client.submit_to(self.peer, content, min(left, ASK_TIMEOUT))
        except BaseException:
            self._let_go()
            raise
        asked.add_done_callback(self._on_answer)
        if not self._unfinished:  # cancelled meanwhile, with the former hold
            self._let_go()

    def recover(self, error: PzcError) -> None:
        """The connection that it was sent over is lost: its peer may live, and keep the result."""
        if self.peer.dialect == PZC00:  # an original keeps none
            self.fail(error)
            return
        self._lost = error
        try:
            self.ask_on(until=min(self.due, time.monotonic() + limits.current.call_recovery))
        except BaseException as exc:
            self.fail(exc)

    def _on_answer(self, asked: Future[Reply]) -> None:
        if not self._unfinished:
            return
        try:
            error = asked.exception()
            if error is None:
                reply = asked.result()
                if answers.goes_on(reply.content):
                    if self._lost is not None:  # it runs there
                        self._lost, self._until = None, self.due
                    self.ask_on(reply)
                elif answers.is_return(reply.content):
                    self.finish(self.ref.arrived(reply.content[2]))
                else:
                    self.finish(self.ref.read(reply, self.seconds))
            elif self._lost is not None:
                self.fail(PeerLost(str(self._lost)))
            elif isinstance(error, CallTimeout):  # the question was lost, not the outcome: `_lose` tells that
                self.ask_on()
            else:
                self.fail(error)
        except BaseException as exc:
            self.finish(error=exc)

    def _late(self) -> CallTimeout:
        error = CallTimeout(f"the call at {self.peer.endpoint} goes on, but had no result in time")
        error.call_id = self.call_id
        return error

    def _lose(self, reason: str) -> None:
        self.finish(error=PeerLost(f"the result will not come: {reason}"))

    def _let_go(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def finish(self, value: Any = None, error: BaseException | None = None) -> None:
        """Complete it, unless it was cancelled or is complete; any thread."""
        try:
            self._unfinished.pop()
        except IndexError:
            return
        if self._release is not None:
            self._let_go()
        self._owner = None
        try:
            if error is None:
                self.set_result(value)
            else:
                if isinstance(error, SerializeError | SerializerRefused):
                    explain(error, as_table((read_ps_message(self.content) or ("", None))[1]))
                # Its traceback would hold this future until the collector runs.
                self.set_exception(error.with_traceback(None))
        except InvalidStateError:  # cancelled just now; this wakes whoever waits for it
            self.set_running_or_notify_cancel()

    def call_off(self) -> None:
        """Nobody waits for it: the call at the server ends as well, unless it is to go on; any thread."""
        self._client.cancel(self)

    def give_up(self, error: BaseException) -> None:
        """End it, and the call at the server, unless it is to go on; any thread."""
        if self._unfinished:
            if not self.detached:
                self._client.cancel(self)
            self.fail(error)

    def cancel(self) -> bool:
        """Cancel the call, here and at the server, without waiting for it.

        Returns:
            False when it was complete already.
        """
        if not super().cancel():
            return False
        try:
            self._unfinished.pop()
        except IndexError:
            return True
        self.set_running_or_notify_cancel()  # wakes whoever waits for it
        self._let_go()
        self._client.cancel(self)
        self._owner = None
        return True
