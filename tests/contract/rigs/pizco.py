"""An original Pizco made of pyzmq, pickle and hmac: a server that does what the original's code does, and a client.

What the original cannot pickle ends its server, as there: nothing catches it.
"""

from __future__ import annotations

import hmac
import pickle
import threading
import traceback
from types import TracebackType
from typing import Any

import zmq

from tests.contract.rigs.original import make, sign

TIMEOUT = 10.0
ME = "tcp://127.0.0.1:1"

SENT = {"inspect", "get", "setattr", "exec", "instantiate"}
"""Actions that the original's proxy sends."""

OPERATIONS = {"__get__", "__set__", "__getitem__", "__setitem__", "__call__"}
"""Methods that its ``exec`` names."""


def read(key: bytes, frames: list[bytes], check_sender: str = "") -> tuple[str, str, Any, str]:
    """Sender, topic, content and id as the original reads them; ValueError for what it refuses."""
    if len(frames) != 5 or (key and not hmac.compare_digest(sign(key, frames[:4]), frames[4])):
        raise ValueError("wrong number of parts, or the signature does not match")
    header, sender, topic = frames[0].decode().split("+")
    if header != "PZC00" or not frames[1].startswith(b"pickle"):
        raise ValueError("wrong header or serializer")
    if check_sender and check_sender != sender and "tcp://*" not in sender:
        raise ValueError(f"wrong sender: asked {check_sender}, received {sender}")
    return sender, topic, pickle.loads(frames[2]), frames[3].decode()


class Client:
    """An original proxy's agent: its sockets, and its checks.

    Args:
        key: of its protocol.
        endpoint: REP endpoint of the server, as a person wrote it.
    """

    def __init__(self, key: bytes, endpoint: str) -> None:
        self.key, self.endpoint = key, endpoint
        self._context = zmq.Context()
        self._req, self._sub = self._context.socket(zmq.REQ), self._context.socket(zmq.SUB)
        self._req.connect(endpoint)

    def ask(self, content: object) -> Any:
        """The content of the reply; ValueError when the original would refuse it."""
        self._req.send_multipart(make(self.key, ME, content))
        return read(self.key, _next(self._req), self.endpoint)[2]

    def request(self, action: str, options: dict[str, Any]) -> Any:
        """One action of the Proxy-Server protocol; its result, or what was raised."""
        word, answer, result = self.ask(("PSMessage", action, options))
        assert word == "PSMessage"
        if answer == "raise":
            raise result[0]
        return result if answer == "return" else answer

    def subscribe(self, topic: str) -> None:
        """Listen as the original does: to the endpoint that the server was reached by."""
        self._sub.connect(self.ask("info")["pub_endpoint"])
        self.listen(f"PZC00+{self.endpoint}+{topic}".encode())

    def listen(self, beginning: bytes) -> None:
        """Ask for whatever begins so."""
        self._sub.setsockopt(zmq.SUBSCRIBE, beginning)

    def notified(self) -> tuple[str, Any]:
        """Topic and content of the next notification, which must name whom it was asked of."""
        sender, topic, content, _ = read(self.key, _next(self._sub))
        assert sender == self.endpoint, "the original would find no callback for it"
        return topic, content

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.destroy(0)


def _next(socket: zmq.Socket[bytes]) -> list[bytes]:
    assert socket.poll(int(TIMEOUT * 1000)), "nothing came"
    return socket.recv_multipart()


class Server:
    """An original server of one object.

    Args:
        served: the object.
        key: of its protocol.
        bare: raise exceptions without their traceback, as Pizco 0.1 does.
        inspected: what it answers to ``inspect`` instead of the truth.

    Attributes:
        asked: contents of the requests that were read.
    """

    def __init__(
        self, served: object, key: bytes = b"", *, bare: bool = False, inspected: object = None
    ) -> None:
        self.served, self.key, self.bare, self.inspected = served, key, bare, inspected
        self.asked: list[Any] = []
        self._context = zmq.Context()
        self._rep, self._pub = self._context.socket(zmq.REP), self._context.socket(zmq.XPUB)
        self._stop, self._told = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._told.bind("inproc://stop")
        self._stop.connect("inproc://stop")
        for socket in (self._rep, self._pub):
            socket.bind("tcp://127.0.0.1:*")
        self.endpoint, self.pub_endpoint = (
            socket.getsockopt_string(zmq.LAST_ENDPOINT) for socket in (self._rep, self._pub)
        )
        self._thread = threading.Thread(target=self._run, name="original")
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        poller = zmq.Poller()
        for each in (self._rep, self._told):
            poller.register(each, zmq.POLLIN)
        while self._told not in dict(poller.poll()):
            topic, answer, msgid = "", "", ""
            try:
                _, topic, content, msgid = read(self.key, self._rep.recv_multipart())
            except Exception:
                content = None
            else:
                self.asked.append(content)
                answer = self._answer(content)
            try:
                frames = make(self.key, self.endpoint, answer, topic, msgid)
            except Exception:
                return  # the original's loop ends here
            self._rep.send_multipart(frames)

    def _answer(self, content: Any) -> Any:
        if content == "info":
            return {"rep_endpoint": self.endpoint, "pub_endpoint": self.pub_endpoint}
        if not isinstance(content, tuple) or content[0] != "PSMessage":
            return content
        _, action, options = content
        try:
            return self._act(action, options)
        except Exception as exc:
            trace = traceback.format_exception(exc)[1:]
            return "PSMessage", "raise", exc if self.bare else (exc, trace)

    def _act(self, action: str, options: Any) -> Any:
        if action == "exec":
            method = getattr(getattr(self.served, options["name"]), options["method"])
            return "PSMessage", "return", method(*options.get("args", ()), **options.get("kwargs", {}))
        if action == "setattr":
            setattr(self.served, options["name"], options["value"])
            return "PSMessage", "return", None
        if action in ("get", "getattr"):
            value = getattr(self.served, options["name"])
            remote = action == "get" and not options.get("force_as_object") and _is_remote(value)
            return ("PSMessage", "remote", None) if remote else ("PSMessage", "return", value)
        if action == "inspect":
            names = {name for name in dir(self.served) if not name.startswith("_")}
            remotes = {name for name in names if _is_remote(getattr(self.served, name))}
            return "PSMessage", "return", (remotes, set()) if self.inspected is None else self.inspected
        raise ValueError(f"invalid message action {action}")

    def foreign(self) -> list[Any]:
        """What was asked that an original's proxy could not have sent."""
        return [content for content in self.asked if not _is_known(content)]

    def close(self) -> None:
        self._stop.send(b"")
        self._thread.join(TIMEOUT)
        self._context.destroy(0)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_remote(value: object) -> bool:
    marks = ("__get__", "__getitem__", "__setitem__", "emit")
    return callable(value) or any(hasattr(value, name) for name in marks)


def _is_known(content: Any) -> bool:
    if content in ("info", "stop"):
        return True
    if not isinstance(content, tuple) or content[0] != "PSMessage" or content[1] not in SENT:
        return False
    return content[1] != "exec" or content[2]["method"] in OPERATIONS
