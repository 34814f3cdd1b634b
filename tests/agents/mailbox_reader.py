"""A reader of mailboxes for tests: it says link messages by hand."""

from __future__ import annotations

import secrets
from typing import Any

from pzc import Agent, Protocol
from pzc.protocol import serializers
from pzc.protocol.contents import error_of
from pzc.protocol.link_messages import (
    Applied,
    Command,
    Interests,
    LinkMessage,
    Notify,
    Open,
    Opened,
    Report,
)

from tests.contract.rigs.peers import KEY, TIMEOUT

ROOM = 1000


class Reader:
    """One process that reads a mailbox, by hand.

    Attributes:
        got: topic, number and content of each notification, in the order in which it came.
        lost: the sums that were told, by interest and topic.
    """

    def __init__(self, publisher: Agent, name: str = "", tenure: int = 0, agent: Agent | None = None) -> None:
        self.publisher, self.name, self.tenure = publisher, name, tenure
        self.agent = agent or Agent(protocol=Protocol(KEY), discovery=False)
        self.link = secrets.token_hex(16)
        self.received = self.upto = self.batch = 0
        self.got: list[tuple[str, int, Any]] = []
        self.lost: dict[tuple[int, str], int] = {}
        self.ended: list[str] = []
        self.rows: list[Any] = []

    def say(self, message: LinkMessage) -> Any:
        return self.agent.exchange(self.publisher.rep_endpoint, message, TIMEOUT, transport="tcp").content

    def open(self) -> Reader:
        opened = self.say(Open(self.link, self.received, "tcp", self.name, self.tenure))
        assert isinstance(opened, Opened)
        self.tenure = opened.tenure
        return self

    def want(self, interest: int, topic: str, *keys: str, bound: int = 100, **more: Any) -> dict[str, int]:
        """The numbers behind which it begins."""
        self.batch += 1
        command = Command(interest, topic, list(keys) or None, "mailbox", bound, **more)
        applied = self.say(Interests(self.link, self.batch, [command]))
        assert isinstance(applied, Applied)
        [told] = applied.confirmed
        if told.code:
            raise error_of(told.code, told.text)
        return told.lasts

    def forget(self, interest: int) -> None:
        self.batch += 1
        self.say(Interests(self.link, self.batch, [Command(interest)]))

    def poll(self, hold: float = 0.05, room: int = ROOM) -> Notify:
        told = Report(self.link, self.received, self.upto, [], hold, self.received + room)
        notify = self.say(told)
        assert isinstance(notify, Notify)
        position = notify.first
        for run in notify.runs:
            for row in run.rows:
                if position > self.received:
                    self.received = position
                    content = serializers.decode(row.serializer, row.body, trusted=True)
                    self.got.append((run.topic, row.number, content))
                    self.rows.append(row)
                position += 1
        for loss in notify.losses:
            self.lost[loss.interest, loss.topic] = loss.total
        self.ended += [each.reason for each in notify.ended]
        return notify

    def done(self) -> None:
        self.upto = self.received
        self.poll(0.01, 0)

    def contents(self) -> list[Any]:
        self.poll()
        return [content for _, _, content in self.got]
