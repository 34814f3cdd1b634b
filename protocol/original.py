"""Messages of the original Pizco (PZC00): HMAC-SHA1 over the joined frames, and no time, kind or receiver.

A notification has a topic, a request and its reply have none. The signature does not say where frames end:
no signed notification may read as a request when its topic moves to the front of frame 1 (`is_told_apart`).
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from . import serializers, signing
from .errors import FrameError, LocalProtocolError, SignatureError
from .frames import PZC00, Buffer, Header, Kind, format_msgid, open_header, text
from .ids import is_urn
from .keyring import Key, Keyring
from .message import Facts, Message

_PLAIN_TAG = 20


def encode(
    keyring: Keyring | None, sender: str, topic: str, serializer: str, body: Buffer, msgid: str
) -> list[Buffer]:
    """Five frames.

    Args:
        keyring: whose active key signs; None sends unsigned.
        sender: REP endpoint.
        topic: empty for requests and replies.
        serializer: name.
        body: frame 2.
        msgid: any text; a ``urn:uuid:`` when signed.

    Raises:
        LocalProtocolError: when the wire cannot carry it.
    """
    header, name, msgid_frame = open_header(PZC00, sender, topic), serializer.encode(), format_msgid(msgid)
    if keyring is None:
        return [header, name, body, msgid_frame, b""]
    if not is_urn(msgid):
        raise LocalProtocolError(f"a signed PZC00 message needs a urn:uuid: as id, not {msgid!r}")
    tag = signing.sign_00(keyring.publishing if topic else keyring.active, (header, name, body, msgid_frame))
    return [header, name, body, msgid_frame, tag]


def is_told_apart(topic: str) -> bool:
    """False for a topic that begins like the name of a serializer.

    With that topic in frame 1, the notification would read as a request in that serializer.
    """
    return not topic.startswith(serializers.names())


def open_frames(
    keyring: Keyring | None, header: Header, frames: Sequence[Buffer], kind: Kind | None
) -> Message:
    """Verify the signature when there is a keyring, else only its size.

    Raises:
        FrameError: for a message id or signature of another form, or another kind of message.
        SignatureError: when no key fits.
    """
    kind = kind or (Kind.NOTIFICATION if header.topic else Kind.REQUEST)
    if (kind is Kind.NOTIFICATION) is not bool(header.topic):
        raise FrameError(f"a PZC00 {kind.name.lower()} with the topic {header.topic[:60]!r} is none")
    name, msgid = text("serializer", frames[1]), text("message id", frames[3])
    key = None
    if keyring is not None:
        if not is_urn(msgid):
            raise FrameError(f"message id {msgid[:60]!r} is not a canonical urn:uuid:")
        key = _signer(keyring, frames)
    elif len(frames[4]) not in (0, _PLAIN_TAG):
        raise FrameError(f"a PZC00 signature has 0 or 20 bytes, received {len(frames[4])}")
    return Message(Facts.of(PZC00, kind, header.sender, header.topic, key), msgid, None, name, frames[2])


def _signer(keyring: Keyring, frames: Sequence[Buffer]) -> Key:
    signature = bytes(frames[4])
    if not signature:
        raise SignatureError("the message is not signed and this agent requires a signature")
    signed = (frames[0], frames[1], frames[2], frames[3])
    for key in keyring:
        if hmac.compare_digest(signing.sign_00(key, signed), signature):
            return key
    raise SignatureError("the signature does not match: keys differ, or the message was altered")
