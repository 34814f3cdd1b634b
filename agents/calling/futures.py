"""CallFuture: the outcome of a call that nobody waits for now.

::

    state      event                                     next
    gathered   sent in a bundle (see `bundles`)          sent
    sent       reply: return, raise, ...                 done
    sent       reply: future_register                    asked: the call goes on at the server
    asked      reply: pending, or none                   asked again
    asked      reply: return, raise, ...                 done
    asked      the server was replaced, or is silent     done (PeerLost)
               for longer than the timeout
    any        cancel()                                  cancelled, and the server is told, unless
                                                         the call was not sent yet
    any        its time is over, the agent was stopped   done (CallTimeout, AgentClosed)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...protocol.errors import CallTimeout, PeerLost
from ...protocol.frames import PZC00
from . import answers
from .bundles import UNANSWERED
from .peers import Peer
from .reply import Reply, accepted

if TYPE_CHECKING:
    from .contact import Contact

ASK_TIMEOUT = 30.0
"""Seconds to wait for an answer to one question; a server says 'pending' after 20."""


def _nothing() -> None:
    return None


class CallFuture(Future[Any]):
    """Future of a remote call. Besides what every future does, `cancel` cancels the call at the server.

    A call that has not started there never does; a running one is told, and its outcome is ignored
    here.

    Args:
        contact: whom the call was made through.
        peer: whom it was sent to.
        urn: its message id.
        timeout: how long to ask for its outcome, in seconds; None: as long as the server lives.
        sent: False when it is to be sent together with others.

    Attributes:
        urn: its message id.
        sent: False until it is being sent.
        unfinished: empty when it is complete.
        due: when its answer must have come, in monotonic seconds; of a call that was gathered.
        seconds: its timeout, of such a call.
        ended: called in the I/O thread when such a call was answered, has failed or was not sent.
    """

    # What most futures keep stands here once, instead of being set in each.
    _asks = False
    _deadline: float | None = None
    _release: Callable[[], object] = staticmethod(_nothing)
    due = 0.0
    seconds = 0.0
    ended: Callable[[], object] | None = None

    def __init__(
        self, contact: Contact, peer: Peer, urn: str, timeout: float | None = None, sent: bool = True
    ) -> None:
        Future.__init__(self)
        self._contact = contact
        self._peer = peer
        self.urn = urn
        self.sent = sent
        if timeout is not None:
            self._deadline = time.monotonic() + timeout
        self.unfinished = [True]  # popped by the one thread that may finish it
        self._owner = contact.anchor and contact.anchor()  # the proxy stays open until it is done
        if sent:
            self._release = contact.agent.keeper.hold(peer, after=UNANSWERED)

    @property
    def call_id(self) -> str:
        """For `pzc.attach`."""
        return f"{self.urn}@{self._peer.endpoint}"

    @property
    def server(self) -> str:
        """Id of the agent that the endpoint was last known to belong to."""
        return self._contact.server

    def take(self, done: Future[Reply]) -> None:
        """Read the reply, or why there is none."""
        error = done.exception()
        if error is None:
            self.read(done.result())
        else:
            self.fail(error)

    def read(self, reply: Reply) -> None:
        """Read the reply."""
        if not self.unfinished:
            return
        contact = self._contact
        try:
            accepted(reply)
            if reply.sender != contact.server:
                contact.notice(reply)
            if answers.is_return(reply.content):
                self.finish(reply.content[2])
                return
            action, value = answers.read(reply, self._peer.endpoint, contact.hide_traceback)
            if action in answers.GOES_ON:
                self.ask_on(reply)
                return
            value = contact.value_of(action, value, self._peer)
        except Exception as exc:
            self.finish(error=exc)
        else:
            self.finish(value)

    def fail(self, error: BaseException) -> None:
        """There is no reply."""
        if not self.unfinished:
            return
        unanswered = isinstance(error, CallTimeout)
        try:
            if unanswered and self._asks:  # the question was lost, not the outcome: `_lose` tells that
                self.ask_on()
                return
        except Exception as exc:
            error = exc
        if unanswered and isinstance(error, CallTimeout):
            error.call_id = self.call_id
        self.finish(error=error)

    def ask_on(self, reply: Reply | None = None) -> None:
        """Ask for the outcome of a call that goes on.

        Args:
            reply: that said so; None when the peer is known to be the one who has it.
        """
        contact = self._contact
        if self._peer.dialect == PZC00:
            contact.await_original(self.urn, self)
            return
        if reply is not None and reply.sender != self._peer.agent_id:
            self._peer = replace(self._peer, agent_id=reply.sender, key_id=reply.key_id)
        self._asks = True
        left = ASK_TIMEOUT if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            raise self._late()
        self._release()
        self._release = contact.agent.keeper.hold(
            self._peer, after=UNANSWERED, lost=self._lose, patience=contact.timeout
        )
        content = {"pzc": "future", "id": self.urn}
        try:
            asked = contact.agent.exchange_later(self._peer, content, min(left, ASK_TIMEOUT))
        except BaseException:
            self._release()
            raise
        asked.add_done_callback(self.take)
        if not self.unfinished:  # cancelled meanwhile, with the former hold
            self._release()

    def _late(self) -> CallTimeout:
        error = CallTimeout(f"the call at {self._peer.endpoint} goes on, but had no result in time")
        error.call_id = self.call_id
        return error

    def _lose(self, reason: str) -> None:
        self.finish(error=PeerLost(f"the result will not come: {reason}"))

    def finish(self, value: Any = None, error: BaseException | None = None) -> None:
        """Complete it, unless it was cancelled or is complete; any thread."""
        self._release()
        try:
            self.unfinished.pop()
        except IndexError:
            return
        self._owner = None
        try:
            if error is None:
                self.set_result(value)
            else:
                # Its traceback would hold this future until the collector runs.
                self.set_exception(error.with_traceback(None))
        except InvalidStateError:  # cancelled just now; this wakes whoever waits for it
            self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Cancel the call, here and at the server, without waiting for it.

        Returns:
            False when it was complete already.
        """
        if not super().cancel():
            return False
        try:
            self.unfinished.pop()
        except IndexError:
            return True
        self.set_running_or_notify_cancel()  # wakes whoever waits for it
        self._release()
        if self.sent:
            self._contact.tell({"pzc": "cancel", "id": self.urn}, self._peer)
        self._owner = None
        return True
