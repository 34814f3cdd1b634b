"""Short cut: the calls of one client that are like nearly all others, on their shortest way.

A client gets one when its first request has proved who it is. It serves messages of proxies that are
small, pickled, unsealed and want an answer; whatever else comes goes the general way, which knows all
rules. Both ways end in the same lane and the same actions. What is particular to a connection of the fast
lane is here, too; what is to tcp, in `regulars`.
"""

from __future__ import annotations

from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeGuard

from ...protocol.envelope import Envelope
from ...protocol.errors import PzcError, SerializeError
from ...protocol.frames import PZC01, Buffer, Kind
from ...protocol.ids import parse_urn
from ...protocol.session import AnsweringSession, Party
from ...protocol.signing import Suite
from ..counters import Counters
from ..messages import PS
from ..wire import Protocol
from .calls import Caller
from .execution import QUICK_ACTIONS, Execution
from .replies import CAPABLE_ARRAYS, Frames, Replies, Request, Transmit
from .results import Results

if TYPE_CHECKING:
    from .fastlane import Connection

_SUITES = (Suite.NONE, Suite.AES256_GMAC)


class House:
    """What the short cuts of one agent share.

    Args:
        protocol: of the agent.
        agent_id: of the agent.
        execution: runs the calls.
        replies: tells what a short cut cannot.
        results: keeps the answers.
        counters: where everything is counted.
    """

    def __init__(
        self,
        protocol: Protocol,
        agent_id: str,
        execution: Execution,
        replies: Replies,
        results: Results,
        counters: Counters,
    ) -> None:
        self.protocol = protocol
        self.agent_id = agent_id
        self.execution = execution
        self.replies = replies
        self.results = results
        self.counters = counters

    def serves(self, envelope: Envelope, signature: Buffer) -> bool:
        """True when the sender of a verified request may have a short cut."""
        signer, codec = envelope.signer, self.protocol.codec
        may_all = signer is None or (signer.trusted and not self.execution.always_asks)
        usual = envelope.serializer == "pickle" and "pickle" in codec.accept_serializers and not codec.suite
        return may_all and usual and signature[0] in _SUITES and not self.execution.affine


class ShortCut:
    """What all requests of one client have in common.

    Args:
        house: of the agent.
        envelope: a verified request of the client.
        header: of its requests.
        address: of the client, for people.
        binding: what stands behind both agent ids under the signatures.
    """

    def __init__(self, house: House, envelope: Envelope, header: bytes, address: str, binding: str) -> None:
        codec, sender, agent_id = house.protocol.codec, envelope.sender, house.agent_id
        key = None if codec.keyring is None else codec.keyring.active
        self.house = house
        self.caller = Caller(sender, envelope.signer, address)
        self._sequence = envelope.sequence
        self._receiver = sender + binding
        self.session = AnsweringSession(
            Party(agent_id, agent_id + binding, key, house.protocol.epoch),
            Party(sender, self._receiver, envelope.signer, envelope.epoch),
            header,
            bool(envelope.sequence & CAPABLE_ARRAYS),
            house.protocol.counter(),
        )

    def encode(self, frames: Frames, call_id: str, transmit: Transmit, answer: Any) -> Frames:
        """Frames of the answer to a request, which are kept."""
        made, house = None, self.house
        if answer[1] == "return":
            try:
                made = self.session.reply(answer, frames[3], time_ns() // 1_000_000)
            except SerializeError:  # the general way tells it
                made = None
        if made is None:
            made = house.replies.encode(self.request(frames, transmit), answer)
        if made[1] == b"pickle":  # a large one lies in the connection's memory
            house.results.keep_small(call_id, self.caller, self._receiver, made)
        return made

    def request(self, frames: Frames, transmit: Transmit) -> Request:
        """What the general way would have made of a message, whose answer is to be sent so."""
        msgid = str(frames[3], "ascii")
        envelope = Envelope(
            PZC01, Kind.REQUEST, self.caller.agent, "", self._sequence, "", msgid, parse_urn(msgid),
            self.caller.key, "pickle", frames[2], self.caller.key is not None and self.caller.key.trusted,
        )  # fmt: skip
        return self._request_of(envelope, frames, transmit)

    def _request_of(self, envelope: Envelope, frames: Frames, transmit: Transmit) -> Request:
        return Request(envelope, frames[4][0], False, self._receiver, self.caller.address, transmit)


class ConnectionCut(ShortCut):
    """Serves one connection of the fast lane.

    Args:
        connection: whose calls these are.
        house: as `ShortCut`.
        envelope: as `ShortCut`.
        header: as `ShortCut`.
    """

    def __init__(self, connection: Connection, house: House, envelope: Envelope, header: bytes) -> None:
        super().__init__(house, envelope, header, connection.address, f"/{connection.nonce}")
        self._connection = connection

    def _request_of(self, envelope: Envelope, frames: Frames, transmit: Transmit) -> Request:
        return self._connection.request(envelope, frames)

    def serve(self, frames: Frames) -> bool:
        """Execute and answer a request; False when it must go the general way, and nothing was done."""
        connection, house, session = self._connection, self.house, self.session
        try:
            found = session.verify(frames)
            if found is None or found[1] <= connection.last:
                return False
            content = session.decode(frames[2])
        except Exception:  # what cannot be decoded is told by the general way
            return False
        if not is_quick(content):
            return False
        connection.last = found[1]
        house.counters.add("requests")
        call_id = str(frames[3], "ascii")
        encode = partial(self.encode, frames, call_id, connection.transmit)
        try:
            answered = house.execution.quick_here(self.caller, content, call_id, encode, connection.is_gone)
        except PzcError as exc:
            house.replies.refuse(self.request(frames, connection.transmit), exc)
            return True
        connection.transmit(answered)
        return True


def is_quick(content: Any) -> TypeGuard[tuple[str, str, dict[str, Any]]]:
    """True for a message of a proxy that a short cut serves."""
    if type(content) is not tuple or len(content) != 3:
        return False
    word, action, options = content
    if type(word) is not str or type(action) is not str or type(options) is not dict:
        return False
    return word == PS and action in QUICK_ACTIONS and "oneway" not in options
