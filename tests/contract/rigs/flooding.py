"""A server that answers a request without end: run it as a program, in whose place it stands says its first line.

It speaks ZMTP itself, so that it says as much as a socket carries. A real agent in it makes the answers.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator

import zmq

from pzc import Agent, Protocol

GREETING = b"\xff" + bytes(8) + b"\x7f\3\0NULL".ljust(23, b"\0") + bytes(32)
READY = b"\5READY\x0bSocket-Type\0\0\0\6ROUTER"


def frame(body: bytes, flags: int) -> bytes:
    return bytes((flags | 2,)) + len(body).to_bytes(8, "big") + body


def frames(reader: socket.SocketIO) -> Iterator[tuple[int, bytes]]:
    while flags := reader.read(1):
        size = int.from_bytes(reader.read(8 if flags[0] & 2 else 1) or b"", "big")
        body = b""
        while len(body) < size:
            body += reader.read(size - len(body)) or b""
        yield flags[0], body


def serve(connection: socket.socket, endpoint: str) -> None:
    """Answer what comes; ``again`` without end, and ``before`` with the last answer without end."""
    connection.sendall(GREETING)
    reader = connection.makefile("rb", buffering=0)
    greeted, said = 0, b""
    while greeted < len(GREETING):
        greeted += len(reader.read(len(GREETING) - greeted) or b"")
    connection.sendall(frame(READY, 4))
    with contextlib.suppress(OSError), zmq.Context() as context, context.socket(zmq.DEALER) as agent:
        agent.connect(endpoint)
        parts: list[bytes] = []
        for flags, body in frames(reader):
            if flags & 4:
                continue
            parts.append(body)
            if flags & 1:
                continue
            before = any(b"before" in part for part in parts)
            if not before:
                agent.send_multipart(parts)
                reply = agent.recv_multipart()
                said = b"".join(frame(part, part is not reply[-1]) for part in reply)
                connection.sendall(said)
            while before or any(b"again" in part for part in parts):  # until the other side is gone
                connection.sendall(said * 1000)
            parts.clear()


def main(key: str) -> None:
    with Agent(protocol=Protocol(key)) as agent, socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"tcp://127.0.0.1:{listening.getsockname()[1]}", flush=True)  # noqa: T201

        def accept() -> None:
            while True:
                connection, _ = listening.accept()
                arguments = connection, agent.rep_endpoint
                threading.Thread(target=serve, args=arguments, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
