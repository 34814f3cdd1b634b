"""Inproc: calls of a server of the same process run directly, with the meaning that they have elsewhere.

Only a quick call whose turn is now runs in the caller's thread (see `execution`); every other takes
the way of another process, where it can be waited for with a timeout. Plain values are passed as they
are; whatever could be changed by either side is copied through the serializer, as the wire would.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from ...protocol import serializers
from ...protocol.errors import LocalProtocolError, SerializeError
from ...protocol.frames import PZC01
from ..calling.peers import Peer, is_direct
from ..messages import portable, raised
from ..sockets.inherited import forked_since, forks
from ..wire import Protocol
from .calls import Caller
from .execution import NOT_NOW, Execution

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_SIZED = frozenset({str, bytes})


class _Here:
    """What this process serves, by agent id."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.served: dict[str, tuple[Execution, Protocol]] = {}


_here = _Here()
os.register_at_fork(after_in_child=_here.forget)


def offer(agent_id: str, execution: Execution, protocol: Protocol) -> None:
    """An agent of this process takes direct calls from now on."""
    with _here.lock:
        _here.served[agent_id] = execution, protocol


def withdraw(agent_id: str) -> None:
    """An agent takes no more direct calls."""
    with _here.lock:
        _here.served.pop(agent_id, None)


class Direct:
    """The direct way to one agent of this process, for callers with one protocol.

    Attributes:
        serializer: of what is copied.
        trusted: True when pickles of the agent are unpickled in full, over the wire as well.
    """

    def __init__(
        self, execution: Execution, caller: Caller, serializer: str, max_content: int, trusted: bool
    ) -> None:
        self._execution = execution
        self._max_content = max_content
        self._caller = caller
        self.serializer = serializer
        self.trusted = trusted
        self._run = execution.direct
        self._forks = forks()

    def call(self, content: tuple[str, str, dict[str, Any]]) -> Any:
        """Content of the answer, or `NOT_NOW` when the call is to take another way.

        In a forked child it is always the other way, which refuses: the object here is only a copy.

        Raises:
            RoleRefused: as over the wire.
        """
        if forked_since(self._forks):
            return NOT_NOW
        options = content[2]
        for value in options.values():
            kind = type(value)
            if kind is tuple:
                for each in value:
                    kind = type(each)
                    if kind not in _PLAIN or (kind in _SIZED and len(each) > self._max_content):
                        return NOT_NOW
            elif kind not in _PLAIN or (kind in _SIZED and len(value) > self._max_content):
                return NOT_NOW  # the other way refuses what is too large
        answer = self._run(self._caller, content, (content[1], options.get("name")))
        if answer is NOT_NOW:
            return answer
        kind = type(answer[2])
        if kind in _PLAIN and not (kind in _SIZED and len(answer[2]) > self._max_content):
            return answer
        return self._copied(answer)

    def _copied(self, answer: Any) -> Any:
        name = self.serializer
        try:
            encoded = serializers.encode(name, portable(answer, PZC01, name))
            if len(encoded) > self._max_content:
                raise LocalProtocolError(
                    f"content has {len(encoded)} bytes, the limit is {self._max_content}"
                )
        except (SerializeError, LocalProtocolError) as exc:
            encoded = serializers.encode(name, portable(raised(exc), PZC01, name))
        return serializers.decode(name, encoded, trusted=self.trusted)


def is_here(agent_id: str) -> bool:
    """True for an agent of this process."""
    return agent_id in _here.served


def find(peer: Peer, agent_id: str, protocol: Protocol) -> Direct | None:
    """The direct way from an agent to a peer of this process; None when there is none.

    Args:
        peer: whom the handshake has met.
        agent_id: of the caller.
        protocol: of the caller; its key must be one of the peer's.
    """
    found = _here.served.get(peer.agent_id)
    if found is None or peer.dialect != PZC01 or not is_direct(peer):
        return None
    execution, theirs = found
    ours = protocol.codec.keyring
    key = None
    if theirs.codec.keyring is not None:
        key = None if ours is None else theirs.codec.keyring.find(ours.active.key_id)
        if key is None:
            return None
    limit = min(protocol.codec.max_content, theirs.codec.max_content)
    codec, caller = protocol.codec, Caller(agent_id, key, "inproc")
    return Direct(execution, caller, codec.serializer, limit, peer.key_id in codec.trusted)
