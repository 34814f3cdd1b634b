"""A client of a listener in the hands of a test, which speaks as agent ``ME``."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any

from pzc import Agent, Protocol
from pzc.protocol import serializers
from pzc.protocol.frames import PZC01, format_header
from pzc.protocol.handshake import RANDOM_SIZE, Agreement, ClientHandshake, SessionOptions
from pzc.transport.connecting import connect_tcp, connect_unix, handshake_with
from pzc.transport.endpoints import split
from pzc.transport.stream import Stream

from tests.contract.rigs.calling import KEY, TIMEOUT

ME = "f" * 32
COUNT = ("PSMessage", "exec", {"name": "count", "method": "__call__"})
WAIT = ("PSMessage", "exec", {"name": "wait", "method": "__call__"})


def connected(agent: Agent, carrier: str) -> Stream:
    """A stream to an agent, before the handshake."""
    deadline = time.monotonic() + TIMEOUT
    if carrier == "unix":
        return connect_unix(agent.agent_id, deadline)
    host, port = split(agent.stream_endpoint)
    return connect_tcp(host, int(port), deadline)


class StreamClient:
    """A connection after its handshake."""

    def __init__(
        self, agent: Agent, key: str = KEY, carrier: str = "tcp", target: str = "", me: str = ME
    ) -> None:
        self.protocol = Protocol(key)
        self._me = me
        self.stream = connected(agent, carrier)
        options = SessionOptions(os.urandom(16).hex(), os.urandom(RANDOM_SIZE))
        handshake = ClientHandshake(
            self.protocol.codec, me, self.protocol.epoch, target or agent.agent_id, carrier, options
        )
        try:
            self.agreement: Agreement = handshake_with(self.stream, handshake, time.monotonic() + TIMEOUT)
        except BaseException:
            self.stream.close()
            raise

    def send(self, content: object, serializer: str = "msgpack", sender: str = "", msgid: str = "") -> str:
        """Send a request; its id."""
        urn = msgid or self.protocol.new_urn()
        header, body = (
            format_header(PZC01, sender or self._me, "", 0),
            serializers.encode(serializer, content),
        )
        self.stream.send(header, serializer.encode(), urn.encode(), body, time.monotonic() + TIMEOUT)
        return urn

    def receive(self) -> tuple[str, Any]:
        """The id and content of the next answer."""
        _, name, msgid, body = self.stream.receive(time.monotonic() + TIMEOUT)
        return msgid.decode(), serializers.decode(name.decode(), body, trusted=True)

    def ask(self, content: object, serializer: str = "msgpack") -> Any:
        """The answer to a request."""
        urn = self.send(content, serializer)
        msgid, answer = self.receive()
        assert msgid == urn
        return answer

    def __enter__(self) -> StreamClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()
