"""Ours with many topics, and many subscriptions to each of them in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pzc import Agent, Notification

from benchmarks.ends import ROUND_LIMIT, Reader, Setting, Take, late
from benchmarks.ends_pzc import PzcWriter, subscribe
from benchmarks.jobs import WrongResult
from benchmarks.notification_jobs import MARK, NUMBERS


class Counted:
    """A content that counts how often it is deserialised in this process."""

    decoded = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state)
        Counted.decoded += self.number != MARK


class FanWriter(PzcWriter):
    """Publishes on one topic after the other."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._topics = setting.own["topics"]

    def send(self, payload: Any) -> None:
        """Publish its number."""
        number = NUMBERS.unpack(payload)[0]
        self._publish(f"topic-{number % self._topics}", Counted(number))


class FanReader(Reader):
    """``topics`` times ``each`` subscriptions; a round is over when all have called back for ``messages``."""

    def __init__(self, setting: Setting, address: str) -> None:
        own = setting.own
        self._agent = Agent()
        self._messages = own["messages"]
        self._calls = self._messages * own["each"]
        self._done = threading.Event()
        self._take: Take | None = None
        self._begin()
        for topic in range(own["topics"]):
            for i in range(own["each"]):
                callback = self._called if i else self._first
                subscribe(self._agent, address, f"topic-{topic}", callback, own)

    def _begin(self) -> None:
        self._called_back, self._seen = 0, list[int]()
        Counted.decoded = 0
        self._done.clear()

    def _first(self, notification: Notification) -> None:
        number = notification.content.number
        if number == MARK:
            if self._take is not None and self._take(NUMBERS.pack(MARK, MARK)):
                self._done.set()
            return
        self._seen.append(number)
        self._called(notification)

    def _called(self, notification: Notification) -> None:
        if notification.content.number != MARK:
            self._called_back += 1
            if self._called_back == self._calls:
                self._done.set()

    def read(self, take: Take, ready: Callable[[], object]) -> None:
        """See `Reader.read`; the payloads are handed over in their order when all have come."""
        self._begin()
        self._take = take
        ready()
        if not self._done.wait(ROUND_LIMIT):
            raise late()
        self._take = None
        for number in sorted(self._seen):
            take(NUMBERS.pack(number, number))

    def check(self) -> None:
        """Each content must have been deserialised once."""
        if Counted.decoded != self._messages:
            raise WrongResult(f"{self._messages} contents were deserialised {Counted.decoded} times")

    def close(self) -> None:
        """Stop the agent."""
        self._agent.stop()
