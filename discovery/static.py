"""Static peers: names and endpoints that the deployment itself states, as ``PZC_PEERS`` does.

``psu=tcp://10.0.0.7:5555,camera=tcp://10.0.0.8:5555``
"""

from __future__ import annotations

import re

from ..protocol.errors import ConfigError

_ENDPOINT = re.compile(r"(tcp|ipc|inproc)://.+")


def parse_peers(text: str) -> dict[str, str]:
    """Endpoints by name.

    Raises:
        ConfigError: for an entry that is not ``name=endpoint``, or a name given twice.
    """
    peers: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, endpoint = (part.strip() for part in entry.partition("="))
        if not equals or not name or "://" in name or not _ENDPOINT.fullmatch(endpoint):
            raise ConfigError(
                f"PZC_PEERS entry {entry!r} is not name=endpoint, such as psu=tcp://10.0.0.7:5555"
            )
        if name in peers:
            raise ConfigError(f"PZC_PEERS names {name!r} twice: {peers[name]} and {endpoint}")
        peers[name] = endpoint
    return peers
