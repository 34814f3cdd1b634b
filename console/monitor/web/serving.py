"""Serving the page: where it listens, who gets which token, and its end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import BindError, ConfigError
from ....protocol.frames import Kind
from ....protocol.keyring import Keyring, Role
from ....transport.wire import Protocol
from ..collector import Collector
from ..feeds import following
from ..metrics import need
from .access import Access
from .acting import READ_TIMEOUT, Acting, Operator
from .audit import Audit

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from .app import MonitorPage

END, LOOK = 3, 0.2
"""Seconds for what runs when the page ends, and between two looks whether it is to end."""


class Place(NamedTuple):
    """Where the page is.

    Attributes:
        host: address to listen at.
        port: 0 for any.
        certificate: PEM file for TLS; None without.
        private_key: PEM file of its key.
    """

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "http" if self.certificate is None else "https"


def operator(path: Path) -> Protocol:
    """How an operator signs.

    Raises:
        ConfigError: when the keyring cannot be read, or its key is of no operator.
    """
    keyring = Keyring.load(path)
    if keyring.signer(Kind.REQUEST).role < Role.OPERATOR:
        raise ConfigError(f"{path}: the key {keyring.signer(Kind.REQUEST).name} is of no operator")
    return Protocol(keyring=keyring)


def listen(place: Place) -> socket.socket:
    """The socket of the page.

    Raises:
        MissingRequirement: without starlette, uvicorn or websockets.
        BindError: when the address cannot be had.
    """
    for package in ("starlette", "uvicorn", "websockets"):  # by the last of which uvicorn speaks to pages
        if find_spec(package) is None:
            raise need(package)
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((place.host, place.port))
        made.listen(128)
    except OSError as exc:
        made.close()
        why = f"the page cannot be at {place.host}:{place.port}: {exc.strerror}; --port says another port"
        raise BindError(why) from exc
    return made


def serve(
    place: Place, listener: socket.socket, collector: Collector, access: Access,
    operators: Mapping[str, Protocol], audit: Path | None, told: Callable[[], bool],
) -> None:  # fmt: skip
    """Serve the page until it is told to end.

    Args:
        place: as it was asked for.
        listener: as `listen` made it; closed at the end.
        collector: keeps the state; begun here, closed by its owner.
        access: who may look and act.
        operators: how each signs, by name.
        audit: file of what they did.
        told: asked again and again whether it is to end.

    Raises:
        ConfigError: when the certificate cannot be used, or the audit log cannot be written.
    """
    import uvicorn

    from .app import MonitorPage

    log = Audit(audit)
    by_name = {name: Operator(protocol) for name, protocol in operators.items()}
    acting = Acting(Operator(collector.agent.protocol, READ_TIMEOUT), by_name, collector.is_busy)
    with closing(listener), closing(log), closing(acting), following(collector) as feeds:
        page = MonitorPage(collector, feeds, acting, access, log)
        _run(page, uvicorn.Server(_config(page.application(), place)), listener, collector, told)


def _run(
    page: MonitorPage, server: uvicorn.Server, listener: socket.socket, collector: Collector,
    told: Callable[[], bool],
) -> None:  # fmt: skip
    async def run() -> None:
        serving = asyncio.ensure_future(server.serve([listener]))
        while not server.should_exit and not serving.done():
            await asyncio.wait([serving], timeout=LOOK)
        page.end()
        await serving

    # In a thread of its own, where uvicorn leaves the signals alone.
    thread = threading.Thread(target=asyncio.run, args=(run(),), name="pzc-page")
    collector.begin()
    thread.start()
    try:
        while thread.is_alive() and not told():
            thread.join(LOOK)
    finally:
        server.should_exit = True
        thread.join(2 * END)


def _config(application: ASGIApp, place: Place) -> uvicorn.Config:
    import uvicorn

    try:
        return uvicorn.Config(
            application, log_level="warning", access_log=False, server_header=False, ws="auto",
            lifespan="off", ws_max_size=65_536, ws_ping_interval=10, ws_ping_timeout=20,
            timeout_graceful_shutdown=END, ssl_certfile=place.certificate, ssl_keyfile=place.private_key,
        )  # fmt: skip
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"{place.certificate} cannot be used for TLS: {exc}") from exc
