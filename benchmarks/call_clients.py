"""Clients of the call benchmark, ours and the rivals': ``python -m benchmarks.call_clients KIND ADDRESS``.

A client is what one user of that library would write. The look-up of the method (``proxy.add``) is timed
for everybody. What the rivals do and do not do is said in `call_servers`.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.call_servers import AUTHKEY, Manager, receive_all
from benchmarks.children import Parent
from benchmarks.functions import COUNT, Functions
from benchmarks.jobs import JOBS, Client
from benchmarks.sample import add_frames, array

if TYPE_CHECKING:
    import zmq

TIMEOUT_MS = 30_000
"""Longest wait of a raw client for one answer; ours waits as long by default."""


def is_three(result: object) -> bool:
    """Whether ``add(1, 2)`` came back right."""
    return result == 3


def pzc_add(endpoint: str, transport: str = "auto") -> Client:
    """Ours."""
    from pzc import Proxy, close

    proxy = Proxy(endpoint, transport=transport)
    return Client(
        lambda: proxy.add(1, 2),
        is_three,
        later=lambda: proxy.add.future(1, 2),
        close=lambda: close(proxy),
    )


def pzc_locked(endpoint: str) -> Client:
    """Ours, while the client holds the lock."""
    from pzc import Proxy, close, lock

    proxy = Proxy(endpoint)
    held = lock(proxy)
    return Client(lambda: proxy.add(1, 2), is_three, close=lambda: (held.release(), close(proxy)))


def pzc_nested(endpoint: str) -> Client:
    """Ours, a member two levels deep."""
    return _pzc(endpoint, lambda proxy: lambda: proxy.inner.innermost.add(1, 2))


def pzc_kwargs(endpoint: str) -> Client:
    """Ours, with keyword arguments."""
    return _pzc(endpoint, lambda proxy: lambda: proxy.add(a=1, b=2))


def pzc_async(endpoint: str) -> Client:
    """Ours, a member that is a coroutine function."""
    return _pzc(endpoint, lambda proxy: lambda: proxy.add_later(1, 2))


def pzc_4_kib(endpoint: str) -> Client:
    """Ours, with an argument of 4 KiB."""
    some = bytes(4096)
    return _pzc(endpoint, lambda proxy: lambda: proxy.third_of(some, 3))


def _pzc(endpoint: str, call: Callable[[Any], Callable[[], Any]]) -> Client:
    from pzc import Proxy, close

    proxy = Proxy(endpoint)
    return Client(call(proxy), is_three, close=lambda: close(proxy))


def pzc_echo(endpoint: str, transport: str = "auto") -> Client:
    """Ours; the result is an array that can be used at once."""
    import numpy as np

    from pzc import Proxy, close

    proxy, sent = Proxy(endpoint, transport=transport), array()
    return Client(
        lambda: proxy.echo(sent),
        lambda result: bool(np.array_equal(result, sent)),
        close=lambda: close(proxy),
    )


def pzc_ping(endpoint: str) -> Client:
    """Ours: a proxy makes the long call, another agent of the process pings."""
    from pzc import Agent, Proxy, close

    proxy, agent = Proxy(endpoint), Agent()
    return Client(
        lambda: proxy.add(1, 2),
        is_three,
        ping=lambda: agent.request(endpoint, "ping"),
        start=lambda member, seconds: getattr(proxy, member).future(seconds),
        close=lambda: (agent.stop(), close(proxy)),
    )


def managers(address: str) -> Client:
    """The standard library's: a proxy out of `BaseManager`."""
    Manager.register("bench")
    manager = Manager(address, authkey=AUTHKEY)
    manager.connect()
    proxy: Any = manager.__getattribute__("bench")()
    return Client(lambda: proxy.add(1, 2), is_three)


def pyro5(address: str) -> Client:
    """Pyro5's proxy, with the serializer msgpack."""
    importlib.import_module("Pyro5").config.SERIALIZER = "msgpack"
    proxy = importlib.import_module("Pyro5.api").Proxy(address)
    proxy._pyroTimeout = TIMEOUT_MS / 1000
    return Client(lambda: proxy.add(1, 2), is_three, close=proxy._pyroRelease)


def rpyc(address: str) -> Client:
    """RPyC's root object; looking its method up is a round trip of its own."""
    connection = importlib.import_module("rpyc.utils.factory").unix_connect(address)
    root = connection.root
    return Client(lambda: root.add(1, 2), is_three, close=connection.close)


def _req(address: str) -> zmq.Socket[bytes]:
    import zmq

    req = zmq.Context.instance().socket(zmq.REQ)
    req.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
    req.setsockopt(zmq.LINGER, 0)
    req.connect(address)
    return req


def zmq_add(address: str) -> Client:
    """A REQ socket that sends the frames of one signed ``add(1, 2)``, always the same."""
    req, frames = _req(address), add_frames()

    def call() -> list[bytes]:
        req.send_multipart(frames)
        return req.recv_multipart()

    return Client(call, lambda result: result == frames, close=req.close)


def zmq_echo(address: str) -> Client:
    """As `zmq_add`, the content being the array, with ``copy=False`` both ways."""
    import numpy as np

    req, frames, sent = _req(address), add_frames(), array()

    def call() -> list[zmq.Frame]:
        req.send_multipart([*frames[:2], sent.data, *frames[3:]], copy=False)
        return req.recv_multipart(copy=False)

    def right(result: list[zmq.Frame]) -> bool:
        return bool(np.array_equal(np.frombuffer(result[2].buffer, np.float64), sent))

    return Client(call, right, close=req.close)


def _connected(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    return connection


def unix_add(address: str) -> Client:
    """A Unix socket that sends as many bytes as one signed ``add(1, 2)`` has: the floor."""
    connection, data = _connected(address), b"".join(add_frames())

    def call() -> bytes:
        connection.sendall(data)
        answer = connection.recv(1 << 16)
        while len(answer) < len(data):
            answer += connection.recv(1 << 16)
        return answer

    return Client(call, lambda result: result == data, close=connection.close)


def lane(address: str) -> Client:
    """The lane in C alone, with pickle."""
    from benchmarks.bare_lane import asking

    return Client(asking(_connected(address)), is_three)


def unix_echo(address: str) -> Client:
    """A Unix socket that sends the array's bytes and receives them into a buffer that is reused."""
    connection, sent = _connected(address), array()
    data, view = sent.data.cast("B"), memoryview(bytearray(sent.nbytes))

    def call() -> memoryview:
        connection.sendall(data)
        receive_all(connection, view)
        return view

    return Client(call, lambda result: bool(result == data), close=connection.close)


CLIENTS = {
    "pzc": pzc_add, "pzc_tcp": partial(pzc_add, transport="tcp"),
    "pzc_locked": pzc_locked, "pzc_nested": pzc_nested, "pzc_kwargs": pzc_kwargs, "pzc_async": pzc_async,
    "pzc_4_kib": pzc_4_kib, "pzc_echo": pzc_echo, "pzc_echo_tcp": partial(pzc_echo, transport="tcp"),
    "pzc_ping": pzc_ping, "managers": managers, "pyro5": pyro5, "rpyc": rpyc, "zmq_add": zmq_add,
    "zmq_echo": zmq_echo, "lane": lane, "unix_add": unix_add, "unix_echo": unix_echo,
}  # fmt: skip


def _counted(client: Client, functions: Functions, calls: int) -> list[int]:
    """Python functions that each thread runs for so many calls; those of the benchmark itself left out."""
    functions.clear()
    for _ in range(calls):
        client.call()
    counts = functions.counts()
    return [counts[0] - calls, *counts[1:]] if counts else []


def main() -> None:
    parent = Parent()
    kind, address = sys.argv[1:]
    functions = Functions()
    try:
        if os.environ.get(COUNT):
            functions.install()
        client = CLIENTS[kind](address)
        parent.tell(ready=True)
        for command in parent.commands():
            if "functions" in command:
                parent.tell(counts=_counted(client, functions, command["functions"]))
                continue
            parent.tell(value=JOBS[command.pop("job")](client, **command))
        client.close()
    except Exception as exc:
        parent.fail(exc)


if __name__ == "__main__":
    main()
