"""Sockets of this machine: TCP on loopback, endpoints that are to be free, Unix sockets."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zmq

from ...protocol.errors import BindError
from ...shm import machine
from ...transport.endpoints import bind, check, new_socket
from ...transport.link_stream import peer_uid
from .finding import Finding, Subject, failed, ok, skipped, warning

WAIT = 2.0
"""Seconds for a byte to go to this machine itself."""


def check_loopback(subject: Subject) -> Iterator[Finding]:
    """A port of loopback can be bound and connected to."""
    del subject
    yield _talks(socket.AF_INET, "127.0.0.1", "loopback")
    yield _talks(socket.AF_INET6, "::1", "loopback (IPv6)")


def _talks(family: socket.AddressFamily, host: str, name: str) -> Finding:
    try:
        with socket.create_server((host, 0), family=family) as server:
            server.settimeout(WAIT)
            with socket.create_connection(server.getsockname()[:2], WAIT) as client:
                accepted, _ = server.accept()
                with accepted:
                    client.sendall(b"x")
                    accepted.settimeout(WAIT)
                    accepted.recv(1)
    except OSError as exc:
        if family == socket.AF_INET6:
            return skipped(name, f"not here: {exc.strerror or exc}")
        return failed(
            name, f"cannot bind and connect on {host}: {exc}", "look at the firewall's rules for lo"
        )
    return ok(name, f"a port of {host} was bound and connected to")


def check_binds(subject: Subject) -> Iterator[Finding]:
    """Endpoints that a server is to be bound to are free."""
    for endpoint in subject.binds:
        yield _is_free(endpoint)


def _is_free(endpoint: str) -> Finding:
    name = f"bind {endpoint}"
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server = None
    try:
        check(endpoint)
        server = new_socket(context, zmq.ROUTER)
        return ok(name, f"free: bound {bind(server, endpoint)}, and let go of it")
    except BindError as exc:
        owner = _owner(endpoint)
        return failed(name, str(exc), f"stop {owner}, or bind another port" if owner else "see the text")
    finally:
        if server is not None:
            server.close(0)
        context.term()


def _owner(endpoint: str) -> str:
    """The process that listens at a TCP port, when it can be seen."""
    port = endpoint.rpartition(":")[2]
    if not (endpoint.startswith("tcp://") and port.isdigit()):
        return ""
    wanted = {f"socket:[{number}]" for number in _listening(int(port))}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for descriptor in (process / "fd").iterdir():
                if os.readlink(descriptor) in wanted:
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    return f"process {process.name} ({command.strip():.80})"
        except OSError:  # it ended, or is another user's
            continue
    return ""


def _listening(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def check_unix_socket(subject: Subject) -> Iterator[Finding]:
    """Calls of this host can take a Unix socket, and the kernel tells who is at its other end."""
    del subject
    if hasattr(socket, "AF_UNIX"):
        yield _runtime_folder()
    slower = "calls of this host go over TCP, which is slower; Linux has them"
    if not machine.LANE:
        yield warning("unix socket", "this system has no Unix sockets that tell their user", slower)
        return
    name = f"\0pzc/doctor/{secrets.token_hex(8)}"
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(name)
            server.listen(1)
            client.connect(name)
            accepted, _ = server.accept()
            with accepted:
                uid = peer_uid(accepted)
    except OSError as exc:
        yield warning("unix socket", f"abstract sockets do not work here: {exc}", slower)
    else:
        if uid != os.geteuid():
            text = f"SO_PEERCRED tells user {uid}, but this is {os.geteuid()}"
            yield warning(
                "unix socket", text, "calls of this host go over TCP; look at the container's user namespace"
            )
        else:
            yield ok("unix socket", f"an abstract one was connected; SO_PEERCRED tells user {uid}")


def _runtime_folder() -> Finding:
    given = os.environ.get("XDG_RUNTIME_DIR")
    folder = given or tempfile.gettempdir()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="pzc-doctor-", dir=folder) as place,
            socket.socket(socket.AF_UNIX) as server,
        ):
            server.bind(f"{place}/s")
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno else str(exc)
        long = exc.errno is None or exc.errno == errno.ENAMETOOLONG
        todo = (
            "choose a shorter path"
            if long
            else "make it writable, or set XDG_RUNTIME_DIR to a folder of yours"
        )
        return warning(
            "runtime folder", f"no socket can be made in {folder} for ipc:// endpoints: {reason}", todo
        )
    return ok("runtime folder", f"{folder}: ipc:// endpoints can be made there")
