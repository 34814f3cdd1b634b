"""How a topic is written: ``N/TOPIC``, whoever reads it.

::

    written                          publisher                topic
    tcp://10.0.0.7:5555/voltage      tcp://10.0.0.7:5555      voltage         behind the port
    ipc:///run/lab/psu.sock/voltage  ipc:///run/lab/psu.sock  voltage         behind a socket that is there
    psu/voltage                      psu                      voltage         behind the longest known name,
                                                                              else behind the first slash
    /lab/psu/voltage                 /lab/psu                 voltage         begins with a slash: last one
    psu, /psu, tcp://10.0.0.7:5555   as written               (empty)         none is named
    /lab/**                          /lab/**                  (empty)         a pattern of names
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ..protocol.errors import ConfigError

EXAMPLES = "psu/voltage or tcp://127.0.0.1:5555/voltage"

_TCP = re.compile(r"(tcp://(?:\[[^\]/]+\]|[^:/\[\]]+):\d+)(?:/(.+))?", re.DOTALL)
_NAME = re.compile(r"((?:@[^@/]*@)?/?)(.+)", re.DOTALL)
_BARE = re.compile(r"(?:\[[^\]/]+\]|[\w.-]+):\d+(?:/.*)?", re.DOTALL)


def split_topic(text: str, known: Iterable[str] = ()) -> tuple[str, str]:
    """Publisher and topic of ``N/TOPIC``; the topic is empty where none is named.

    Args:
        text: as written.
        known: names of publishers, which may contain slashes themselves.

    Raises:
        ConfigError: saying what was expected.
    """
    if text.startswith("tcp://"):
        found = _TCP.fullmatch(text)
        if found is None:
            raise _refused(text)
        return found[1], found[2] or ""
    if text.startswith("ipc://"):
        return _split_path(text)
    if "://" in text:
        raise ConfigError(f"{text!r}: only tcp:// and ipc:// endpoints and names reach another process")
    if _BARE.fullmatch(text):
        raise ConfigError(f"{text!r}: an endpoint begins with its scheme, as in tcp://{text}")
    name = max((each for each in known if text.startswith(f"{each}/")), key=len, default="")
    if name:
        publisher, topic = name, text[len(name) + 1 :]
    else:
        publisher, topic = _split_name(text)
    if not publisher or (not topic and text.endswith("/")):
        raise _refused(text)
    if not topic and ":" in publisher:
        agent, _, rest = publisher.partition(":")
        raise ConfigError(f"{text!r}: a topic is written behind a slash, as in {agent}/{rest}")
    return publisher, topic


def _split_path(text: str) -> tuple[str, str]:
    ends = [at for at, sign in enumerate(text) if sign == "/" and is_socket(text[6:at])]
    if not ends and text.startswith("ipc://@"):  # an abstract one, which no folder holds
        ends = [at for at, sign in enumerate(text) if sign == "/"][2:][-1:]
    if text.endswith("/") or text in ("ipc://", "ipc://@"):
        raise _refused(text)
    return (text[: ends[-1]], text[ends[-1] + 1 :]) if ends else (text, "")


def _split_name(text: str) -> tuple[str, str]:
    found = _NAME.fullmatch(text)
    if found is None or text.endswith("/**") or text == "**":
        return text, ""
    root, rest = found.groups()
    before, slash, behind = rest.rpartition("/") if root else rest.partition("/")
    return (root + before, behind) if slash and before else (text, "")


def is_socket(path: str) -> bool:
    """Whether something that is no folder is there."""
    return os.path.exists(path) and not os.path.isdir(path)


def _refused(text: str) -> ConfigError:
    return ConfigError(f"{text!r} is not N/TOPIC, such as {EXAMPLES}")
