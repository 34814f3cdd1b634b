"""Execution: verified requests become answers, in whatever thread they came.

::

    request                                     what happens
    control ('info', 'ping', hello, ...)        answered at once
    handshake with any other content            refused: it is not addressed to this agent
    role of its key too low                     refused
    from a caller's connection (Unix socket)    runs in the connection's thread, in its turn
    through the I/O thread, quick of late       runs there, when its turn is now
    through the I/O thread, anything else       runs in a worker of the lane, in its turn
    content above 64 KiB                        is decoded where it runs
    any, while the agent is being stopped       refused, and not executed

Quick is what ended within `quick_call` seconds the last `PROOFS` times. Should it be slow for once,
another thread becomes the I/O thread meanwhile (see `loop`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from ...protocol import limits
from ...protocol.envelope import Envelope
from ...protocol.errors import FrameError, RemoteProtocolError, RoleRefused, SignatureError
from ...protocol.frames import PZC00
from ...protocol.keyring import Key, Role
from ...protocol.shown import printable
from ..messages import ps_message, raised, read_ps_message
from ..sockets.endpoints import DECODE_LATER
from ..sockets.loop import Loop
from ..wire import Protocol
from .calls import Call, Caller, Calls, reset_current, set_current
from .lane import Lane, Turn
from .replies import Frames, Replies, Request
from .results import Results

logger = logging.getLogger("pzc.execution")

PROOFS = 3
"""Times in succession that a request must have been quick."""

QUICK_ACTIONS = frozenset({"exec", "get", "getattr", "setattr"})
"""Actions that an operator may do, whatever their options say."""

AT_ONCE = frozenset({"describe", "inspect"})
"""Actions that only look at the served object, so that a proxy can be made while a slow call runs."""

_MAX_NAMES = 4096

T = TypeVar("T")

_LARGE = ("", "a large content")


def authorize(signer: Key | None, needed: Role) -> None:
    """Check the role of the key that signed a request; unsigned ones are not restricted.

    Raises:
        RoleRefused: naming the key, its role and the role that it takes.
    """
    if signer is not None and signer.role < needed:
        raise RoleRefused(
            f"key {signer.name} is {signer.role.name.lower()}; this needs {needed.name.lower()}"
        )


class Execution:
    """Runs the requests of one agent.

    Args:
        loop: whose thread may run quick requests.
        protocol: decodes.
        replies: formats and sends the answers.
        lane: order of execution.
        results: keeps the answers for callers that lost their connection.
        control: answers a control request; False for any other content.
        role_needed: role that a content takes.
        on_request: answers; sender, topic, content, message id.

    Attributes:
        act: answers a message of a proxy: action, options, call; default by `on_request`.
        always_asks: ``role_needed`` is a user's: it is asked about every signed call, of admins as well.
        on_refused: told every request that was refused because of its key's role.
        before_queue: called before a request is queued in the lane.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: Protocol,
        replies: Replies,
        lane: Lane,
        results: Results,
        control: Callable[[Request, Any], bool],
        role_needed: Callable[[Any], Role],
        on_request: Callable[[str, str, Any, str], Any],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._replies = replies
        self._results = results
        self._control = control
        self._role_needed = role_needed
        self._on_request = on_request
        self._lane = lane
        self.calls = Calls(lane)
        self.act: Callable[[str, Any, Call], Any] = self._act_on_request
        self.always_asks = False
        self.on_refused: Callable[[Call, Any, BaseException], None] = _nothing
        self.before_queue: Callable[[], object] = _nothing
        self._proofs: dict[tuple[str, object], int] = {}

    def handle(self, request: Request) -> None:
        """Answer a request, or queue it; I/O thread, which the calling thread may be no more afterwards.

        Raises:
            PzcError: why it was not taken.
        """
        if len(request.envelope.content) > DECODE_LATER:
            self._submit(request, None, self._begin(request, _LARGE))
            return
        content = self._admit(request)
        if content is _ANSWERED:
            return
        name = _name_of(content)
        call = self._begin(request, name)
        if self._proofs.get(name, 0) >= PROOFS and not self._lane.affine and self._lane.enter_now():
            self._loop.step_aside()
            try:
                frames = self._lane.here(partial(self._answer, request, content, call))
            except BaseException as exc:  # such as SystemExit, by a result that is being encoded
                self.calls.end(call)
                raise RemoteProtocolError("the answer could not be written") from exc
            finally:
                self._lane.leave()
                self._loop.step_back()
            self._finish(request, call, frames)
        else:
            self._submit(request, content, call)

    def handle_here(self, request: Request) -> None:
        """Answer a request in the calling thread, which serves one connection; errors as `handle`."""
        large = len(request.envelope.content) > DECODE_LATER
        content = None if large else self._admit(request)
        if content is _ANSWERED:
            return
        call = self._begin(request, _LARGE if large else _name_of(content))
        if self._lane.affine:
            self._submit(request, content, call)
            return
        turn = call.turn = Turn()
        try:
            self._lane.enter(turn, request.gone)
        except BaseException:
            self.calls.end(call)
            raise
        try:
            run = partial(self._answer, request, content, call)
            frames = self._lane.here(partial(self._decode_and_answer, request, call) if large else run)
        finally:
            self._lane.leave()
        self._finish(request, call, frames)

    def quick_here(
        self,
        caller: Caller,
        content: tuple[str, str, dict[str, Any]],
        call_id: str,
        encode: Callable[[Any], T],
        gone: Callable[[], bool],
    ) -> T:
        """Run a message of a proxy in the calling thread, in its turn; what its answer is encoded to.

        For `QUICK_ACTIONS` of a caller who may do all of them, when `affine` is False.

        Raises:
            CallCancelled, PeerLost, Refused: as `Lane.enter`.
            SerializeError: as ``encode``.
        """
        name = content[2].get("name")
        call = Call(call_id, caller, None, (content[1], name if type(name) is str else None))
        self.calls.begin(call)
        try:
            if not self._lane.enter_now():
                call.turn = Turn()
                self._lane.enter(call.turn, gone)
            try:
                return encode(self.perform(call, self.act, content[1], content[2]))
            finally:
                self._lane.leave()
        finally:
            self.calls.end(call)

    def quick_aside(
        self,
        caller: Caller,
        content: tuple[str, str, dict[str, Any]],
        call_id: str,
        encode: Callable[[Any], T],
    ) -> T | None:
        """As `quick_here`, in the I/O thread, which the calling thread may be no more afterwards.

        None when it is not known to be quick, or its turn is not now; nothing was done.

        Raises:
            RemoteProtocolError: when a call of that id runs or waits.
            SerializeError: as ``encode``.
        """
        member = content[2].get("name")
        name = (content[1], member if type(member) is str else None)
        if self._proofs.get(name, 0) < PROOFS or not self._lane.enter_now():
            return None
        try:
            call = Call(call_id, caller, None, name)
            self.calls.begin(call)
            self._loop.step_aside()
            try:
                return encode(self.perform(call, self.act, content[1], content[2]))
            finally:
                self.calls.end(call)
                self._loop.step_back()
        finally:
            self._lane.leave()

    @property
    def affine(self) -> bool:
        """True when every call runs in one thread."""
        return self._lane.affine

    def _admit(self, request: Request) -> Any:
        content = self._protocol.content(request.envelope, writable=True)
        if self._control(request, content):
            return _ANSWERED
        if request.handshake:
            raise SignatureError("the request is not addressed to this agent, which may have been restarted")
        if request.envelope.signer is not None:
            self._authorize(request, content)
        if self._lane.running and _name_of(content)[0] in AT_ONCE:
            envelope = request.envelope
            answer = self._on_request(envelope.sender, envelope.topic, content, envelope.msgid)
            self._replies.reply(request, answer)
            return _ANSWERED
        return content

    def _authorize(self, request: Request, content: Any) -> None:
        self.judge(Call(request.envelope.msgid, request.caller), content)

    def judge(self, call: Call, content: Any) -> None:
        """Check the role of a call's key.

        Raises:
            RoleRefused: after `on_refused` was told.
        """
        try:
            authorize(call.caller.key, self._role_needed(content))
        except RoleRefused as exc:
            self.on_refused(call, content, exc)
            raise

    def _begin(self, request: Request, name: tuple[str, object]) -> Call:
        envelope = request.envelope
        if request.handshake:
            raise FrameError(f"a handshake of {len(envelope.content)} bytes is too large")
        call = Call(envelope.msgid, request.caller, None, name)
        self.calls.begin(call)
        return call

    def _submit(self, request: Request, content: Any, call: Call) -> None:
        work = partial(self._run, request, content, call)
        turn = call.turn = Turn(work, partial(self._refuse, request, call))
        self.before_queue()
        try:
            self._lane.submit(turn)
        except BaseException:
            self.calls.end(call)
            raise

    def _refuse(self, request: Request, call: Call, error: Exception) -> None:
        self.calls.end(call)
        self._replies.refuse(request, error)

    def _run(self, request: Request, content: Any, call: Call) -> None:
        if len(request.envelope.content) > DECODE_LATER:
            self._finish(request, call, self._decode_and_answer(request, call))
        else:
            self._finish(request, call, self._answer(request, content, call))

    def _decode_and_answer(self, request: Request, call: Call) -> Frames | None:
        """None when the control has answered."""
        try:
            content = self._protocol.content(request.envelope, writable=True)
            if self._control(request, content):
                return None
            self._authorize(request, content)
        except Exception as exc:
            return self._replies.encode_refusal(request, exc)
        return self._answer(request, content, call)

    def _answer(self, request: Request, content: Any, call: Call) -> Frames:
        envelope = request.envelope
        message = read_ps_message(content)
        if message is not None and isinstance(message[1], dict) and message[1].get("oneway"):
            request.oneway = True
        answer = self.perform(call, self._run_request, envelope, content)
        return self._replies.encode(request, answer)

    def _run_request(self, envelope: Envelope, content: Any, call: Call) -> Any:
        return self._on_request(envelope.sender, envelope.topic, content, envelope.msgid)

    def _act_on_request(self, action: str, options: Any, call: Call) -> Any:
        return self._on_request(call.caller.agent, "", ps_message(action, options), call.id)

    def perform(self, call: Call, run: Callable[[Any, Any, Call], Any], what: Any, content: Any) -> Any:
        """Run one request, whose turn it is, in the calling thread; the content of its answer.

        Args:
            call: is the current one meanwhile.
            run: gets ``what``, ``content`` and the call; what it raises becomes the answer.
            what: action of a message of a proxy, or the envelope of any request.
            content: options of the message, or content of the request.
        """
        started = monotonic()
        call.protocol = self._protocol
        token = set_current(call)
        try:
            answer = run(what, content, call)
        except BaseException as exc:
            logger.warning("request %s of %s raised", call.id, printable(call.caller.agent), exc_info=True)
            answer = raised(exc)
        finally:
            reset_current(token)
        proofs, name = self._proofs, call.name
        if monotonic() - started >= limits.current.quick_call:
            proofs[name] = 0
        elif (proved := proofs.get(name, 0)) < PROOFS:
            proofs[name] = proved + 1
            if len(proofs) > _MAX_NAMES:
                proofs.clear()
        return answer

    def is_quick(self, name: tuple[str, object]) -> bool:
        """True when calls of this action and member have proved quick."""
        return self._proofs.get(name, 0) >= PROOFS

    def perform_message(self, call: Call, content: tuple[str, str, dict[str, Any]]) -> Any:
        """As `perform`, a message of a proxy."""
        return self.perform(call, self.act, content[1], content[2])

    def direct(self, caller: Caller, content: Any, name: tuple[str, object]) -> Any:
        """Answer of a request of this process, or `NOT_NOW` when it may not run in the caller's thread.

        Raises:
            RoleRefused: as over the wire.
        """
        if self._proofs.get(name, 0) < PROOFS or self._lane.affine or not self._lane.enter_now():
            return NOT_NOW
        try:
            key = caller.key
            if key is not None and (key.role < Role.ADMIN or self.always_asks):
                authorize(key, self._role_needed(content))
            call = Call("", caller, None, name, lane=self._lane)
            return self.perform(call, self.act, content[1], content[2])
        finally:
            self._lane.leave()

    def _finish(self, request: Request, call: Call, frames: Frames | None) -> None:
        if frames is None:
            self.calls.end(call)
            return
        if request.envelope.dialect != PZC00:
            self._results.keep(call, request.receiver, frames)
        self.calls.end(call)
        self._replies.send(request, frames)


def _nothing(*_: object) -> None:
    """Nobody wants to know."""


_ANSWERED = object()

NOT_NOW = object()
"""`Execution.direct` did nothing."""


def _name_of(content: Any) -> tuple[str, object]:
    """What a request is about, to tell quick ones from slow ones."""
    message = read_ps_message(content)
    if message is None:
        return "", None
    name = message[1].get("name") if isinstance(message[1], dict) else None
    return message[0], name if isinstance(name, str) else None
