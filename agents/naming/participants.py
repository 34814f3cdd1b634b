"""Participants: those of this process, shared by its agents and gone with their last users; who is there."""

from __future__ import annotations

from ...discovery.names import check_partition
from ...discovery.site import Site
from ...transport.settings import Settings
from ...transport.tables import Leases
from ...transport.wire import Protocol
from .discovering import Participant

_participants: Leases[Participant] = Leases()
"""By site and keys."""


def acquire(site: Site, protocol: Protocol) -> Participant:
    """The process's participant of a site; every `acquire` needs one `release`.

    Raises:
        ConfigError: when no interface has the site's address.
    """
    keyring = protocol.codec.keyring
    keys = () if keyring is None else (keyring.active.key_id, *sorted(key.key_id for key in keyring))
    return _participants.lease((site, keys), lambda: Participant(site, protocol))


def release(participant: Participant) -> None:
    """Give it back; the last user closes it. Never call it from the I/O thread."""
    if _participants.release(participant):
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
