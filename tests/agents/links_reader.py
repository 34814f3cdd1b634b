"""Readers for the tests of links: each speaks the wire by itself, and acknowledges only when it is told to."""

from __future__ import annotations

import os
import queue
import secrets
import threading
import time
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from pzc import Agent, Protocol
from pzc.agents.notifications.links import local
from pzc.protocol import serializers
from pzc.protocol.bundle import Bundle, Item, Last
from pzc.protocol.contents import read_refusal
from pzc.protocol.frames import PZC01, Kind
from pzc.protocol.notification import Notification
from pzc.shm.views import Mapped
from pzc.transport import greeting

from tests.contract.rigs.peers import TIMEOUT


class Got(NamedTuple):
    """One notification of a link."""

    link_number: int
    topic: str
    number: int
    content: Any
    lost: int


def wish(
    topic: str,
    policy: str = "block",
    bound: int = 32,
    timeout: float | None = None,
    on_timeout: str = "raise",
) -> list[Any]:
    """One subscription as the word ``link`` has it."""
    if policy != "block":
        return [topic, None, policy, bound, None, None, None]
    return [topic, None, policy, bound, TIMEOUT if timeout is None else timeout, on_timeout, None]


class Reader(ABC):
    """What all of them do.

    Args:
        publisher: at the other end.
        topics: see `wish`.
        link: id; default a new one.
    """

    way = ""

    def __init__(self, publisher: Agent, *topics: list[Any], link: str = "", resume: int = 0) -> None:
        self.publisher = publisher
        self.link = link or secrets.token_hex(16)
        self.received = resume
        self.lasts: list[Last] = []
        self.got: queue.SimpleQueue[Got] = queue.SimpleQueue()
        self.answer = self.ask(*topics)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def word(self, *topics: list[Any], resume: int) -> dict[str, Any]:
        return {"pzc": "link", "link": self.link, "resume": resume, "way": self.way, "topics": list(topics)}

    def grant(self, upto: int, others: tuple[int, ...] = ()) -> dict[str, Any]:
        return {
            "pzc": "grant", "link": self.link, "received": self.received, "upto": upto, "others": list(others),
        }  # fmt: skip

    @abstractmethod
    def ask(self, *topics: list[Any]) -> dict[str, Any]: ...

    @abstractmethod
    def done(self, upto: int, *others: int) -> None: ...

    @abstractmethod
    def receive(self, timeout: float) -> bool:
        """Take in what comes next; False when nothing does."""

    @abstractmethod
    def close(self) -> None: ...

    def take(self, count: int) -> list[Got]:
        """The next ones."""
        deadline = time.monotonic() + TIMEOUT
        while self.got.qsize() < count:
            assert time.monotonic() < deadline, f"{self.got.qsize()} of {count} notifications came"
            self.receive(1.0)
        return [self.got.get() for _ in range(count)]

    def numbers(self, count: int) -> list[int]:
        return [got.number for got in self.take(count)]

    def last(self) -> Last:
        """The next word about a topic's end."""
        deadline = time.monotonic() + TIMEOUT
        while not self.lasts:
            assert time.monotonic() < deadline, "nothing was told"
            self.receive(1.0)
        return self.lasts.pop(0)

    def enter(self, bundle: Bundle) -> None:
        for number, item in enumerate(bundle.items, bundle.first):
            assert number == self.received + 1, f"{number} came after {self.received}"
            self.received = number
            content = serializers.decode(item.serializer, self.body(item), trusted=True)
            self.got.put(Got(number, item.topic, item.number, content, item.lost))
        self.lasts += bundle.lasts

    def body(self, item: Item) -> Any:
        return item.body


class LocalReader(Reader):
    """In the publisher's process."""

    way = "inproc"

    def ask(self, *topics: list[Any]) -> dict[str, Any]:
        found = local.find(self.publisher.agent_id, self.publisher.protocol.fingerprint)
        assert found is not None
        self.linking = found
        self.reasons: list[str] = []
        return found.attach(self.link, "a reader", _Door(self), list(topics))

    def take_in(self, link_number: int, notification: Notification, lost: int) -> None:
        self.received = link_number
        self.got.put(Got(link_number, notification.topic, notification.sequence, notification.content, lost))

    def tell(self, topic: str, number: int, lost: int) -> None:
        self.lasts.append(Last(topic, number, lost))

    def ended(self, reason: str) -> None:
        self.reasons.append(reason)

    def receive(self, timeout: float) -> bool:
        threading.Event().wait(0.001)
        return False

    def done(self, upto: int, *others: int) -> None:
        self.linking.acknowledge(self.link, self.received, upto, list(others))

    def close(self) -> None:
        self.linking.detach(self.link)


class _Door:
    """A `LocalInlet`: a reader's `take` is another thing."""

    def __init__(self, reader: LocalReader) -> None:
        self.take, self.tell, self.ended = reader.take_in, reader.tell, reader.ended


class UnixReader(Reader):
    """Over a connection of its own to the fast lane."""

    way = "unix"

    def __init__(
        self, publisher: Agent, *topics: list[Any], link: str = "", resume: int = 0, me: str = "",
        protocol: Protocol | None = None,
    ) -> None:  # fmt: skip
        self.me = me or os.urandom(16).hex()
        self.protocol = protocol or Protocol()
        self.stream, self.nonce = greeting.connect(publisher.agent_id, publisher.rep_endpoint)
        self.mapped = Mapped()
        self.never = threading.Event()
        self.lent: list[int] = []
        self.dropped: list[int] = []
        try:
            super().__init__(publisher, *topics, link=link, resume=resume)
        except BaseException:
            self.close()
            raise

    def say(self, content: dict[str, Any]) -> None:
        receiver = f"{self.publisher.agent_id}/{self.nonce}"
        frames = self.protocol.encode(
            self.me, "", content, receiver=receiver, dialect=PZC01, sequence=1, suite=None
        )
        self.stream.send(frames, time.monotonic() + TIMEOUT)

    def hear(self, timeout: float) -> Any:
        frames = self.stream.receive(time.monotonic() + timeout, self.never)
        fd = self.stream.take_descriptor()
        receiver = f"{self.me}/{self.nonce}"
        envelope = self.protocol.open(frames, Kind.REPLY, receiver=receiver, judge_time=False)
        content = self.protocol.content(envelope)
        refusal = read_refusal(content)
        if refusal is not None:
            raise refusal
        if isinstance(content, Bundle):
            self.lent += [content.lent] * (content.lent > 0)
            self.dropped += content.dropped
            if fd >= 0:
                self.mapped.add(content.lent, fd)
        return content

    def ask(self, *topics: list[Any]) -> dict[str, Any]:
        self.say(self.word(*topics, resume=self.received))
        while isinstance(answer := self.hear(TIMEOUT), Bundle):
            self.enter(answer)
        return answer

    def receive(self, timeout: float) -> bool:
        try:
            bundle = self.hear(timeout)
        except TimeoutError:
            return False
        self.enter(bundle)
        return True

    def body(self, item: Item) -> Any:
        return bytes(self.mapped.view(item.block, item.size, lambda: None)) if item.block else item.body

    def done(self, upto: int, *others: int) -> None:
        self.say(self.grant(upto, others))

    def unlink(self) -> None:
        self.say({"pzc": "unlink", "link": self.link})

    def close(self) -> None:
        self.stream.close()
        self.mapped.close()


class PollReader(Reader):
    """By long polls over tcp, one at a time."""

    way = "tcp"

    def __init__(
        self, publisher: Agent, *topics: list[Any], link: str = "", resume: int = 0, me: Agent | None = None
    ) -> None:
        self.agent = me or Agent()
        self.upto, self.others = 0, tuple[int, ...]()
        try:
            super().__init__(publisher, *topics, link=link, resume=resume)
        except BaseException:
            self.agent.stop()
            raise

    def request(self, content: dict[str, Any]) -> Any:
        return self.agent.exchange(self.publisher.rep_endpoint, content, TIMEOUT, transport="tcp").content

    def ask(self, *topics: list[Any]) -> dict[str, Any]:
        return self.request(self.word(*topics, resume=self.received))

    def receive(self, timeout: float) -> bool:
        bundle = self.request(self.grant(self.upto, self.others))
        self.enter(bundle)
        return bool(bundle.items)

    def done(self, upto: int, *others: int) -> None:
        self.upto, self.others = upto, others
        said = {**self.grant(upto, others), "oneway": True}
        self.agent.send(self.publisher.rep_endpoint, said, TIMEOUT, transport="tcp")

    def close(self) -> None:
        self.agent.stop()


READERS = (LocalReader, UnixReader, PollReader)
