"""Reaching: the agent that a command talks to, and what is told while nobody answers."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ..agents import Agent, Proxy, close, discover, lease
from ..protocol.errors import CallTimeout, PeerLost, PzcError
from ..transport.endpoints import is_loopback, split
from ..transport.peer import Peer
from .output import say
from .targets import UsageError

SOON, LOOK = 3.0, 1.0
"""Seconds after which whoever waits is told for what, and for a look at why."""

LISTEN, ANSWER = 0.3, 1.0
"""Seconds to listen for who has a name, and to wait for an answer."""


class Unreached(NamedTuple):
    """Why an endpoint gave no answer.

    Attributes:
        why: what was seen.
        todo: what to do about it.
        nobody: no agent is there, whatever time it is given.
    """

    why: str
    todo: str
    nobody: bool = False


@contextmanager
def leased_agent(timeout: float | None) -> Generator[tuple[Agent, float]]:
    """The process's agent, and the timeout or its default in seconds."""
    agent, release = lease(None)
    try:
        yield agent, agent.settings["PZC_TIMEOUT"] if timeout is None else timeout
    finally:
        release()


@contextmanager
def proxy_of(target: str, timeout: float | None, transport: str | None = None) -> Generator[Proxy]:
    """A proxy of the agent at an endpoint or of a name, once it was met; errors as `meet`."""
    with leased_agent(None) as (agent, _):
        meet(agent, target, timeout)
        proxy = Proxy(target, timeout=timeout, transport=transport)
        try:
            yield proxy
        finally:
            close(proxy)


def meet(agent: Agent, target: str, timeout: float | None) -> Peer:
    """Who is behind an endpoint or name.

    When there is no answer within `SOON` seconds, the user is told why, and what is still waited for: nothing
    where nobody is, unless they asked for that time.

    Args:
        agent: that asks.
        target: endpoint or name.
        timeout: seconds that the user asked for; None for those of ``PZC_TIMEOUT``.

    Raises:
        CallTimeout, PeerLost: nobody answers; tells what was seen, and what to do.
        UsageError: for an endpoint that leads to nobody outside its process.
        PzcError: as `Agent.peer`.
    """
    if target.startswith("inproc://"):
        raise UsageError(f"{target!r}: only tcp:// and ipc:// endpoints and names reach another process")
    whole = agent.settings["PZC_TIMEOUT"] if timeout is None else timeout
    deadline, wait, told = time.monotonic() + whole, min(whole, SOON), False
    while True:
        try:
            return agent.peer(target, wait)
        except (CallTimeout, PeerLost) as error:
            seen = unreached(_endpoint(agent, target), LOOK)
            wait = deadline - time.monotonic()
            if wait <= 0 or (seen.nobody and timeout is None):
                more = "" if timeout is not None else "; with --timeout 60 it is waited for"
                raise type(error)(f"{seen.why}; {seen.todo}{more}") from error
            if not told:
                say(f"{seen.why}; still waiting, {whole:g} s in all")
            told = True


def _endpoint(agent: Agent, target: str) -> str:
    try:
        return agent.resolve(target, LOOK)
    except PzcError:
        return target


def unreached(endpoint: str, timeout: float) -> Unreached:
    """What the system says of an endpoint that gave no answer.

    Args:
        endpoint: of any kind.
        timeout: seconds to look.
    """
    host, port = split(endpoint)
    if not port.isdecimal():
        path = endpoint.removeprefix("ipc://")
        if path != endpoint and not os.path.exists(path):
            return Unreached(f"there is no socket {path}", "start the server, or correct the path", True)
        return Unreached(f"nobody answers at {endpoint}", "is it running, and by the same user?")
    host = host.strip("[]")
    try:
        socket.create_connection((host, int(port)), timeout).close()
    except socket.gaierror as exc:
        return Unreached(
            f"host {host} is not known: {exc.strerror}", "correct the name, or give the address", True
        )
    except ConnectionRefusedError:
        bound = f"start it there with --bind tcp://0.0.0.0:{port}, as 127.0.0.1 is reached from there only"
        todo = "start the server" if is_loopback(endpoint) else bound
        return Unreached(
            f"nothing listens at {endpoint}: connection refused", f"{todo}, or correct the port", True
        )
    except TimeoutError:
        return Unreached(
            f"no connection to {endpoint} within {timeout:g} s",
            "is the machine up? a firewall may drop what comes for this port",
        )
    except OSError as exc:
        return Unreached(
            f"no way to {endpoint}: {exc.strerror}", "look at the network: cable, address, route", True
        )
    return Unreached(
        f"{endpoint} takes connections, but no agent answers",
        "the server hangs or is stopped (SIGSTOP?), or another program listens there; look at it there",
    )


def check_name(name: str, otherwise: str) -> None:
    """Judge whether a command may take a name for itself.

    Args:
        name: of an agent to be.
        otherwise: what would happen, and what to do, when somebody has it.

    Raises:
        UsageError: when another agent of that name answers.
    """
    with leased_agent(ANSWER) as (agent, timeout):
        for entry in discover(name, LISTEN, kind="agent"):
            for address in entry.addresses:
                with suppress(PzcError):
                    agent.request(address, "ping", timeout)
                    raise UsageError(
                        f"{name} is there already, as process {entry.pid} on {entry.host}: {otherwise}"
                    )
