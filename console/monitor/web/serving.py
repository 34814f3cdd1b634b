"""Serving the page, and metrics: where they listen, who is hung up on, and their end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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

END, LOOK = 3, 0.2
"""Seconds for what runs when the page ends, and between two looks whether it is to end."""

ASKED = 5.0
"""Seconds in which whoever is connected has to ask something, and all of it."""


class Place(NamedTuple):
    """Where the page is, or metrics.

    Attributes:
        host: address to listen at.
        port: 0 for any.
        certificate: PEM file for TLS; None without.
        private_key: PEM file of its key.
        client_ca: PEM file of who signs the certificates of those who may ask; None for anybody.
    """

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None
    client_ca: Path | None = None

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


def listen(place: Place, who: str = "the page") -> socket.socket:
    """The socket of the page, or of whoever else is there.

    Raises:
        MissingRequirement: without starlette, uvicorn or websockets.
        ConfigError: when the certificate cannot be used.
        BindError: when the address cannot be had.
    """
    for package in ("starlette", "uvicorn", "websockets"):  # by the last of which uvicorn speaks to pages
        if find_spec(package) is None:
            raise need(package)
    _check_tls(place)
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((place.host, place.port))
        made.listen(128)
    except OSError as exc:
        made.close()
        why = f"{who} cannot be at {place.host}:{place.port}: {exc.strerror}; --port says another port"
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
        ConfigError: when the audit log cannot be written.
    """
    from .app import MonitorPage

    log = Audit(audit)
    by_name = {name: Operator(protocol) for name, protocol in operators.items()}
    acting = Acting(Operator(collector.agent.protocol, READ_TIMEOUT), by_name, collector.is_busy)
    with closing(listener), closing(log), closing(acting), following(collector) as feeds:
        page = MonitorPage(collector, feeds, acting, access, log)
        collector.begin()
        run(page.application(), place, listener, told, page.end)


def run(
    application: ASGIApp, place: Place, listener: socket.socket, told: Callable[[], bool],
    end: Callable[[], object] = lambda: None,
) -> None:  # fmt: skip
    """Answer requests until it is told to end.

    Args:
        application: answers them.
        place: as it was asked for.
        listener: as `listen` made it.
        told: asked again and again whether it is to end.
        end: called then, in the loop that serves.
    """
    import uvicorn

    server, failed = uvicorn.Server(_config(application, place)), list[Exception]()

    async def serving() -> None:
        serving, since = asyncio.ensure_future(server.serve([listener])), dict[Any, tuple[Any, float]]()
        while not server.should_exit and not serving.done():
            await asyncio.wait([serving], timeout=LOOK)
            since = _hang_up(server.server_state.connections, since)
        end()
        await serving

    def run() -> None:
        try:
            asyncio.run(serving())
        except Exception as exc:
            failed.append(exc)

    # In a thread of its own, where uvicorn leaves the signals alone.
    thread = threading.Thread(target=run, name="pzc-page")
    thread.start()
    try:
        while thread.is_alive() and not told():
            thread.join(LOOK)
    finally:
        server.should_exit = True
        thread.join(2 * END)
    if failed:
        raise failed[0]


def _hang_up(
    connections: Iterable[Any], since: Mapping[Any, tuple[Any, float]]
) -> dict[Any, tuple[Any, float]]:
    """Hang up on those that ask nothing, or half of something; what each asked last, and since when."""
    found: dict[Any, tuple[Any, float]] = {}
    for each in connections:
        asked = getattr(each, "cycle", each)  # a websocket has none
        if asked is each or (asked is not None and not asked.response_complete):
            continue
        before, began = since.get(each, (None, time.monotonic()))
        found[each] = asked, began if asked is before else time.monotonic()
        if time.monotonic() - found[each][1] > ASKED:
            each.transport.close()
    return found


def _check_tls(place: Place) -> None:
    if place.certificate is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(place.certificate, place.private_key)
        if place.client_ca is not None:
            context.load_verify_locations(place.client_ca)
    except OSError as exc:  # SSLError, too
        files = ", ".join(str(each) for each in place[2:] if each is not None)
        raise ConfigError(f"{files} cannot be used for TLS: {exc.strerror or exc}") from exc


def _config(application: ASGIApp, place: Place) -> uvicorn.Config:
    import uvicorn

    return uvicorn.Config(
        application, log_level="warning", access_log=False, server_header=False, ws="auto",
        lifespan="off", ws_max_size=65_536, ws_ping_interval=10, ws_ping_timeout=20,
        timeout_graceful_shutdown=END, ssl_certfile=place.certificate, ssl_keyfile=place.private_key,
        ssl_ca_certs=None if place.client_ca is None else str(place.client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if place.client_ca is None else ssl.CERT_REQUIRED,
    )  # fmt: skip
