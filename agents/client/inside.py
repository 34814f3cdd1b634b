"""Local connection: calls of a server of this process, in the caller's thread."""

from __future__ import annotations

import threading
from typing import Any

from ...protocol.frames import PZC01, Kind
from ...protocol.message import Facts, Identity, Message
from ...protocol.peer import Peer
from ..here import NOT_NOW, LocalCalls

__all__ = ["NOT_NOW", "LocalConnection"]


class LocalConnection:
    """The way to a server of this process; any number of threads use it at once.

    Args:
        local: runs what can run now.
        peer: the server.
    """

    kind = "inproc"
    msgid = ""
    sent = True
    note: dict[str, Any] | None = None

    def __init__(self, local: LocalCalls, peer: Peer) -> None:
        self.peer = peer
        self.endpoint = peer.endpoint
        identity = Identity(peer.key_id, peer.agent_id)
        facts = Facts(PZC01, Kind.REPLY, peer.agent_id, "", None, local.trusted, identity)
        self._message = Message(facts, "", None, local.serializer, b"")
        self._call = local.call

    def exchange(self, content: Any, deadline: float, abort: threading.Event) -> tuple[Any, Message, str]:
        """As `Connection.exchange`; with `NOT_NOW` as content when it has to take another way."""
        answer = self._call(content)
        return answer, self._message, answer[1] if answer.__class__ is tuple and len(answer) == 3 else ""
