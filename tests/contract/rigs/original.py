"""An original Pizco peer made of nothing but pyzmq, pickle and hmac, and the session that it plays."""

from __future__ import annotations

import hashlib
import hmac
import json
import pickle
import threading
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import zmq

TIMEOUT = 20.0
GOLDEN = Path(__file__).resolve().parents[3].parent / "shared" / "golden"

Frames = list[bytes]


class Said(NamedTuple):
    """One message of a session: who said it, under which topic and id, what, and in which bytes."""

    client: bool
    topic: str
    content: Any
    msgid: str
    frames: Frames


def make(key: bytes, sender: str, content: object, topic: str = "", msgid: str = "") -> Frames:
    """Five frames as the original formats them."""
    parts = [
        f"PZC00+{sender}+{topic}".encode(),
        b"pickle2",
        pickle.dumps(content, 2),
        (msgid or uuid.uuid4().urn).encode(),
    ]
    return [*parts, sign(key, parts)]


def sign(key: bytes, parts: Frames) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha1).digest() if key else b""


def read(key: bytes, frames: Frames) -> tuple[str, str, Any, str]:
    """Sender, topic, content and id as the original reads them; ValueError for what it would refuse."""
    if len(frames) != 5 or (key and not hmac.compare_digest(sign(key, frames[:4]), frames[4])):
        raise ValueError("wrong number of parts, or the signature does not match")
    header, sender, topic = frames[0].decode().split("+")
    if header != "PZC00" or not frames[1].startswith(b"pickle"):
        raise ValueError("wrong header or serializer")
    return sender, topic, pickle.loads(frames[2]), frames[3].decode()


def recorded(path: Path) -> tuple[bytes, list[Said]]:
    """Key and messages of a recorded session."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    client = entries[0]["sender"]
    said = []
    for entry in entries:
        frames = [bytes.fromhex(frame) for frame in entry["frames"]]
        content = pickle.loads(frames[2])
        said.append(Said(entry["sender"] == client, entry["topic"], content, frames[3].decode(), frames))
    return entries[0]["key"].encode(), said


def invented(key: bytes) -> list[Said]:
    """A session of the same kind that needs no recording."""
    said: list[Said] = []

    def say(client: bool, content: object, topic: str = "", msgid: str = "") -> str:
        frames = make(key, "tcp://127.0.0.1:1" if client else "tcp://127.0.0.1:2", content, topic, msgid)
        said.append(Said(client, topic, content, frames[3].decode(), frames))
        return said[-1].msgid

    def exchange(question: object, answer: object) -> str:
        msgid = say(True, question)
        say(False, answer, msgid=msgid)
        return msgid

    def ps(action: str, options: object) -> tuple[str, str, object]:
        return "PSMessage", action, options

    exchange("info", {"rep_endpoint": "tcp://127.0.0.1:2", "pub_endpoint": "tcp://127.0.0.1:3"})
    exchange(
        ps("inspect", {}), ps("return", ({"ramp", "fail", "slow", "voltage_changed", "calibration"}, set()))
    )
    exchange(ps("setattr", {"name": "label", "value": "psu2"}), ps("return", None))
    exchange(ps("get", {"name": "voltage"}), ps("return", 0.0))
    exchange(ps("exec", {"name": "calibration", "method": "__getitem__", "args": (1,)}), ps("return", 2))
    exchange(ps("exec", {"name": "calibration", "method": "__setitem__", "args": (2, 4)}), ps("return", None))
    exchange(ps("setattr", {"name": "voltage", "value": 3.3}), ps("return", None))
    say(False, (3.3, 0.0, None), "voltage_changed")
    exchange(ps("exec", {"name": "ramp", "method": "__call__", "args": (2,)}), ps("return", 4))
    both = {"name": "ramp", "method": "__call__", "args": (2,), "kwargs": {"b": 5}}
    exchange(ps("exec", both), ps("return", 10))
    trace = ["  File ...\n", "ValueError: out of range\n"]
    exchange(
        ps("exec", {"name": "fail", "method": "__call__"}), ps("raise", (ValueError("out of range"), trace))
    )
    slow = say(True, ps("exec", {"name": "slow", "method": "__call__"}))
    say(False, ps("future_register", slow), msgid=slow)
    say(False, {"msgid": slow, "result": 42, "exception": None}, "__future__")
    nope = AttributeError("'Instrument' object has no attribute 'nope'")
    exchange(ps("get", {"name": "nope"}), ps("raise", (nope, ["AttributeError: ...\n"])))
    exchange("stop", "stopping")
    return said


class Client:
    """The REQ and the SUB socket of an original proxy."""

    def __init__(self, key: bytes, rep_endpoint: str, pub_endpoint: str) -> None:
        self.key, self.server = key, rep_endpoint
        self._context = zmq.Context()
        self._req, self._sub = self._context.socket(zmq.REQ), self._context.socket(zmq.SUB)
        self._req.connect(rep_endpoint)
        self._sub.connect(pub_endpoint)

    def subscribe(self, topic: str) -> None:
        self._sub.setsockopt(zmq.SUBSCRIBE, f"PZC00+{self.server}+{topic}".encode())

    def ask(self, frames: Frames) -> Frames:
        self._req.send_multipart(frames)
        return self._next(self._req)

    def notified(self) -> Frames:
        return self._next(self._sub)

    def _next(self, socket: zmq.Socket[bytes]) -> Frames:
        assert socket.poll(int(TIMEOUT * 1000)), "nothing came"
        return socket.recv_multipart()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self._context.destroy(0)


class Server:
    """The REP and the XPUB socket of an original server, answering as it did in a session."""

    def __init__(self, key: bytes, session: list[Said], endpoint: str = "tcp://127.0.0.1:*") -> None:
        self.key, self.session = key, session
        self.asked: list[Any] = []
        self._context = zmq.Context()
        self._rep, self._pub = self._context.socket(zmq.REP), self._context.socket(zmq.XPUB)
        self._stop, self._told = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._told.bind("inproc://stop")
        self._stop.connect("inproc://stop")
        self._rep.bind(endpoint)
        self._pub.bind("tcp://127.0.0.1:*")
        self.endpoint, self.pub_endpoint = (
            s.getsockopt_string(zmq.LAST_ENDPOINT) for s in (self._rep, self._pub)
        )
        self._filters: set[bytes] = set()
        self._thread = threading.Thread(target=self._run, name="original")
        self._thread.start()

    def _run(self) -> None:
        poller = zmq.Poller()
        for each in (self._rep, self._told):
            poller.register(each, zmq.POLLIN)
        while True:
            if self._told in dict(poller.poll()):
                return
            frames = self._rep.recv_multipart()
            try:
                _, topic, content, msgid = read(self.key, frames)
            except Exception:
                self._rep.send_multipart(make(self.key, self.endpoint, ""))
                continue
            self.asked.append(content)
            answer, follows = self._look_up(content, msgid)
            self._rep.send_multipart(make(self.key, self.endpoint, answer, topic, msgid))
            for said in follows:
                self._publish(
                    said.topic,
                    {**said.content, "msgid": msgid} if said.topic == "__future__" else said.content,
                )

    def _look_up(self, content: Any, msgid: str) -> tuple[Any, list[Said]]:
        for number, said in enumerate(self.session):
            if said.client and said.content == content:
                answer = self.session[number + 1].content
                if content == "info":
                    answer = {"rep_endpoint": self.endpoint, "pub_endpoint": self.pub_endpoint}
                elif answer[1] == "future_register":
                    answer = (*answer[:2], msgid)
                rest = self.session[number + 2 :]
                return answer, rest[: next((i for i, said in enumerate(rest) if said.client), 0)]
        return content, []  # as an original agent echoes what it does not know

    def _publish(self, topic: str, content: object) -> None:
        wanted = f"PZC00+{self.endpoint}+{topic}".encode()
        while wanted not in self._filters:
            assert self._pub.poll(int(TIMEOUT * 1000)), f"nobody subscribed to {topic}"
            message = self._pub.recv()
            (self._filters.add if message[0] else self._filters.discard)(message[1:])
        self._pub.send_multipart(make(self.key, self.endpoint, content, topic))

    def close(self) -> None:
        self._stop.send(b"")
        self._thread.join(TIMEOUT)
        self._context.destroy(0)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
