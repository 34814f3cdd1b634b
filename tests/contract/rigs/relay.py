"""A relay before a REP endpoint that holds back what a test tells it to, in either direction."""

from __future__ import annotations

import threading
from collections.abc import Callable

import zmq

from tests.contract.rigs.peers import TIMEOUT

Frames = list[bytes]


def always(frames: Frames) -> bool:
    """Holds back every message."""
    return bool(frames)


def never(frames: Frames) -> bool:
    """Holds back none."""
    return not frames


class Relay:
    """Passes requests to an endpoint and answers back, in a thread of its own.

    Args:
        endpoint: where requests go.

    Attributes:
        endpoint: where it listens.
        loses_request: says of the frames of a request whether it is lost.
        loses_answer: the same of answers.
        lost: set when something was lost.
        kept: answers that were lost, to be sent by `release`.
    """

    def __init__(self, endpoint: str) -> None:
        self.loses_request: Callable[[Frames], bool] = never
        self.loses_answer: Callable[[Frames], bool] = never
        self.lost = threading.Event()
        self.kept: list[Frames] = []
        self._context = zmq.Context()
        self._front, self._back = self._context.socket(zmq.ROUTER), self._context.socket(zmq.DEALER)
        self._told, self._control = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._told.bind("inproc://control")
        self._control.connect("inproc://control")
        self._back.setsockopt(zmq.RECONNECT_IVL, 10)
        self._back.connect(endpoint)
        self._front.bind("tcp://127.0.0.1:*")
        self.endpoint = self._front.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        poller = zmq.Poller()
        for each in (self._front, self._back, self._told):
            poller.register(each, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._told in ready:
                if not self._told.recv():
                    return
                while self.kept:
                    self._front.send_multipart(self.kept.pop(0))
            if self._back in ready:
                self._pass(self._back.recv_multipart(), self._front, self.loses_answer)
            if self._front in ready:
                self._pass(self._front.recv_multipart(), self._back, self.loses_request)

    def _pass(self, frames: Frames, to: zmq.Socket[bytes], loses: Callable[[Frames], bool]) -> None:
        if loses(frames):
            if to is self._front:
                self.kept.append(frames)
            self.lost.set()
        else:
            to.send_multipart(frames)

    def release(self) -> None:
        """Send the answers that were lost, and lose no more."""
        self.loses_answer = never
        self._control.send(b"release")

    def close(self) -> None:
        """End the thread and its sockets."""
        self._control.send(b"")
        self._thread.join(TIMEOUT)
        self._context.destroy(0)

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
