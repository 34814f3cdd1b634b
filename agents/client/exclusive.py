"""Exclusive: the lock of a server as one proxy has it.

::

    state      event                              next
    free       acquire, granted by the server     held(1): every request of the proxy carries its token
    free       acquire, refused                   free (LockedBy)
    free       acquire, the server dies meanwhile free (PeerLost)
    held(n)    acquire                            held(n + 1); the server is not asked
    held(n)    a call hears LockLost              lost(n): every request still carries the token
    lost(n)    acquire, granted by the server     held(n + 1)
    lost(n)    acquire, refused                   lost(n) (LockedBy)
    lost(n)    release                            as held(n)
    held(n)    release                            held(n - 1)
    held(1)    release                            returning: new calls go without the token
    returning  its calls are over                 free; the server is told
    any        the proxy is closed                free; the server is told

The client's `Heartbeat` shows the server that the holder is alive; when it dies, the server frees the lock.
"""

from __future__ import annotations

import getpass
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ...protocol.contents import as_table
from ...protocol.errors import CallTimeout, PeerLost, Refused, RemoteProtocolError
from ...protocol.shown import shown
from ...transport.peer import Peer
from ...transport.threads import Condition, Future, acquired
from ..reply import Reply
from .interfaces import Served

logger = logging.getLogger("pzc.proxy")

_LEAST = 0.25
"""Seconds that are left to tell the server, however long the calls under the lock took."""

_LATE = 1.0
"""Seconds by which the I/O thread may be late to say that nobody answered."""


class Exclusive:
    """The lock as one proxy has it; safe from any thread, which all share it.

    Attributes:
        token: what tells this holder from others with the same key and agent.
        held: requests carry the token. Those of other threads that are on their way when it is taken do not,
            and may be refused.
        lost: a call has heard that the server does not know of this lock any more.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        self.held = self.lost = False
        self._count = 0
        self._owner = ""
        self._mutex = threading.RLock()  # `release` tells who has not got it
        self._let_go: Callable[[], object] = _nothing
        self._counting = threading.Lock()
        self._calls = Condition(self._counting)
        self._running: dict[int, dict[str, Any]] = {}  # options, by their identity
        self._returning = False

    def begin_call(self, options: dict[str, Any]) -> bool:
        """Say in the options of a call that it relies on the lock; True when it does, until `end_call`."""
        with self._counting:
            if self.held:
                options["lock"] = self.token
                self._running[id(options)] = options
            return self.held

    def end_call(self, options: dict[str, Any]) -> None:
        """A call that carried the token is over, or was not begun; any thread."""
        with self._counting:
            self._running.pop(id(options), None)
            if self._returning:
                self._calls.notify_all()

    def acquire(self, served: Served, terms: dict[str, Any]) -> str:
        """Take the lock, or once more; returns how the server calls the holder.

        Args:
            served: of the proxy.
            terms: ``ttl``, ``wait``, ``reason`` and ``takeover``, as of `lock`.

        Raises:
            LockedBy: when somebody else still has it after ``wait`` seconds.
            CallTimeout, PeerLost, RoleRefused: as a call.
        """
        try:
            self._enter(served.timeout + terms["wait"])
            if self.lost or not self._count:
                peer = served.need("be locked")
                self._take(served, peer, {"pzc": "lock", "token": self.token, "by": _who(), **terms})
            self._count += 1
            return self._owner
        finally:
            try:  # noqa: SIM105 -- in one step, as whoever is interrupted before it holds it for ever
                self._mutex.release()
            except RuntimeError:  # it was not had
                pass

    def _enter(self, timeout: float) -> None:
        """Have the mutex; whoever is interrupted here cannot know whether he has it, and tries to let go."""
        if not acquired(self._mutex, min(timeout, threading.TIMEOUT_MAX)):
            raise CallTimeout("another thread of this process is still taking or returning this lock")

    def _take(self, served: Served, peer: Peer, request: dict[str, Any]) -> None:
        try:
            reply = self._queue(served, peer, request) if request["wait"] > 0 else served.ask(request)
            owner = as_table(reply.content).get("owner")
            if not isinstance(owner, str):
                raise RemoteProtocolError(
                    f"{served.endpoint} did not say whose the lock is: {shown(reply.content, 200)}"
                )
            self._let_go()
            self._let_go = served.client.heartbeat.hold(peer)
        except BaseException as exc:
            if not isinstance(exc, Refused):
                self._withdraw(served)
            raise
        self._owner, self.held, self.lost = owner, True, False

    def _withdraw(self, served: Served) -> None:
        """The lock may have been granted in an answer that was lost: give that one back.

        The next one has another token, so that this cannot end it, however late it arrives; the server grants
        this one no more, however late its request arrives.
        """
        token, self.token = self.token, secrets.token_hex(8)
        served.tell(_given_up(token))

    def _queue(self, served: Served, peer: Peer, request: dict[str, Any]) -> Reply:
        """Wait at the server for the lock; its death or restart is noticed long before ``wait`` is over."""
        answer: Future[Reply] = Future()
        timeout = served.timeout + request["wait"]
        until = time.monotonic() + timeout + _LATE
        lost = partial(_fail, answer)
        let_go = served.client.heartbeat.hold(peer, lost=lost, patience=served.timeout)
        asked = served.client.submit_to(peer, request, timeout)
        asked.add_done_callback(partial(_pass_on, served, answer, request["token"]))
        try:
            return answer.result(until - time.monotonic())
        except TimeoutError as exc:
            if answer.done() or time.monotonic() < until:  # a CallTimeout, or of a signal's handler
                raise
            raise CallTimeout(f"{served.endpoint} said nothing about the lock within {timeout:g} s") from exc
        finally:
            answer.cancel()
            let_go()

    def release(self, served: Served) -> None:
        """Give it back once; the last time the server is told, when the calls under the lock are over.

        At most the timeout is waited for them, so that none of them, of whatever thread, hears of a lock
        that it relied on and that is gone.

        Raises:
            CallTimeout, PeerLost: as a call; the lock then ends with its time to live.
        """
        try:
            self._enter(served.timeout)
            self._count = max(0, self._count - 1)
            if self._count or not self.held:
                return
            deadline = time.monotonic() + served.timeout
            try:
                with self._calls:
                    self.held, self._returning = False, True
                    self._calls.wait_for(lambda: not self._running, served.timeout)
                    self._returning = False
                    self._running.clear()  # nobody waits for it again
                self._forget()
                left = max(_LEAST, deadline - time.monotonic())
                reply = served.ask({"pzc": "unlock", "token": self.token}, left)
            except BaseException:
                self._forget()
                self._withdraw(served)
                raise
            if as_table(reply.content).get("held") is not True:
                logger.warning("the lock of %s was lost before it was given back", served.endpoint)
        finally:
            try:  # noqa: SIM105
                self._mutex.release()
            except RuntimeError:
                pass

    def _forget(self) -> None:
        self.held = self.lost = False
        let_go, self._let_go = self._let_go, _nothing
        let_go()

    def drop(self, served: Served) -> None:
        """Give it back without waiting: the proxy is being closed."""
        if self.held:
            self._count = 0
            self._forget()
            self._withdraw(served)


def _who() -> str:
    """Whose process this is, for people: ``alice@bench (process 4711)``."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # of a user that this system does not know
        user = "unknown"
    return f"{user}@{socket.gethostname()} (process {os.getpid()})"


def _pass_on(served: Served, answer: Future[Reply], token: str, asked: Future[Reply]) -> None:
    error = asked.exception()
    if answer.done() or not answer.set_running_or_notify_cancel():
        if error is None:  # granted to somebody who has given up
            served.tell(_given_up(token))
    elif error is None:
        answer.set_result(asked.result())
    else:
        answer.set_exception(error)


def _fail(answer: Future[Reply], reason: str) -> None:
    if not answer.done() and answer.set_running_or_notify_cancel():
        answer.set_exception(PeerLost(f"nobody will give the lock any more: {reason}"))


def _given_up(token: str) -> dict[str, Any]:
    return {"pzc": "unlock", "token": token, "given_up": True}


def _nothing() -> None:
    return None
