"""Short cut: the calls of one connection that are like nearly all others, on their shortest way.

A connection gets one when its first request has proved who its client is. It serves messages of
proxies that are small, pickled, unsealed and wanted an answer; whatever else comes goes the general way,
which knows all rules. Both ways end in the same lane and the same actions.
"""

from __future__ import annotations

from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any

from ..protocol.envelope import Envelope
from ..protocol.errors import PzcError, SerializeError
from ..protocol.frames import PZC01, Kind
from ..protocol.ids import parse_urn
from ..protocol.keyring import Role
from ..protocol.session import AnsweringSession, Party
from ..protocol.signing import Suite
from .calls import Caller
from .execution import QUICK_ACTIONS
from .messages import PS
from .replies import CAPABLE_ARRAYS, Frames, Request

if TYPE_CHECKING:
    from .fastlane import Connection

_SUITES = (Suite.NONE, Suite.AES256_GMAC)


def short_cut(connection: Connection, envelope: Envelope, frames: Frames) -> ShortCut | None:
    """The short cut of a connection, after its first request; None when it is to have none."""
    fast, signer = connection.fast, envelope.signer
    codec = fast.protocol.codec
    may_all = signer is None or signer.role >= Role.OPERATOR
    usual = envelope.serializer == "pickle" and "pickle" in codec.accept_serializers
    if not (may_all and usual and frames[4][0] in _SUITES) or codec.suite or fast.execution.affine:
        return None
    return ShortCut(connection, envelope, bytes(frames[0]))


class ShortCut:
    """Serves one connection.

    Args:
        connection: whose calls these are.
        envelope: its first request.
        header: of its requests.
    """

    def __init__(self, connection: Connection, envelope: Envelope, header: bytes) -> None:
        fast, sender = connection.fast, envelope.sender
        keyring = fast.protocol.codec.keyring
        key = None if keyring is None else keyring.active
        self._connection = connection
        self._fast = fast
        self._sequence = envelope.sequence
        self._caller = Caller(sender, envelope.signer, connection.address)
        self._receiver = f"{sender}/{connection.nonce}"
        self._session = AnsweringSession(
            Party(fast.agent_id, connection.receiver, key, fast.protocol.epoch),
            Party(sender, self._receiver, envelope.signer, envelope.epoch),
            header,
            bool(envelope.sequence & CAPABLE_ARRAYS),
            fast.protocol.counter(),
        )

    def serve(self, frames: Frames) -> bool:
        """Execute and answer a request; False when it must go the general way, and nothing was done."""
        connection, fast = self._connection, self._fast
        try:
            found = self._session.open(frames)
        except Exception:  # what cannot be decoded is told by the general way
            return False
        if found is None:
            return False
        counter, content = found
        if counter <= connection.last or not _is_quick(content):
            return False
        connection.last = counter
        fast.counters.add("requests")
        call_id = str(frames[3], "ascii")
        try:
            answered = fast.execution.quick_here(
                self._caller, content, call_id, partial(self._encode, frames, call_id), connection.is_gone
            )
        except PzcError as exc:
            fast.replies.refuse(self._request(frames), exc)
            return True
        connection.transmit(answered)
        return True

    def _encode(self, frames: Frames, call_id: str, answer: Any) -> Frames:
        made = None
        if answer[1] == "return":
            try:
                made = self._session.reply(answer, frames[3], time_ns() // 1_000_000)
            except SerializeError:
                made = None  # the general way tells it
        made = made or self._fast.replies.encode(self._request(frames), answer)
        if made[1] == b"pickle":  # a large one lies in the connection's memory
            self._fast.results.keep_small(call_id, self._caller, self._receiver, made)
        return made

    def _request(self, frames: Frames) -> Request:
        """What the general way would have made of a message."""
        envelope = Envelope(
            PZC01, Kind.REQUEST, self._caller.agent, "", self._sequence, "", str(frames[3], "ascii"),
            parse_urn(str(frames[3], "ascii")),            self._caller.key, "pickle", frames[2],
        )  # fmt: skip
        return self._connection.request(envelope, frames)


def _is_quick(content: Any) -> bool:
    if type(content) is not tuple or len(content) != 3 or content[0] != PS:
        return False
    action, options = content[1], content[2]
    known = type(action) is str and action in QUICK_ACTIONS
    return known and type(options) is dict and "oneway" not in options
