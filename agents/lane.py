"""Lane: the order in which one agent executes requests, one at a time in one thread.

::

    request                                     what happens
    control ('info', 'ping', hello, ...)        answered at once, in the I/O thread
    handshake with any other content            refused: it is not addressed to this agent
    role of its key too low                     refused
    content above 64 KiB                        decoded in the lane, then as the next line
    anything else                               waits for its turn, then on_request answers
    any, while the agent is being stopped       refused, and not executed
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ..protocol.errors import AgentClosed, FrameError, PeerLost, Refused, RoleRefused, SignatureError
from ..protocol.keyring import Role
from .dispatch import Executor
from .endpoints import DECODE_LATER
from .messages import raised
from .responder import Request, Responder
from .wire import Protocol

logger = logging.getLogger("pzc.lane")

_STOPPING = "this agent is being stopped; the request was not executed"


def authorize(request: Request, needed: Role) -> None:
    """Check the role of the key that signed a request; unsigned ones are not restricted.

    Raises:
        RoleRefused: naming the key, its role and the role that it takes.
    """
    signer = request.envelope.signer
    if signer is not None and signer.role < needed:
        raise RoleRefused(
            f"key {signer.name} is {signer.role.name.lower()}; this needs {needed.name.lower()}"
        )


class Lane:
    """Takes verified requests in the I/O thread and answers them in its own.

    Args:
        name: of the agent, for the thread's name.
        protocol: decodes.
        responder: sends the answers.
        control: answers a control request; False for any other content.
        role_needed: role that a content takes.
        on_request: answers; sender, topic, content, message id.
    """

    def __init__(
        self,
        name: str,
        protocol: Protocol,
        responder: Responder,
        control: Callable[[Request, Any], bool],
        role_needed: Callable[[Any], Role],
        on_request: Callable[[str, str, Any, str], Any],
    ) -> None:
        self._protocol = protocol
        self._responder = responder
        self._control = control
        self._role_needed = role_needed
        self._on_request = on_request
        self._executor = Executor(f"pzc-lane {name}".strip())
        self._ending = False

    def handle(self, request: Request) -> None:
        """Answer a request, or queue it; I/O thread.

        Raises:
            PzcError: why it was not taken.
        """
        size = len(request.envelope.content)
        if size > DECODE_LATER:
            if request.handshake:
                raise FrameError(f"a handshake of {size} bytes is too large")
            self._submit(request, partial(self._decode_and_answer, request))
            return
        content = self._protocol.content(request.envelope)
        if self._control(request, content):
            return
        if request.handshake:
            raise SignatureError("the request is not addressed to this agent, which may have been restarted")
        authorize(request, self._role_needed(content))
        self._submit(request, partial(self._answer, request, content))

    def _submit(self, request: Request, work: Callable[[], None]) -> None:
        try:
            taken = self._executor.submit(partial(self._work, request, work))
        except AgentClosed as exc:
            raise PeerLost(_STOPPING) from exc
        if not taken:
            raise Refused("the lane of this agent is full: too many requests are waiting")

    def _work(self, request: Request, work: Callable[[], None]) -> None:
        if self._ending:
            self._responder.refuse(request, PeerLost(_STOPPING))
        else:
            work()

    def _decode_and_answer(self, request: Request) -> None:
        try:
            content = self._protocol.content(request.envelope)
            authorize(request, self._role_needed(content))
        except Exception as exc:
            self._responder.refuse(request, exc)
            return
        self._answer(request, content)

    def _answer(self, request: Request, content: Any) -> None:
        envelope = request.envelope
        try:
            answer = self._on_request(envelope.sender, envelope.topic, content, envelope.msgid)
        except BaseException as exc:
            logger.warning("request %s of %s raised", envelope.msgid, envelope.sender, exc_info=True)
            answer = raised(exc)
        self._responder.reply(request, answer)

    def run(self, function: Callable[[], None]) -> None:
        """Run a function in its turn.

        Raises:
            AgentClosed: after `close`.
        """
        self._executor.submit(function)

    def in_thread(self) -> bool:
        """True when the caller is the lane's thread."""
        return self._executor.in_thread()

    def close(self) -> None:
        """Refuse what waits, and wait for what runs, at most 2 s; its answer is still sent."""
        self._ending = True
        for work in self._executor.abandon():
            work()
        self._executor.close()
