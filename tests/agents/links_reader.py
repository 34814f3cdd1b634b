"""Readers for the tests of links: each speaks the wire by itself, and acknowledges only when it is told to."""

from __future__ import annotations

import os
import queue
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pzc import Agent, Protocol
from pzc.agents.notifications.links import local
from pzc.protocol import serializers
from pzc.protocol.contents import error_of, read_refusal
from pzc.protocol.frames import PZC01, Kind
from pzc.protocol.link_messages import (
    Close,
    Command,
    Interests,
    LinkMessage,
    Loss,
    Notify,
    Open,
    Report,
    Row,
)
from pzc.protocol.notification import Notification
from pzc.shm.views import Mapped
from pzc.transport import greeting

from tests.contract.rigs.peers import TIMEOUT


class Got(NamedTuple):
    """One notification of a link, and how many losses were told with it for the first time."""

    link_number: int
    topic: str
    number: int
    content: Any
    lost: int


def wish(topic: str, policy: str = "block", bound: int = 32, timeout: float | None = None) -> list[Any]:
    """One subscription as a command has it, behind the number of its interest."""
    if policy != "block":
        return [topic, None, policy, bound]
    return [topic, None, policy, bound, TIMEOUT if timeout is None else timeout]


class Reader(ABC):
    """What all of them do.

    Args:
        publisher: at the other end.
        topics: see `wish`.
        link: id; default a new one.
    """

    transport: Any = ""

    def __init__(self, publisher: Agent, *topics: list[Any], link: str = "", resume: int = 0) -> None:
        self.publisher = publisher
        self.link = link or secrets.token_hex(16)
        self.received = resume
        self.losses: dict[int, Loss] = {}
        self.ended: list[str] = []
        self.got: queue.SimpleQueue[Got] = queue.SimpleQueue()
        self.batch = self.interest = 0
        self.wanted: dict[int, list[Any]] = {}
        self.open()
        self.answer = self.ask(*topics)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def opening(self) -> Open:
        return Open(self.link, self.received, self.transport)

    def interests(self, *topics: list[Any]) -> Interests:
        """The word that wants these and nothing else."""
        commands = [Command(n) for n, told in self.wanted.items() if told not in topics]
        for command in commands:
            del self.wanted[command.interest]
        for told in topics:
            if told not in self.wanted.values():
                self.interest += 1
                self.wanted[self.interest] = told
                commands.append(Command(self.interest, *told))
        self.batch += 1
        return Interests(self.link, self.batch, commands)

    def ask(self, *topics: list[Any]) -> dict[str, dict[str, int]]:
        """Want these and nothing else; the last numbers and the windows of those that are new, by topic."""
        lasts, windows = dict[str, int](), dict[str, int]()
        for told in self.request(self.interests(*topics)).confirmed:
            if told.code:
                raise error_of(told.code, told.text)
            lasts |= told.lasts
            windows[self.wanted[told.interest][0]] = told.window
        return {"lasts": lasts, "windows": windows}

    def report(self, upto: int, others: tuple[int, ...] = (), hold: float = 0.0) -> Report:
        return Report(self.link, self.received, upto, list(others), hold)

    def open(self) -> None:
        self.request(self.opening())

    @abstractmethod
    def request(self, content: LinkMessage) -> Any: ...

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

    def loss(self, total: int) -> Loss:
        """What was told of the first interest, once that many are lost."""
        deadline = time.monotonic() + TIMEOUT
        while 1 not in self.losses or self.losses[1].total < total:
            assert time.monotonic() < deadline, "nothing was told"
            self.receive(1.0)
        return self.losses[1]

    def enter(self, notify: Notify, contents: Iterator[Any] | None = None) -> None:
        lost = 0
        for loss in notify.losses:
            lost += loss.total - (self.losses[loss.interest].total if loss.interest in self.losses else 0)
            self.losses[loss.interest] = loss
        self.ended += [each.reason for each in notify.ended]
        rows = [(run.topic, row) for run in notify.runs for row in run.rows]
        for number, (topic, row) in enumerate(rows, notify.first):
            assert number == self.received + 1, f"{number} came after {self.received}"
            self.received = number
            if contents is None:
                content = serializers.decode(row.serializer, self.body(row), trusted=True)
            else:
                content = next(contents)
            self.got.put(Got(number, topic, row.number, content, lost))
            lost = 0

    def body(self, row: Row) -> Any:
        return row.body


class LocalReader(Reader):
    """In the publisher's process."""

    transport = "inproc"

    def open(self) -> None:
        found = local.find(self.publisher.agent_id, self.publisher.protocol.fingerprint)
        assert found is not None
        self.linking = found
        self.reasons: list[str] = []
        self.request(self.opening())

    def request(self, content: LinkMessage) -> Any:
        return self.linking.hear(content, "a reader", _Door(self))

    def take_in(self, notify: Notify, notifications: Sequence[Notification]) -> None:
        self.enter(notify, iter([each.content for each in notifications]))

    def over(self, reason: str) -> None:
        self.reasons.append(reason)

    def receive(self, timeout: float) -> bool:
        threading.Event().wait(0.001)
        return False

    def done(self, upto: int, *others: int) -> None:
        self.request(self.report(upto, others))

    def close(self) -> None:
        self.request(Close(self.link))


class _Door:
    """A `LocalReader`: a reader's `take` is another thing."""

    def __init__(self, reader: LocalReader) -> None:
        self.take, self.ended = reader.take_in, reader.over


class UnixReader(Reader):
    """Over a connection of its own to the fast lane."""

    transport = "unix"

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

    def say(self, content: LinkMessage) -> None:
        receiver = f"{self.publisher.agent_id}/{self.nonce}"
        frames = self.protocol.encode(
            self.me,
            "",
            content,
            receiver=receiver,
            dialect=PZC01,
            sequence=1,
            serializer="link",
        )
        self.stream.send(frames, time.monotonic() + TIMEOUT)

    def hear(self, timeout: float) -> Any:
        frames = self.stream.receive(time.monotonic() + timeout, self.never)
        fd = self.stream.take_descriptor()
        receiver = f"{self.me}/{self.nonce}"
        envelope = self.protocol.open(frames, Kind.REPLY, receiver=receiver, judge_time=False)
        content = envelope.decode()
        refusal = read_refusal(content)
        if refusal is not None:
            raise refusal
        if isinstance(content, Notify):
            self.lent += [content.lent] * (content.lent > 0)
            self.dropped += content.dropped
            if fd >= 0:
                self.mapped.add(content.lent, fd)
        return content

    def request(self, content: LinkMessage) -> Any:
        self.say(content)
        while isinstance(answer := self.hear(TIMEOUT), Notify):
            self.enter(answer)
        return answer

    def receive(self, timeout: float) -> bool:
        try:
            notify = self.hear(timeout)
        except TimeoutError:
            return False
        self.enter(notify)
        return True

    def body(self, row: Row) -> Any:
        return bytes(self.mapped.view(row.block, row.size, lambda: None)) if row.block else row.body

    def done(self, upto: int, *others: int) -> None:
        self.say(self.report(upto, others))

    def unlink(self) -> None:
        self.say(Close(self.link))

    def close(self) -> None:
        self.stream.close()
        self.mapped.close()


class PollReader(Reader):
    """By long polls over tcp, one at a time."""

    transport = "tcp"

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

    def request(self, content: LinkMessage) -> Any:
        return self.agent.exchange(self.publisher.rep_endpoint, content, TIMEOUT, transport="tcp").content

    def receive(self, timeout: float) -> bool:
        notify = self.request(self.report(self.upto, self.others, hold=1.0))
        self.enter(notify)
        return bool(notify.runs)

    def done(self, upto: int, *others: int) -> None:
        self.upto, self.others = upto, others
        self.agent.send(self.publisher.rep_endpoint, self.report(upto, others), TIMEOUT, transport="tcp")

    def close(self) -> None:
        self.agent.stop()


READERS = (LocalReader, UnixReader, PollReader)
