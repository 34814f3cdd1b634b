"""A server that strangers attack, in a process of its own with bounded memory."""

from __future__ import annotations

import os
import pickle
import pickletools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from pzc import Protocol

TIMEOUT = 60

CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from pzc import Protocol, Server

class Echo:
    def echo(self, *values):
        return len(values)

with Server(Echo(), protocol=Protocol("")) as server:
    print(server.rep_endpoint, server.agent_id, flush=True)
    sys.stdin.read()
"""


class Victim:
    """A server without a key, in a child process."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdout
        self.endpoint, self.agent_id = self._child.stdout.readline().split()

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def cpu(self) -> float:
        """Seconds of computing so far."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def begin_peak(self) -> None:
        """Forget how much memory it had at most."""
        Path(f"/proc/{self._child.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak(self) -> int:
        """Bytes of memory that it had at most."""
        status = Path(f"/proc/{self._child.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def ask(self, body: bytes, serializer: str = "pickle") -> list[bytes] | None:
        """What it answers to a content that was encoded by hand; None when it died."""
        frames = Protocol("").encode("0" * 32, "", None, receiver=self.agent_id)
        with zmq.Context() as context, context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(self.endpoint)
            socket.send_multipart([frames[0], serializer.encode(), body, *frames[3:]])
            for _ in range(TIMEOUT * 10):
                if socket.poll(100):
                    return socket.recv_multipart()
                if not self.alive:
                    break
        return None

    def works(self) -> bool:
        """Whether it answers a plain call."""
        answer = self.ask(exec_of(pickle.dumps((1, 2))))
        return answer is not None and pickle.loads(answer[2])[1:] == ("return", 2)

    def close(self) -> None:
        self._child.communicate("")


class Home:
    """Gives a living victim to each test."""

    def __init__(self) -> None:
        self._victim: Victim | None = None

    def victim(self) -> Victim:
        if self._victim is None or not self._victim.alive:
            self.close()
            self._victim = Victim()
        return self._victim

    def close(self) -> None:
        if self._victim is not None:
            self._victim.close()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    home = Home()
    home.victim()
    yield home
    home.close()


@pytest.fixture
def victim(home: Home) -> Victim:
    return home.victim()


def inside(pickled: bytes) -> bytes:
    """A pickle's opcodes, to stand in another one."""
    found = pickletools.optimize(pickled)
    opcodes = [(op.name, at) for op, _, at in pickletools.genops(found)]
    start = next(at for name, at in opcodes if name not in ("PROTO", "FRAME"))
    return found[start : opcodes[-1][1]]


def exec_of(args: bytes) -> bytes:
    """The pickle of a call of ``echo`` with pickled arguments."""
    head = pickle.dumps("PSMessage", 2), pickle.dumps("exec", 2)
    options = [inside(pickle.dumps(text, 2)) for text in ("name", "echo", "method", "__call__", "args")]
    rest = inside(pickle.dumps("kwargs", 2)) + b"}"
    return (
        b"\x80\x04"
        + b"".join(map(inside, head))
        + b"}("
        + b"".join(options)
        + inside(args)
        + rest
        + b"u\x87."
    )
