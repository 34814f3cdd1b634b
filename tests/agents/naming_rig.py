"""Agents with names in processes of their own, and a view on what a participant hears."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
from typing import Any

from pzc.agents.discover import acquire
from pzc.agents.naming import participants
from pzc.discovery.events import Appeared, Conflict, Event, Vanished
from pzc.transport.settings import load
from pzc.transport.wire import Protocol

from tests.contract.rigs.peers import TIMEOUT

CHILD = """
import sys
from pzc import Server

class Instrument:
    def __init__(self):
        self.voltage = 1.0
    def add(self, a, b):
        return a + b
    def publish(self, topic, content):
        return server.publish(topic, content)
    def wait(self, topic):
        return server.wait_for_subscribers(topic, 1, 15)
    def advertise(self, topic, scope, type):
        server.advertise(topic, scope=scope, type=type)
    def vanished(self):
        return [event.entry.name for event in events if type(event).__name__ == "Vanished"]
    def names(self):
        import pzc
        return [entry.name for entry in pzc.discover("**", 0.5)]

name, namespace, topics = sys.argv[1:]
server = Server(Instrument(), name=name, namespace=namespace)
for topic in filter(None, topics.split(",")):
    server.advertise(topic)
events = []
next(iter(server._naming._open.values())).listen(events.append)
print(server.rep_endpoint, flush=True)
server.serve_forever()
"""


class Child:
    """A server with a name in a process of its own; with the environment of the test."""

    def __init__(self, name: str, namespace: str = "", topics: str = "", **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, name, namespace, topics],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().strip()
        assert self.endpoint

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)

    def end(self) -> None:
        """Ends it as Ctrl-C does."""
        self.process.send_signal(2)
        self.process.wait(TIMEOUT)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Watch:
    """Every event that a participant of this process has, with its time."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        settings = load()
        self.participant = acquire(participants.site_of(settings), Protocol(settings=settings))
        self.participant.listen(self._take)

    def _take(self, event: Event) -> None:
        self._events.put((time.monotonic(), event))

    def until(self, kind: type[Appeared | Vanished | Conflict], name: str) -> tuple[float, Any]:
        """The next event of a kind about a name, and when it came."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            moment, event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            if isinstance(event, kind) and event.entry.name == name:
                return moment, event

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.participant.unlisten(self._take)
        participants.release(self.participant)
