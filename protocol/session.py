"""Session: seals and opens the messages of one connection between two agents, at either end of it.

It makes and takes PZC01 requests and replies of every serializer, suite and size. What is the same for all of
them is worked out once: a small one costs few functions to seal and to open. It knows no clock, no socket.

States of what is received. A *bound* connection has a binding, which stands behind both agent ids under every
signature (``/nonce`` over a Unix socket), so nothing said elsewhere holds there::

    connection  end that   judged, in this order, once the signature held           remembered
    bound       answers    counter above `last`, serializer                        `last`, sealer
    bound       asks       serializer; who asked compares the id                   sealer
    not bound   answers    freshness, replay window (as given), serializer         window, sealer
    not bound   asks       serializer; who asked compares the id                   sealer

What does not hold raises a ProtocolError and leaves the session as it was. Nothing is decoded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from hmac import compare_digest
from typing import Any

from . import ids, serializers, signing
from .codec import FRESH_MS, Codec, stale, too_large
from .errors import FrameError, LocalProtocolError, ReplayedMessage, SignatureError
from .frames import PZC01, Buffer, Kind, check_frames, format_header, parse_header, text
from .ids import HEX, URN, Stamp, is_own_hex, is_own_urn, new_stamp
from .message import Facts, Message
from .signing import Direction, Party, Suite, mismatch
from .window import ReplayWindow

ARRAYS = 1
"""Bit of a request's sequence: its sender reads arrays beside the body, see `buffers`."""
REFERENCES = 2
"""Bit of a request's sequence: its sender reads references, and notes before a reply."""

_OWN_SIZE = 32
_LOW = (1 << 30) - 1
_NONE, _HMAC = Suite.NONE, Suite.HMAC_SHA256
_PLAIN_NAMES = {"buffers": "pickle", "arrays": "msgpack"}
"""By the serializer of a request with large arrays, that of an answer without."""

Terms = tuple[bytes, bytes, bytes, tuple[bytes, bytes, int], tuple[bytes, bytes, int]]
"""HMAC key, key id, serializer; of this end and of the peer: header, address and epoch."""

Plain = tuple[bytes, str, int, int]
"""Frame 2 and the text of frame 3 of a message, and time and counter of its sender."""


class Session:
    """One end of one connection.

    Safe from any thread. The counters of requests on a bound connection must arrive in their order: whoever
    shares such a session between threads takes a counter, seals and sends under one lock.

    Args:
        codec: what is accepted here, and preferred.
        own: this end.
        peer: the other one.
        asks: True at the end that makes the requests.
        binding: stands behind both agent ids under the signatures; empty when the connection proves nothing.
        suite: of what is sealed; default HMAC-SHA256. The codec's own goes first.
        serializer: of requests; default the codec's.
        abilities: bits that tell in each request what this end can read, such as `ARRAYS`.

    Attributes:
        facts: of all messages that are received.
        last: counter of the last request on a bound connection, -1 before the first.
        serializer: of requests.
        suite: code of that in which this end seals.
    """

    def __init__(
        self,
        codec: Codec,
        own: Party,
        peer: Party,
        *,
        asks: bool,
        binding: str = "",
        suite: Suite | None = None,
        serializer: str | None = None,
        abilities: int = 0,
    ) -> None:
        asker = own if asks else peer
        answerer = peer if asks else own
        self.codec, self.own, self.peer, self.asks, self.binding = codec, own, peer, asks, binding
        trusted = peer.key is not None and peer.key.trusted
        kind = Kind.REPLY if asks else Kind.REQUEST
        self.facts = Facts.of(PZC01, kind, peer.agent_id, "", peer.key, trusted=trusted)
        self.last = -1
        self._sequence = abilities
        self._header = format_header(PZC01, asker.agent_id, "", abilities)
        self._start = start = format_header(PZC01, answerer.agent_id, "", 0)[:-2]
        self._own, self._size = slice(len(start), len(start) + _OWN_SIZE), len(start) + _OWN_SIZE + 1
        self.serializer = serializer or codec.serializer_for(own.key)
        self._names = dict[bytes, str]()
        signed = (codec.suite or suite or _HMAC) if own.key else _NONE
        self._out = Direction(
            Kind.REQUEST if asks else Kind.REPLY, signed, own, peer.agent_id + binding, own.epoch
        )
        self._in = self._direction_in(codec.suite or suite or _HMAC, peer.epoch)
        self.suite = self._out.suite

    @classmethod
    def answering(
        cls,
        codec: Codec,
        agent_id: str,
        epoch: int,
        request: Message,
        *,
        binding: str = "",
        serializer: str | None = None,
    ) -> Session:
        """The end that answers; it knows its peer by a first request, which `Codec.open` has verified.

        Args:
            codec: as for the class.
            agent_id: of this end.
            epoch: of this end.
            request: the first one; its counter is the `last`.
            binding: as for the class.
            serializer: of the plain messages of both ends, see `terms`; default the codec's.
        """
        signer, stamp = request.signer, request.stamp
        if request.kind is not Kind.REQUEST or stamp is None:
            raise LocalProtocolError("a session begins with a PZC01 request")
        session = cls(
            codec, Party(agent_id, epoch, signer), Party(request.sender, stamp.epoch, signer),
            asks=False, binding=binding, suite=Suite(request.suite) or None,
            serializer=serializer, abilities=request.sequence,
        )  # fmt: skip
        session.last = stamp.counter
        return session

    def seal(
        self,
        content: object,
        ms: int,
        counter: int,
        *,
        answers: Message | None = None,
        serializer: str | None = None,
        packed: tuple[str, Buffer] | None = None,
    ) -> list[Buffer]:
        """Five frames: a request, whose id is frame 3, or a reply.

        Args:
            content: anything that the serializer can express.
            ms: Unix time in milliseconds.
            counter: the next one of this end's epoch.
            answers: the request that is answered; exactly at the end that answers.
            serializer: default that of the session, or of the request that is answered.
            packed: serializer and bytes of a content that was expressed before, instead of ``content``.

        Raises:
            SerializeError: when the serializer cannot express the content.
            LocalProtocolError: when the wire cannot carry it.
        """
        direction = self._out
        name, body = packed or self.pack(content, serializer, answers)
        size, high, low = len(body), counter >> 30, counter & _LOW
        if size > self.codec.max_content or ms >> 48:
            raise ids.no_time(ms) if ms >> 48 else too_large(size, self.codec.max_content)
        if answers is None:
            header = self._header
            msgid = URN % (ms >> 16, ms & 0xFFFF, high, 0x8000 | low >> 16, low & 0xFFFF, direction.epoch)
        else:
            msgid = answers.msgid.encode()
            header = self._start + HEX % (ms, high, 0x80000000 | low, direction.epoch) + b"+"
        frame_1, stamp = name.encode(), new_stamp(Stamp, (ms, counter, direction.epoch))
        tag, body = direction.seal(stamp, header, frame_1, msgid, body)
        return [header, frame_1, body, msgid, direction.head + tag + direction.tail]

    def pack(
        self, content: object, serializer: str | None = None, answers: Message | None = None
    ) -> tuple[str, Buffer]:
        """The serializer and bytes of a content, to be sealed later; arguments and errors as `seal`."""
        if answers is None:
            return serializers.pack(serializer or self.serializer, content)
        return pack_answer(content, answers, serializer)

    def open(
        self,
        frames: Sequence[Any],  # not Buffer: all but the content are bytes
        *,
        now_ms: int | None = None,
        offset_ms: int = 0,
        window: ReplayWindow | None = None,
    ) -> Message:
        """Verify five frames; the other arguments judge a request on a connection that is not bound.

        Raises:
            FrameError, VersionError, SignatureError, StaleMessage, ReplayedMessage, SerializerRefused: in
                this order of checks.
        """
        if len(frames) != 5:
            check_frames(frames)  # which says so
        header, name, body, msgid, proof = frames
        direction, size, sequence = self._in, len(body), 0
        if size > self.codec.max_content:
            check_frames(frames, self.codec.max_content)
        if self.asks:
            own = header[self._own]
            if len(header) != self._size or not header.startswith(self._start) or is_own_hex(own) is None:
                raise self._other(header)
        else:
            sequence = self._sequence if header == self._header else self._abilities(header)
            if is_own_urn(msgid) is None:
                raise FrameError(f"message id {msgid[:60]!r} is not a canonical urn:uuid: of this protocol")
            own = msgid[9:].replace(b"-", b"")
        if (
            proof[:1] != direction.head
            or proof[direction.tag_end :] != direction.tail
            or own[24:] != direction.digits
        ):
            direction = self._meet(proof, int(own[24:], 16))
        number = int(own[:24], 16)
        counter = (number >> 32 & 0xFFF) << 30 | number & _LOW
        stamp, tag = new_stamp(Stamp, (number >> 48, counter, direction.epoch)), proof[1 : direction.tag_end]
        if direction.hmac:
            if not compare_digest(direction.seal(stamp, header, name, msgid, body)[0], tag):
                raise mismatch()
        else:
            body = direction.open(stamp, header, name, msgid, body, tag)
        if not self.asks:
            if self.binding:
                if counter <= self.last:
                    raise ReplayedMessage(f"message {counter} came after message {self.last}")
                self.last = counter
            elif self.peer.key is not None:
                self._judge(stamp, now_ms, offset_ms, window)
        self._in = direction
        told = self._names.get(name) or self._name(name)
        return Message(
            self.facts, str(msgid, "utf-8", "replace"), stamp, told, body, direction.suite, sequence
        )

    def terms(self) -> Terms | None:
        """What somebody else needs to make and judge the plain messages of a bound connection.

        Returns:
            None when there are none: another suite than HMAC is used, two keys, or a serializer of no name.
        """
        key = self.own.key
        same = key is self.peer.key and self.suite == (_HMAC if key else _NONE)
        if not (same and self.binding and self.codec.opens(self.serializer)):
            return None
        headers = (self._header, self._start) if self.asks else (self._start, self._header)
        own, peer = (
            (header, (party.agent_id + self.binding).encode(), party.epoch)
            for header, party in zip(headers, (self.own, self.peer), strict=True)
        )
        secret, key_id = (key.hmac_key, key.key_id.encode()) if key else (b"", b"")
        return secret, key_id, self.serializer.encode(), own, peer

    def take(self, plain: Plain) -> Message:
        """What `open` would have made of a plain message that somebody else has verified by `terms`."""
        body, msgid, ms, counter = plain
        self.last = counter
        stamp = new_stamp(Stamp, (ms, counter, self.peer.epoch))
        sequence = 0 if self.asks else self._sequence
        return Message(self.facts, msgid, stamp, self.serializer, body, self.suite, sequence)

    def _judge(self, stamp: Stamp, now_ms: int | None, offset_ms: int, window: ReplayWindow | None) -> None:
        if now_ms is not None and not -FRESH_MS <= now_ms + offset_ms - stamp.ms <= FRESH_MS:
            raise stale(now_ms + offset_ms - stamp.ms)
        if window is not None:
            of = self.facts.identity.key_id, self.peer.agent_id, stamp.epoch
            window.admit(of, stamp.ms, stamp.counter)

    def _abilities(self, header: bytes) -> int:
        """The sequence of a request that tells other abilities than the first one."""
        found = parse_header(header)
        if found.kind is not Kind.REQUEST or found.sender != self.peer.agent_id or found.key:
            raise self._other(header)
        return found.sequence

    def _other(self, header: bytes) -> FrameError:
        found = parse_header(header)  # tells what is wrong with one that is none
        if found.kind is not self.facts.kind:
            return FrameError(f"expected a {self.facts.kind.name.lower()}, received another kind")
        return FrameError(f"a message of {found.sender[:60]!r} on a connection to {self.peer.agent_id}")

    def _meet(self, proof: bytes, epoch: int) -> Direction:
        """The way of a message of another suite or epoch than the one before."""
        signature, key = signing.split(proof), self.peer.key
        signing.check_signed(signature.suite, key is not None)
        if key is not None and signature.rest != key.key_id:
            raise SignatureError(f"signed with the key {signature.rest[:16]!r}, expected {key.key_id}")
        direction = self._direction_in(signature.suite, epoch)
        if proof[direction.tag_end :] != direction.tail:
            raise SignatureError("the message is addressed to another agent")
        return direction

    def _direction_in(self, suite: Suite, epoch: int) -> Direction:
        signed = suite if self.peer.key else _NONE
        return Direction(self.facts.kind, signed, self.peer, self.own.agent_id + self.binding, epoch)

    def _name(self, frame: bytes) -> str:
        """The name of a serializer that is accepted, which is remembered."""
        name = text("serializer", frame)
        if not self.codec.opens(name):
            raise self.codec.refused(name)
        self._names[frame] = name
        return name


def pack_answer(content: object, request: Message, serializer: str | None = None) -> tuple[str, Buffer]:
    """The serializer, by default that of its request, and bytes of an answer; errors as `Session.seal`."""
    name = serializer or request.serializer
    if request.sequence & ARRAYS:
        return serializers.pack(name, content)
    name = _PLAIN_NAMES.get(name, name)
    return name, serializers.encode(name, content)
