"""Participants: those of this process, shared by its agents and gone with their last users; who is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable

from ...discovery.names import Pattern, check_partition
from ...discovery.records import Entry
from ...discovery.site import Site
from ..settings import Settings, load
from ..wire import Protocol
from .discovering import Participant


class _Table:
    """Participants by site and keys, with their number of users."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.participants: dict[Hashable, Participant] = {}
        self.users: dict[Participant, int] = {}


_table = _Table()
os.register_at_fork(after_in_child=_table.forget)


def acquire(site: Site, protocol: Protocol) -> Participant:
    """The process's participant of a site; every `acquire` needs one `release`.

    Raises:
        ConfigError: when no interface has the site's address.
    """
    keyring = protocol.codec.keyring
    keys = () if keyring is None else (keyring.active.key_id, *sorted(key.key_id for key in keyring))
    with _table.lock:
        participant = _table.participants.get((site, keys))
        if participant is None:
            participant = _table.participants[site, keys] = Participant(site, protocol)
            _table.users[participant] = 0
        _table.users[participant] += 1
        return participant


def release(participant: Participant) -> None:
    """Give it back; the last user closes it. Never call it from the I/O thread."""
    with _table.lock:
        if participant not in _table.users:
            return
        _table.users[participant] -= 1
        if _table.users[participant]:
            return
        del _table.users[participant]
        for key in [key for key, each in _table.participants.items() if each is participant]:
            del _table.participants[key]
    participant.close()


def site_of(settings: Settings, partition: str | None = None) -> Site:
    """The site that the settings name, in a partition of its own if one is given.

    Raises:
        ConfigError: for a partition that cannot be one.
    """
    port: int = settings["PZC_DISCOVERY_PORT"]
    return Site(
        check_partition(settings["PZC_PARTITION"] if partition is None else partition),
        settings["PZC_DISCOVERY_IP"],
        port,
        settings["PZC_IP"],
        tuple((host, its or port) for host, its in settings["PZC_RELAY"]),
        settings["PZC_REGISTRY"],
    )


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
    participant = acquire(site_of(settings, partition), protocol or Protocol(settings=settings))
    try:
        participant.ask([pattern])
        threading.Event().wait(timeout)
        return participant.match(pattern, kind)
    finally:
        release(participant)
