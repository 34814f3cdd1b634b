"""Peers for the tests of notifications: a link that loses messages, forgers, and publishers of their own."""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import zmq

from pzc import Agent, BindError, Notification, Subscription

KEY = "a key that both sides know"
TIMEOUT = 20.0
ENDPOINTS = ["tcp://127.0.0.1:0", "ipc", "inproc"]

QUICK: dict[str, Any] = {
    "silence": 1.5, "link_look": 0.05, "publisher_retry": 0.1,
}  # fmt: skip
"""Timings with which who is dead is known soon; a machine under load keeps them."""

Frames = list[bytes]


class Inbox:
    """A callback that queues what it gets."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Notification] = queue.SimpleQueue()

    def __call__(self, notification: Notification) -> None:
        self.queue.put(notification)

    def next(self) -> Notification:
        return self.queue.get(timeout=TIMEOUT)

    def take(self, count: int) -> list[Notification]:
        return [self.next() for _ in range(count)]

    def contents(self, count: int) -> list[Any]:
        return [notification.content for notification in self.take(count)]

    def until(self, end: object) -> list[Any]:
        """Contents before the one that ends the stream."""
        found: list[Any] = []
        while (content := self.next().content) != end:
            found.append(content)
        return found


class Elsewhere(Agent):
    """An agent that says it publishes at another endpoint than it does, and that stands behind a forwarder.

    So nobody tries to reach it inside the host.
    """

    advertised = ""

    def describe(self) -> dict[str, Any]:
        told = super().describe()
        pub_endpoint = self.advertised or told["pub_endpoint"]
        return {**told, "rep_endpoint": "tcp://127.0.0.1:1", "pub_endpoint": pub_endpoint}


class Wire:
    """An XPUB socket in the hands of a test, with nothing behind it."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:*") -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(endpoint)
        self.endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def wait_for_filter(self, prefix: bytes) -> None:
        while True:
            assert self.socket.poll(int(TIMEOUT * 1000)), f"nobody asked for {prefix!r}"
            if self.socket.recv() == b"\1" + prefix:
                return

    def send(self, *messages: Frames) -> None:
        for frames in messages:
            self.socket.send_multipart(frames)

    def close(self) -> None:
        self.socket.close(0)
        self.context.term()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Forwarder:
    """A man in the middle: XSUB to a publisher, XPUB to its subscribers, and a say in every message.

    ``alter`` gets the running number (from 1) and the frames of a message, and returns what is passed on.
    """

    def __init__(
        self,
        publisher: str,
        alter: Callable[[int, Frames], list[Frames]],
        endpoint: str = "tcp://127.0.0.1:*",
    ) -> None:
        self._context = zmq.Context()
        self._front, self._back = self._context.socket(zmq.XPUB), self._context.socket(zmq.XSUB)
        self._control, self._told = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._told.bind("inproc://control")
        self._control.connect("inproc://control")
        for each in (self._front, self._back):
            each.setsockopt(zmq.LINGER, 0)
            each.setsockopt(zmq.SNDHWM, 0)
            each.setsockopt(zmq.RCVHWM, 0)
        self._front.bind(endpoint)
        self._back.connect(publisher)
        self.endpoint = self._front.getsockopt_string(zmq.LAST_ENDPOINT)
        self._alter = alter
        self._thread = threading.Thread(target=self._run, name="forwarder")
        self._thread.start()

    def _run(self) -> None:
        poller = zmq.Poller()
        for each in (self._front, self._back, self._told):
            poller.register(each, zmq.POLLIN)
        number = 0
        while True:
            ready = dict(poller.poll())
            if self._told in ready:
                return
            if self._front in ready:
                self._back.send_multipart(self._front.recv_multipart())
            if self._back in ready:
                number += 1
                for frames in self._alter(number, self._back.recv_multipart()):
                    self._front.send_multipart(frames)

    def close(self) -> None:
        self._control.send(b"")
        self._thread.join(TIMEOUT)
        self._context.destroy(0)

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class BareSubscriber:
    """A TCP connection that speaks just enough ZMTP to set and cancel filters that nobody checked."""

    def __init__(self, endpoint: str, kind: bytes = b"SUB") -> None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT)
        self._socket.sendall(b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(16) + bytes(32))
        self._read(64)
        ready = b"\5READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
        self._socket.sendall(bytes((4, len(ready))) + ready)
        _, length = self._read(2)
        self._read(length)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            assert part
            data += part
        return data

    def send(self, *messages: bytes) -> None:
        """Each message in one frame; the first byte sets (1) or cancels (0) a filter."""
        self._socket.sendall(b"".join(b"\2" + struct.pack(">Q", len(m)) + m for m in messages))

    def send_in_parts(self, *parts: bytes) -> None:
        """One message of several frames."""
        flags = [3] * (len(parts) - 1) + [2]
        self._socket.sendall(
            b"".join(
                bytes((flag,)) + struct.pack(">Q", len(part)) + part
                for flag, part in zip(flags, parts, strict=True)
            )
        )

    def is_hung_up(self) -> bool:
        """Whether the other side has ended the connection."""
        try:
            return not self._socket.recv(1000, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> BareSubscriber:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@contextmanager
def closing(*subscriptions: Subscription) -> Iterator[None]:
    """Close subscriptions whatever happens."""
    with ExitStack() as stack:
        for subscription in subscriptions:
            stack.callback(subscription.close)
        yield


def in_place_of(stopped: Agent, kind: type[Agent], *endpoints: str, **options: Any) -> Agent:
    """A new agent at the endpoints of a stopped one; libzmq frees them a moment after its sockets close."""
    assert stopped.join(TIMEOUT)
    deadline, pause = time.monotonic() + TIMEOUT, threading.Event()
    while True:
        try:
            return kind(*endpoints, **options)
        except BindError:
            assert time.monotonic() < deadline
            pause.wait(0.01)


def balance(subscription: Subscription) -> int:
    """What has been accounted for."""
    return subscription.received + subscription.dropped + subscription.pending


def run_threads(*functions: Callable[[], object]) -> None:
    """Run functions at once and fail with what one of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], object]) -> None:
        try:
            start.wait(TIMEOUT)
            function()
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors, errors


class Noted:
    """A callback that takes anything."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls = list[tuple[Any, ...]]()

    def __call__(self, *values: Any) -> None:
        with self._changed:
            self._calls.append(values)
            self._changed.notify()

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        """The arguments of those that `next` has not given."""
        with self._changed:
            return list(self._calls)

    def next(self, timeout: float = 1.0) -> tuple[Any, ...]:
        """The arguments of the next call."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._calls, timeout)
            return self._calls.pop(0)
