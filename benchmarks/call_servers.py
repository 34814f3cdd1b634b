"""Servers of the call benchmark, ours and the rivals': ``python -m benchmarks.call_servers KIND FOLDER``.

What each does and does not do is said at its function. All serve `sample.Bench`, or echo bytes, and tell
the parent their address. Rivals run with their own defaults, but for the serializer that a bar names. Each
imports what it needs by itself: a rival's process holds nothing of ours.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from benchmarks.children import Parent
from benchmarks.functions import COUNT, Functions
from benchmarks.sample import ECHO_BYTES, Bench

AUTHKEY = b"of this benchmark"
Started = tuple[str, Callable[[], object]]
"""Address for the client, and the function that serves until the process ends."""


def pzc(folder: Path) -> Started:
    """Ours: all is signed, addressed, fresh, never accepted twice and audited; one call at a time."""
    return _pzc(folder / "audit.jsonl")


def pzc_no_audit(folder: Path) -> Started:
    """As `pzc`, without an audit log."""
    return _pzc(None)


def _pzc(audit: Path | None) -> Started:
    from pzc import Server

    server = Server(Bench(), audit=audit)
    return server.rep_endpoint, server.serve_forever


class Manager(BaseManager):
    """A manager that serves one `Bench`."""


def managers(folder: Path) -> Started:
    """The standard library over a Unix socket: pickles, nothing signed (a key opens the connection)."""
    bench = Bench()
    Manager.register("bench", callable=lambda: bench, exposed=("add", "echo"))
    address = str(folder / "manager")
    return address, Manager(address, authkey=AUTHKEY).get_server().serve_forever


def pyro5(folder: Path) -> Started:
    """Pyro5 over tcp: msgpack, nothing signed; a thread per connection."""
    return _pyro5(host="127.0.0.1")


def pyro5_unix(folder: Path) -> Started:
    """Pyro5 over a Unix socket, otherwise as `pyro5`."""
    return _pyro5(unixsocket=str(folder / "pyro"))


def _pyro5(**where: Any) -> Started:
    api = importlib.import_module("Pyro5.api")
    daemon = api.Daemon(**where)
    return str(daemon.register(api.expose(Bench)())), daemon.requestLoop


def rpyc(folder: Path) -> Started:
    """RPyC over a Unix socket: its own encoding of plain values, nothing signed; a thread per connection."""
    package = importlib.import_module("rpyc")
    threaded = importlib.import_module("rpyc.utils.server").ThreadedServer
    service = type("BenchService", (package.Service,), {"exposed_add": lambda _, a, b: a + b})
    path = str(folder / "rpyc")
    return path, threaded(service, socket_path=path).start


def zmq_rep(folder: Path) -> Started:
    """pyzmq alone over tcp: a REP socket that sends the frames back; nothing encoded, signed or read."""
    return _zmq_rep(copy=True)


def zmq_rep_no_copy(folder: Path) -> Started:
    """As `zmq_rep`, with ``copy=False`` both ways."""
    return _zmq_rep(copy=False)


def _zmq_rep(copy: bool) -> Started:
    import zmq

    rep = zmq.Context.instance().socket(zmq.REP)
    port = rep.bind_to_random_port("tcp://127.0.0.1")

    def serve() -> None:
        while True:
            rep.send_multipart(rep.recv_multipart(copy=copy), copy=copy)

    return f"tcp://127.0.0.1:{port}", serve


def unix_echo(folder: Path) -> Started:
    """A Unix stream socket alone: what comes goes back; nothing encoded, signed or read."""
    path, listener = _unix_listener(folder)

    def serve() -> None:
        connection, _ = listener.accept()
        while data := connection.recv(1 << 16):
            connection.sendall(data)

    return path, serve


def lane(folder: Path) -> Started:
    """The lane in C alone: signed, verified and pickled; no roles, no lock, no audit, nothing kept."""
    from benchmarks.bare_lane import answering

    path, listener = _unix_listener(folder)

    def serve() -> None:
        connection, _ = listener.accept()
        answering(connection, Bench())

    return path, serve


def unix_echo_large(folder: Path) -> Started:
    """As `unix_echo`, for 16 MiB at a time, received into one buffer that is used again and again."""
    path, listener = _unix_listener(folder)

    def serve() -> None:
        connection, _ = listener.accept()
        view = memoryview(bytearray(ECHO_BYTES))
        while receive_all(connection, view):
            connection.sendall(view)

    return path, serve


def _unix_listener(folder: Path) -> tuple[str, socket.socket]:
    path = str(folder / "echo")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)
    return path, listener


def receive_all(connection: socket.socket, view: memoryview) -> bool:
    """Fill the view; False when the other side has closed."""
    done = 0
    while done < len(view):
        count = connection.recv_into(view[done:])
        if not count:
            return False
        done += count
    return True


SERVERS: dict[str, Callable[[Path], Started]] = {
    each.__name__: each
    for each in (
        pzc, pzc_no_audit, managers, pyro5, pyro5_unix, rpyc, zmq_rep, zmq_rep_no_copy, unix_echo,
        unix_echo_large, lane,
    )
}  # fmt: skip


def _follow(parent: Parent, functions: Functions) -> None:
    """Collect garbage between two rounds, or tell what was counted, when the parent says so; end with it."""
    sys.setprofile(None)
    for command in parent.commands():
        if "functions" in command:
            parent.tell(counts=functions.counts())
            functions.clear()
            continue
        gc.collect()
        parent.tell(collected=True)
    os._exit(0)


def main() -> None:
    parent = Parent()
    kind, folder = sys.argv[1:]
    functions = Functions()
    try:
        if os.environ.get(COUNT):
            functions.install()
        address, serve = SERVERS[kind](Path(folder))
    except Exception as exc:
        parent.fail(exc)
        return
    threading.Thread(target=_follow, args=(parent, functions), name="follow", daemon=True).start()
    gc.collect()
    gc.freeze()
    gc.disable()  # for everybody alike: no collection falls into a timed call
    parent.tell(address=address)
    serve()


if __name__ == "__main__":
    main()
