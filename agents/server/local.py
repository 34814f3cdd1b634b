"""Local: calls of a server of the same process, which its dispatcher runs in the caller's thread.

Only a call that has proved quick and whose turn is now runs so (see `lane`); every other takes the way of
another process, where it can be waited for with a timeout. Plain values are passed as they are; whatever
could be changed by either side is copied through the serializer, as the wire would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol import serializers
from ...protocol.codec import Codec, too_large
from ...protocol.contents import portable, raised
from ...protocol.errors import LocalProtocolError, SerializeError
from ...protocol.frames import PZC01, Kind
from ...protocol.keyring import Key
from ...protocol.message import Facts, Message
from ...protocol.session import REFERENCES
from ...protocol.weighing import ATOMS
from ...transport.inherited import forked_since, forks
from ...transport.wire import Protocol
from ..here import NOT_NOW
from .call import Asker, Call, Frames, Packed
from .dispatcher import Dispatcher

_SIZED = frozenset({str, bytes})
_type: Callable[[object], type[Any]] = type


class _Carrier:
    """What local calls come by; nothing is ever sent back."""

    kind = "local"
    waits = False

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol

    def send(self, request: Call, packed: Packed) -> bool:
        """Nobody takes it."""
        return False

    def transmit(self, frames: Frames, request: Call) -> bool:
        """Nobody takes frames."""
        return False

    def is_gone(self) -> bool:
        """Whoever asks is in the call."""
        return False


class Local:
    """The local way to one agent of this process, for one caller.

    Args:
        dispatcher: of the agent.
        theirs: protocol of the agent.
        key: of the caller, as the agent has it; None without keys.
        caller: agent id of the caller.
        codec: of the caller.
        trusted: True when pickles of the agent are unpickled in full, over the wire as well.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        theirs: Protocol,
        key: Key | None,
        caller: str,
        codec: Codec,
        trusted: bool,
    ) -> None:
        self._max_content = min(codec.max_content, theirs.codec.max_content)
        self._caller = Asker(caller, key, "inproc", _Carrier(theirs))
        facts = Facts.of(PZC01, Kind.REQUEST, caller, "", key)
        self._message = Message(facts, "", None, codec.serializer, b"", sequence=REFERENCES)
        self.serializer = codec.serializer
        self.trusted = trusted
        self._run = dispatcher.local
        self._forks = forks()

    def call(self, content: tuple[str, str, dict[str, Any]]) -> Any:
        """Content of the answer, or `NOT_NOW` when the call is to take another way.

        In a forked child it is always the other way, which refuses: the object here is only a copy.

        Raises:
            RoleRefused: as over the wire.
        """
        if forked_since(self._forks):
            return NOT_NOW
        most = self._max_content
        value: Any
        for value in content[2].values():
            kind = _type(value)
            if kind is str or kind is bytes:
                if len(value) > most:
                    return NOT_NOW  # the other way refuses what is too large
            elif kind is tuple:
                for each in value:
                    kind = _type(each)
                    if kind not in ATOMS or (kind in _SIZED and len(each) > most):
                        return NOT_NOW
            elif kind not in ATOMS:
                return NOT_NOW
        answer = self._run(self._caller, self._message, content)
        if answer is NOT_NOW:
            return answer
        if answer.__class__ is tuple and len(answer) == 3:
            value = answer[2]
            kind = _type(value)
            if kind in ATOMS and not (kind in _SIZED and len(value) > most):
                return answer
        return self._copied(answer)

    def _copied(self, answer: Any) -> Any:
        name = self.serializer
        try:
            content = portable(answer, PZC01, name)
            if name == "pickle":
                name, encoded = serializers.encode_arrays(content)  # as the wire, so that arrays are writable
            else:
                encoded = serializers.encode(name, content)
            if len(encoded) > self._max_content:
                raise too_large(len(encoded), self._max_content)
        except (SerializeError, LocalProtocolError) as exc:
            encoded = serializers.encode(name, portable(raised(exc), PZC01, name))
        return serializers.decode(name, encoded, trusted=self.trusted, writable=True)


def way_to(
    dispatcher: Dispatcher, theirs: Protocol, peer_key: str, caller: str, protocol: Protocol
) -> Local | None:
    """The local way to an agent of this process; None when there is none.

    Args:
        dispatcher: of the agent.
        theirs: protocol of the agent.
        peer_key: id of the key of its handshake.
        caller: agent id of the caller.
        protocol: of the caller; its key must be one of the agent's.
    """
    codec, key = protocol.codec, None
    if theirs.codec.keyring is not None:
        key = None if codec.keyring is None else theirs.codec.keyring.find(codec.keyring.calling.key_id)
        if key is None:
            return None
    return Local(dispatcher, theirs, key, caller, codec, peer_key in codec.trusted)
