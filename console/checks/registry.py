"""The registry that this process would use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...agents.agent import Agent
from ...protocol.contents import as_table
from ...protocol.errors import PzcError
from .finding import Finding, Subject, failed, ok, skipped
from .peers import diagnose


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
            status = _status(agent, endpoint, subject.timeout)
        except (PzcError, OSError) as exc:
            why, todo = diagnose(endpoint, exc, agent.protocol.signed, subject.timeout)
            yield failed("registry", why, f"{todo}; a registry is started with pzc registry --bind EP")
            return
    processes, connections = status.get("processes"), status.get("connections")
    kept = f"kept in {status['file']}" if status.get("file") else "not kept in a file"
    text = f"at {endpoint}, {processes} processes, {connections} connections of topics, {kept}"
    yield ok("registry", text, endpoint=endpoint, **status)


def _status(agent: Agent, endpoint: str, timeout: float) -> dict[str, Any]:
    return as_table(as_table(agent.request(endpoint, {"pzc": "statistics"}, timeout)).get("registry"))
