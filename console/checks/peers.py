"""Peers, and the registry: whether each is reached, how, and if not, why."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...agents import OFFSET_WORTH_TELLING_MS, Agent
from ...discovery.site import parse_peers
from ...protocol.contents import as_table
from ...protocol.errors import (
    CallTimeout,
    ConfigError,
    PeerLost,
    PzcError,
    RemoteProtocolError,
    SignatureError,
    UnknownName,
    VersionError,
)
from ...protocol.frames import PZC00
from ...protocol.version import VERSION
from ...transport.peer import Peer
from ..reaching import unreached
from .finding import Finding, Subject, failed, ok, skipped, warning
from .settings import key_name

ROUND_TRIPS = 5
MAX_AT_ONCE = 16
"""Peers that are asked at the same time."""


@dataclass(frozen=True)
class Met:
    """One peer that answered, with what was measured.

    Attributes:
        peer: what its handshake told.
        transport: ``unix`` or ``tcp``, by which calls would go.
        round_trip_ms: median.
    """

    peer: Peer
    transport: str
    round_trip_ms: float


def check_static_peers(subject: Subject) -> Iterator[Finding]:
    """``PZC_PEERS`` can be read."""
    text = subject.settings["PZC_PEERS"]
    try:
        peers = parse_peers(text)
    except ConfigError as exc:
        yield failed("static peers", str(exc), "correct PZC_PEERS")
        return
    shown = ", ".join(f"{name} at {endpoint}" for name, endpoint in peers.items())
    yield ok("static peers", shown or "none (PZC_PEERS is empty)", peers=peers)


def check_peers(subject: Subject) -> Iterator[Finding]:
    """Each peer that is named: reached or not, why, and how."""
    targets = subject.targets
    if not targets:
        return
    if not subject.usable:
        yield skipped("peers", "no agent can be asked: a setting cannot be used, see above")
        return
    with Agent() as agent, ThreadPoolExecutor(MAX_AT_ONCE) as pool:
        yield from pool.map(partial(_look_at, subject, agent), targets, targets.values())


def _look_at(subject: Subject, agent: Agent, name: str, target: str) -> Finding:
    check = f"peer {name}"
    try:
        endpoint = agent.resolve(target)
        met = meet(agent, endpoint, subject.timeout)
    except UnknownName as exc:
        todo = "start it, or name it: PZC_PEERS=NAME=tcp://HOST:PORT; pzc ls shows who is there"
        return failed(check, str(exc), todo, reached=False)
    except (PzcError, OSError) as exc:
        why, todo = diagnose(target, exc, agent.protocol.signed, subject.timeout)
        return failed(check, why, todo, reached=False, endpoint=target, error=type(exc).__name__)
    return _tell(check, agent, met)


def meet(agent: Agent, endpoint: str, timeout: float) -> Met:
    """Shake hands with a peer and measure it; errors as `Agent.request`."""
    peer = agent.peer(endpoint, timeout)
    transport, kinds = "tcp", ("unix", "tcp") if peer.dialect != PZC00 else ("tcp",)
    times: list[float] = []
    for kind in kinds:
        transport = kind
        try:
            times = [_round_trip(agent, endpoint, timeout, kind) for _ in range(ROUND_TRIPS)]
            break
        except PeerLost:
            if kind == "tcp":
                raise
    return Met(peer, transport, statistics.median(times))


def _round_trip(agent: Agent, endpoint: str, timeout: float, transport: str) -> float:
    began = time.perf_counter()
    agent.exchange(endpoint, "ping", timeout, transport=transport)
    return (time.perf_counter() - began) * 1000


def _tell(check: str, agent: Agent, met: Met) -> Finding:
    peer = met.peer
    version = peer.details.get("version")
    told: dict[str, Any] = {
        "reached": True,
        "endpoint": peer.endpoint,
        "agent_id": peer.agent_id,
        "version": version,
        "dialect": peer.dialect,
        "dialects": peer.details.get("dialects", [PZC00]),
        "key_id": peer.key_id,
        "clock_offset_ms": peer.offset_ms,
        "transport": met.transport,
        "round_trip_ms": met.round_trip_ms,
    }
    ring = agent.protocol.codec.keyring
    signed = f"key {key_name(ring, peer.key_id)} accepted" if peer.key_id else "unsigned"
    text = (
        f"at {peer.endpoint}, pzc {version or 'unknown'}, {'/'.join(told['dialects'])}, {signed}, "
        f"clock {peer.offset_ms / 1000:+.3f} s, {met.transport}, round trip {met.round_trip_ms:.2f} ms"
    )
    if abs(peer.offset_ms) > OFFSET_WORTH_TELLING_MS:
        todo = "set the clocks (chrony, ntpd); calls work, because the difference is measured and allowed for"
        return warning(check, f"{text}: its clock differs from this machine's", todo, **told)
    if version and version != VERSION:
        return warning(check, f"{text}: this side is pzc {VERSION}", "install one version on both", **told)
    return ok(check, text, **told)


def diagnose(target: str, error: Exception, signed: bool, timeout: float) -> tuple[str, str]:
    """Why a peer was not reached, and what to do."""
    if isinstance(error, VersionError):
        return str(error), "allow both dialects, PZC_ACCEPT=PZC01,PZC00, or update the older side"
    if isinstance(error, SignatureError):
        mine = "this side signs" if signed else "this side has no key"
        return (
            f"{error} ({mine})",
            "set the same PZC_KEY on both sides, or add this side's key to its keyring",
        )
    if isinstance(error, RemoteProtocolError):
        return str(error), "is it an agent? another program may listen at that port"
    if isinstance(error, ConfigError):
        return str(error), "write tcp://HOST:PORT, ipc://PATH or a name"
    if isinstance(error, PeerLost | CallTimeout):
        return unreached(target, timeout)[:2]
    return f"{type(error).__name__}: {error}", "see the text"


def check_registry(subject: Subject) -> Iterator[Finding]:
    """``PZC_REGISTRY`` is reached, and is one."""
    endpoint = subject.settings["PZC_REGISTRY"]
    if not endpoint:
        yield ok("registry", "none (PZC_REGISTRY is not set): names come from multicast and PZC_PEERS")
        return
    if not subject.usable:
        yield skipped("registry", "no agent can be asked: a setting cannot be used, see above")
        return
    with Agent() as agent:
        try:
            peer = agent.peer(endpoint, subject.timeout)
            if "registry" not in peer.details:
                text = f"{endpoint} is an agent ({peer.name or peer.details.get('kind')}), but no registry"
                yield failed("registry", text, "correct PZC_REGISTRY, or start one: pzc registry --bind EP")
                return
            told = as_table(agent.request(endpoint, {"pzc": "statistics"}, subject.timeout))
            status = as_table(told.get("registry"))
        except (PzcError, OSError) as exc:
            why, todo = diagnose(endpoint, exc, agent.protocol.signed, subject.timeout)
            yield failed("registry", why, f"{todo}; a registry is started with pzc registry --bind EP")
            return
    processes, connections = status.get("processes"), status.get("connections")
    kept = f"kept in {status['file']}" if status.get("file") else "not kept in a file"
    text = f"at {endpoint}, {processes} processes, {connections} connections of topics, {kept}"
    yield ok("registry", text, endpoint=endpoint, **status)
