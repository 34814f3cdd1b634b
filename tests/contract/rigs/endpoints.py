"""Endpoints for servers that go away and come back: nobody else gets them meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path
from random import SystemRandom


def free_endpoint() -> str:
    """An endpoint that the kernel gives to nobody while its server is away."""
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    dice = SystemRandom()
    while True:
        port = dice.randrange(10_000, least)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return f"tcp://127.0.0.1:{port}"
