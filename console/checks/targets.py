"""Which agents a report is about."""

from __future__ import annotations

from ...discovery.site import parse_peers
from ...protocol.errors import ConfigError
from .finding import Subject


def known_targets(subject: Subject) -> dict[str, str]:
    """Endpoints, or names to be looked for, of static peers, the registry and the given agents, by name."""
    settings = subject.settings
    try:
        targets = parse_peers(settings["PZC_PEERS"])
    except ConfigError:  # which a check of its own tells
        targets = {}
    for agent in subject.agents:
        targets.setdefault(agent, targets.get(agent, agent))
    return targets
