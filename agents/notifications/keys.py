"""Keys: which notifications of a topic a subscription wants.

::

    key=            notifications
    None            all
    "a"             those with the key a
    ""              those without a key
    ["a", "b"]      those with one of these keys
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast

from ...protocol.errors import ConfigError
from ...protocol.frames import check_key

Keys = str | frozenset[str] | None
"""What is wanted, as `checked`."""


def checked(key: object) -> Keys:
    """What an argument asks for; several keys are each counted once.

    Raises:
        LocalProtocolError: for a key that nothing can be published with.
        ConfigError: for no key at all, and for what holds none.
    """
    if key is None:
        return None
    if isinstance(key, str):
        return check_key(key)
    if isinstance(key, bytes | bytearray | memoryview) or not isinstance(key, Iterable):
        raise ConfigError(f"key={key!r:.100} cannot be used: expected a string, several strings, or None")
    keys = frozenset(map(check_key, cast("Iterable[object]", key)))
    if not keys:
        raise ConfigError("key has no keys in it: expected at least one, or None for all keys")
    return keys


def every(keys: Keys) -> Collection[str]:
    """The keys, when not all are wanted."""
    return keys if isinstance(keys, frozenset) else () if keys is None else (keys,)
