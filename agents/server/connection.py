"""Connection: one client's stream at a server.

It carries one awaited call at a time. The thread that serves it reads a request, runs it in its turn, writes
the answer and reads the next request. What can only be answered later, such as a lock that is waited for,
another thread answers.
"""

from __future__ import annotations

import logging
import os
import socket as sockets
import threading
from functools import partial
from time import monotonic

from ...protocol.errors import CallTimeout, FrameError, PzcError, RemoteProtocolError
from ...protocol.frames import PZC01, Kind, format_header, text
from ...protocol.handshake import Agreement
from ...protocol.ids import Stamp, is_own_urn
from ...protocol.message import Facts, Message
from ...transport.connecting import tuned
from ...transport.counters import Counters
from ...transport.inherited import mine
from ...transport.link_stream import peer_credentials
from ...transport.loop import Loop
from ...transport.stream import Stream
from ...transport.wire import Protocol
from .call import Asker, Call, Packed
from .dispatcher import Dispatcher

logger = logging.getLogger("pzc.stream")

IDLE = 90.0
"""Seconds after which a connection on which nothing is asked is closed; clients close theirs earlier."""

_SEND_TIMEOUT = 30.0


class AcceptedConnection:
    """A `Carrier` over a stream.

    Args:
        accepted: connected socket; taken over.
        protocol: of the agent that is asked.
        dispatcher: answers requests in the thread that brings them.
        counters: where requests and replies are counted.
        loop: whose thread never waits for a client.

    Attributes:
        stream: of the messages.
        pid: process id of a client on this host; 0 elsewhere.
        user: its user id; None elsewhere.
        place: where the client is, for people.
        key_id: of the client's key, once that is proved; empty without one.
    """

    waits = connected = True

    def __init__(
        self, accepted: sockets.socket, protocol: Protocol, dispatcher: Dispatcher, counters: Counters,
        loop: Loop,
    ) -> None:  # fmt: skip
        self.protocol = protocol
        self.key_id = ""
        self._dispatcher = dispatcher
        self._counters = counters
        self._loop = loop
        self._sending = threading.Lock()
        self._runs = self._ending = self._owes = False
        self.pid, self.user = 0, None
        if accepted.family in (sockets.AF_INET, sockets.AF_INET6):
            self.kind, self.place = "tcp", f"tcp {accepted.getpeername()[0]}"
            tuned(accepted)
        else:
            self.kind = "unix"
            self.pid, self.user = peer_credentials(accepted)
            self.place = f"unix pid {self.pid} uid {self.user}"
        self.stream = mine(partial(Stream, accepted, "the client"))

    def agree(self, agreement: Agreement, header: bytes) -> Asker:
        """Take what the handshake settled: whose requests these are; ``header`` is that of the answers."""
        key, ring = agreement.key, self.protocol.codec.keyring
        if self.pid == os.getpid() and ring is not None and key is ring.others_own:
            key = ring.active  # this process asks itself
        trusted = key is not None and key.trusted
        self._facts = Facts.of(PZC01, Kind.REQUEST, agreement.peer_id, "", key, trusted=trusted)
        self._suite, self._abilities = agreement.suite, agreement.peer_abilities
        self._stamp = Stamp(0, 0, agreement.peer_epoch)
        self._header, self._expected = header, format_header(PZC01, agreement.peer_id, "", 0)
        return Asker(agreement.peer_id, key, self.place, self, user=self.user)

    def serve(self, asker: Asker) -> None:
        """Answer requests, until one of both hangs up or nothing is asked for `IDLE` seconds.

        Raises:
            PeerLost, AgentClosed, CallTimeout: when it ends.
            RemoteProtocolError, FrameError, SignatureError: for a client that breaks the rules.
        """
        counts, handle, opened = self._counters.tally(), self._dispatcher.handle, dict[bytes, str]()
        receive, expected, codec = self.stream.receive, self._expected, self.protocol.codec
        try:
            while not self._ending:
                try:
                    header, name, msgid, content = receive(monotonic() + IDLE)
                except CallTimeout:  # a call that is answered later may take longer
                    if not self._owes or self.stream.hung_up():
                        raise
                    continue
                self._runs = self._owes = True
                if self._ending:
                    return
                if header != expected or is_own_urn(msgid) is None:
                    raise RemoteProtocolError(
                        f"header {header[:80]!r} and id {msgid[:60]!r} do not belong here"
                    )
                serializer = opened.get(name) or text("serializer", name)
                message = Message(
                    self._facts,
                    msgid.decode(),
                    self._stamp,
                    serializer,
                    content,
                    self._suite,
                    self._abilities,
                )
                counts["requests"] += 1
                taken = name in opened and len(content) <= codec.max_content
                error = None if taken else self._error_in(message)
                if error is None:
                    opened[name] = serializer
                    packed = handle(asker, message)
                else:
                    packed = self._dispatcher.replies.encode_refusal(Call(asker, message), error)
                if packed is not None:
                    if not self._send(message, packed, monotonic() + _SEND_TIMEOUT):
                        return
                    counts["replies"] += 1
                self._runs = False
        finally:
            self._counters.fold(counts)

    def _error_in(self, message: Message) -> RemoteProtocolError | None:
        """Why a request is not taken, which its client can be told."""
        codec, size = self.protocol.codec, len(message.content)
        if size > codec.max_content:
            return FrameError(f"content has {size} bytes, the limit is {codec.max_content}")
        return None if codec.opens(message.serializer) else codec.refused(message.serializer)

    def send(self, request: Call, packed: Packed) -> bool:
        """Send an answer; False when the client has gone. Any thread."""
        # A client reads while it waits: the I/O thread need not wait for one that does not.
        wait = 0.0 if self._loop.in_thread() else _SEND_TIMEOUT
        sent = self._send(request.message, packed, monotonic() + wait)
        self._counters.add("replies", sent)
        return sent

    def _send(self, message: Message, packed: Packed, deadline: float) -> bool:
        name, body = packed
        try:
            # Not for ever: the thread that sends may wait for a client that reads nothing.
            if not self._sending.acquire(timeout=max(0.0, deadline - monotonic())):
                raise CallTimeout("it has not read an earlier answer")
            try:
                self._owes = False
                self.stream.send(self._header, name.encode(), message.msgid.encode(), body, deadline)
            finally:
                self._sending.release()
        except PzcError as exc:
            self.stream.close()  # its client would wait for an answer that does not come
            self._counters.add("replies_lost")
            logger.info("a reply to %s could not be sent: %s", self.place, exc)
            return False
        return True

    def is_gone(self) -> bool:
        """True when the client has hung up."""
        return self.stream.hung_up()

    def end(self) -> None:
        """Close it after the call that runs; any thread."""
        self._ending = True
        if not self._runs:
            self.stream.close()
