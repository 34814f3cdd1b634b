"""Reply: what came back for a request."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from ...protocol.codec import Envelope
from ...protocol.errors import PzcError, SignatureError
from ...protocol.frames import PZC01
from ..counters import Counters
from ..messages import read_refusal
from ..wire import Protocol
from .peers import Peer


class Reply(NamedTuple):
    """A decoded reply, how its parts may be decoded, who sent it, and what it refused with.

    ``trusted`` tells whether pickles in it may be unpickled in full, ``key_id`` who signed it.
    """

    content: Any
    serializer: str
    trusted: bool
    sender: str
    key_id: str = ""
    refusal: PzcError | None = None


def accepted(reply: Reply) -> Reply:
    """The reply, when it is no refusal.

    Raises:
        PzcError: the refusal.
    """
    if reply.refusal is not None:
        raise copy.copy(reply.refusal)  # the frames of its traceback hold the reply
    return reply


def decoded(protocol: Protocol, counters: Counters, peer: Peer, envelope: Envelope) -> Reply:
    """A verified reply, decoded once it is known whose it is.

    Only a refusal, which is always json, may come from another agent or key than those of the peer's
    handshake; no pickle of a peer that was not met yet, or of an original Pizco, is trusted.

    Raises:
        SignatureError: when the holder of another key answered in the peer's place.
        DecodeError, SerializerRefused: when the content cannot be decoded.
    """
    met = peer.dialect == PZC01 and bool(peer.agent_id)
    strange = met and (envelope.sender, envelope.key_id) != (peer.agent_id, peer.key_id)
    trusted = envelope.trusted = envelope.trusted and met
    content = refusal = None
    if not strange or envelope.serializer == "json":
        content = protocol.content(envelope, writable=True)
        refusal = read_refusal(content) if envelope.dialect == PZC01 else None
    if strange and refusal is None:
        counters.add("replies_refused")
        raise SignatureError(f"the reply of {peer.endpoint} is by another agent or with another key")
    return Reply(content, envelope.serializer, trusted, envelope.sender, envelope.key_id, refusal)
