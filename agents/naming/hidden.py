"""Hidden: what is said of agents that another machine looks for and cannot reach."""

from __future__ import annotations

import logging

from ...discovery.datagrams import Refusal
from ...discovery.hidden import Hiding
from ...discovery.records import Hidden

logger = logging.getLogger("pzc.discovery")

BIND = "start it with --bind tcp://0.0.0.0:PORT (rep_endpoint= in Python)"


def take(hiding: Hiding, said: Hidden | Refusal) -> Hidden | None:
    """Learn what others hide; None for what says nothing."""
    if isinstance(said, Refusal):
        return None
    hiding.learn(said.names, said.host)
    return said


def warn(hiding: Hiding) -> None:
    """Tell the log, once for each name, what was looked for from another machine."""
    while hiding.noted:
        logger.warning(
            "%s was looked for from another machine, and is bound to loopback, for this one only: %s",
            hiding.noted.pop(), BIND,
        )  # fmt: skip


def told(name: str, host: str) -> str:
    """What whoever looks for a hidden name is told."""
    where = f"on host {host}" if host else "on another host"
    return f"{name} is there, {where}, but bound to loopback, which no other machine reaches: {BIND}."
