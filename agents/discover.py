"""Discover: who is there, without an agent of one's own."""

from __future__ import annotations

import threading

from ..discovery.names import Pattern
from ..discovery.records import Entry
from ..discovery.site import Site
from ..transport.settings import load
from ..transport.wire import Protocol
from .client.client import Client
from .naming import participants
from .naming.discovering import Participant


def acquire(site: Site, protocol: Protocol) -> Participant:
    """The process's participant of a site; arguments and errors as `participants.acquire`."""
    return participants.acquire(site, protocol, Client)


def discover(
    pattern: str = "*",
    timeout: float = 1.0,
    *,
    kind: str | None = None,
    partition: str | None = None,
    protocol: Protocol | None = None,
) -> list[Entry]:
    """Who and what is there, by name.

    Args:
        pattern: of names; ``*`` is everything, ``cam*`` fits the last part of names, ``/lab/**`` all below.
        timeout: seconds to listen for; those that are there answer within 0.1 s.
        kind: ``agent`` (services, too), ``service`` or ``topic`` only.
        partition: default ``PZC_PARTITION``.
        protocol: default `Protocol`; its keys sign, and are accepted.

    Returns:
        Entries sorted by name: ``name kind type addresses agent host pid`` and more.

    Raises:
        ConfigError: for a pattern, partition or setting that cannot be used.
    """
    Pattern(pattern)
    settings = load()
    participant = acquire(participants.site_of(settings, partition), protocol or Protocol(settings=settings))
    try:
        participant.ask([pattern])
        threading.Event().wait(timeout)
        return participant.match(pattern, kind)
    finally:
        participants.release(participant)
