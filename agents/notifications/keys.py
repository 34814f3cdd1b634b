"""Keys: which notifications of a topic a subscription wants; and what can be a topic or a key at all.

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

from ...protocol.errors import ConfigError, LocalProtocolError
from ...protocol.frames import MAX_HEADER, quoted

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


def check_topic(topic: object) -> str:
    """A topic, as it can be sent.

    Raises:
        LocalProtocolError: for what is no text, or cannot be UTF-8.
    """
    if not isinstance(topic, str):
        raise LocalProtocolError(f"nothing can be published as topic {topic!r:.60}")
    quoted("" if topic.isascii() else topic)  # which refuses what is no UTF-8
    return topic


def check_key(key: object) -> str:
    """What a notification is about, as it can be sent.

    Raises:
        LocalProtocolError: for what is no text, cannot be UTF-8, or has over 2048 characters.
    """
    if not isinstance(key, str):
        raise LocalProtocolError(f"{key!r:.100} of type {type(key).__name__} is no key: expected a string")
    if len(key) > MAX_HEADER:
        raise LocalProtocolError(f"the key {key!r:.60} has {len(key)} characters, the limit is {MAX_HEADER}")
    quoted("" if key.isascii() else key)
    return key if type(key) is str else str.__str__(key)
