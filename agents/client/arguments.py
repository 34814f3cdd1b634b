"""Arguments: those of functions that users call are judged there, before anything is done."""

from __future__ import annotations

from typing import Any

from ...protocol.errors import ConfigError
from ...protocol.shown import shown


def checked_target(target: object) -> str:
    """An endpoint or name.

    Raises:
        ConfigError: when it is no text.
    """
    if isinstance(target, str):
        return target
    port = f", perhaps tcp://127.0.0.1:{target}" if type(target) is int and 0 < target < 65536 else ""
    raise ConfigError(
        f"{shown(target, 60)} is no server: expected a name such as 'psu', or an endpoint such as "
        f"'tcp://127.0.0.1:5555'{port}"
    )


def remote_of(proxy: object) -> Any:
    """What a proxy, or something reached through one, asks with; it connects one that was sent.

    Raises:
        ConfigError: for anything else.
    """
    found = getattr(proxy, "_proxy_remote", None)
    if found is None:
        raise ConfigError(f"{shown(proxy, 60)} is no proxy: expected one that pzc.Proxy(...) gave")
    return found
