"""Pizco: requests of the original's clients, and notifications to them.

The original's proxy sends ``(PSMessage, action, options)`` and expects, beside what every client gets:

- everything by value, pickled, and an exception that it can unpickle without this package;
- in the answer to ``info`` the two endpoints, at an address that it can reach;
- the result of a call that returned a future as a notification on ``__future__``;
- notifications whose sender is the endpoint by which it reached the agent, whatever the agent calls itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from ...protocol import original, serializers
from ...protocol.contents import PS, RETURN, is_raised, is_word, ps_message, raised
from ...protocol.errors import MemberRefused, ProtocolError, PzcError, Refused, SerializeError
from ...protocol.exceptions import text_of
from ...protocol.frames import MAX_HEADER, PZC00, Buffer, Kind, topic_filter
from ...protocol.message import Message
from ...protocol.window import SeenSignatures
from ...transport import loops
from ...transport.endpoints import at_port_of, is_wildcard, split
from ...transport.wire import Protocol

logger = logging.getLogger("pzc.actions")

FUTURE_TOPIC = "__future__"
"""Topic on which an original server says what became of a future."""

FUTURE_DELAY = 0.05
"""Seconds between the reply that names a future and its result: an original proxy forgets the result of a
future that it has not registered yet."""

MAX_NAMES = 64
"""Most names by which originals are served that have reached one wildcard address."""

_SHORT = 64
"""Bytes of a request that may be ``info``."""


def is_spoken(protocol: Protocol) -> bool:
    """True when originals are accepted."""
    return PZC00 in protocol.codec.accept


def is_pizco(frames: Sequence[Buffer]) -> bool:
    """True for frames that only this module reads."""
    return bool(frames) and bytes(frames[0][:6]) == b"PZC00+"


def unreadable(protocol: Protocol, sender: str) -> list[Buffer]:
    """The original's reply to what it cannot read; signed only where originals are served."""
    name = protocol.codec.serializer
    keyring = protocol.codec.keyring if is_spoken(protocol) else None
    return original.encode(keyring, sender, "", name, serializers.encode(name, ""), protocol.new_urn())


class PizcoClients:
    """Requests of original clients to one agent, and the replies.

    Args:
        protocol: of the agent.

    Attributes:
        endpoint: REP endpoint of the agent, as originals are told it; set by the listener.
        describe: tells what the handshake does; set by `Control`.
        publish: sends a notification to the originals that listen to a topic; set by `Publishing`.
    """

    describe: Callable[[], dict[str, Any]]
    publish: Callable[[str, object], object]

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._seen = SeenSignatures()
        self.endpoint = ""

    def open(self, frames: Sequence[Buffer]) -> Message:
        """Verify a request; errors as `Codec.open`."""
        return self._protocol.open(frames, Kind.REQUEST, seen=self._seen)

    def info(self, message: Message, reached: Callable[[], str]) -> tuple[str, Buffer] | None:
        """The answer to ``info``, and None to all else; `reached` gives the host for a wildcard address."""
        if len(message.content) > _SHORT:
            return None
        try:
            if not is_word(message.decode(), "info"):
                return None
        except ProtocolError:  # the dispatcher refuses it
            return None
        pub = self.describe()["pub_endpoint"]
        if is_wildcard(pub) and (host := reached()):
            pub = f"tcp://{host}:{split(pub)[1]}"
        return self.pack({"rep_endpoint": self.endpoint, "pub_endpoint": pub}, message.serializer)

    def answer(self, call_id: str, result: Any) -> tuple[str, str, Any]:
        """The answer to a call: its result by value, or that the result of a future will be published."""
        if not isinstance(result, Future):
            return PS, RETURN, result
        cast("Future[Any]", result).add_done_callback(partial(self._done, call_id))
        return PS, "future_register", call_id

    def _done(self, call_id: str, future: Future[Any]) -> None:
        content: dict[str, Any] = {"msgid": call_id, "result": None, "exception": None}
        try:
            content["result"] = future.result()
        except BaseException as exc:
            content["exception"] = readable(exc, self._protocol.codec.serializer)
        loops.later(FUTURE_DELAY, partial(self._tell, content))

    def _tell(self, content: dict[str, Any]) -> None:
        try:
            self.publish(FUTURE_TOPIC, content)
        except SerializeError as exc:
            logger.warning("the result of %s cannot be sent: %s", content["msgid"], exc)
            self.publish(FUTURE_TOPIC, {**content, "result": None, "exception": TypeError(str(exc))})

    def pack(self, content: object, serializer: str) -> tuple[str, Buffer]:
        """Serializer and bytes of an answer; errors as `serializers.encode`."""
        error = is_raised(content)
        if isinstance(error, BaseException) and cast("Any", content)[1] == "raise":
            if isinstance(error, MemberRefused) and type(error.__cause__) is AttributeError:
                error = error.__cause__  # what the object itself said
                content = raised(error)
            content = ps_message("raise", (readable(error, serializer), cast("Any", content)[2][1]))
        return serializer, serializers.encode(serializer, content)

    def refusal(self, error: Exception) -> object:
        """What tells a refused request."""
        return raised(error) if isinstance(error, Refused) else ""

    def seal(self, message: Message, packed: tuple[str, Buffer]) -> list[Buffer]:
        """Five frames of an answer."""
        keyring = self._protocol.codec.keyring
        return original.encode(keyring, self.endpoint, message.topic, *packed, message.msgid)


class PizcoSubscribers:
    """Filters of originals, and of plain SUB sockets, at one PUB endpoint.

    An original listens to the endpoint that it reached the agent by. So an agent behind a wildcard address
    sends a notification once for each name, with its own port, that the filters give.

    Args:
        protocol: of the agent.
        own: REP endpoint of the agent, as originals are told it.
    """

    def __init__(self, protocol: Protocol, own: str) -> None:
        self._protocol = protocol
        self._own = own
        self._names: Counter[str] = Counter()

    def count(self, prefix: bytes, change: int) -> None:
        """A filter has come (1) or gone (-1)."""
        parts = prefix.split(b"+", 2)
        if len(parts) != 3 or parts[0] != PZC00.encode():
            return
        name = parts[1].decode(errors="replace")
        self._names[name] += change
        if not self._names[name]:
            del self._names[name]

    def senders(self, topic: str, matches: Callable[[bytes], bool]) -> tuple[str, ...]:
        """Names as which a topic is to be sent: those whose header a filter `matches`."""
        keyring = self._protocol.codec.keyring
        if not is_spoken(self._protocol) or (keyring is not None and not original.is_told_apart(topic)):
            return ()
        return tuple(name for name in self._all(topic) if matches(topic_filter(PZC00, name, topic)))

    def headers(self, topic: str) -> list[bytes]:
        """Of a topic, one for each name."""
        return [topic_filter(PZC00, name, topic) for name in self._all(topic)]

    def _all(self, topic: str) -> list[str]:
        own = self._own
        if not is_wildcard(own):
            return [own]
        room = MAX_HEADER - len(PZC00) - 2 - len(topic.encode(errors="replace"))
        asked = (name for name in list(self._names) if len(name) <= room and name != own)
        return [own, *[name for name in asked if at_port_of(own, name)][:MAX_NAMES]]

    def encode(self, sender: str, topic: str, content: object) -> list[Buffer]:
        """Five frames of a notification; errors as `Codec.encode`."""
        return self._protocol.encode(sender, topic, content, dialect=PZC00)


def name_of(endpoint: str) -> str:
    """A bound endpoint as the original names it: every interface is ``*``."""
    return f"tcp://*:{split(endpoint)[1]}" if is_wildcard(endpoint) else endpoint


def readable(error: BaseException, serializer: str) -> BaseException:
    """An exception that an original can read: itself, or a builtin one that says what it was."""
    if isinstance(error, PzcError):
        base = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
        return base(text_of(error))
    if isinstance(error, Exception):  # SystemExit would end the original's process
        try:
            serializers.decode(serializer, serializers.encode(serializer, error), trusted=True)
        except PzcError:
            pass
        else:
            return error
    return RuntimeError(f"{type(error).__qualname__}: {text_of(error)}")
