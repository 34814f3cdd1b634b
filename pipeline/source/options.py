"""What a query asks the source for: options as Spark hands them over, checked before anything is opened."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...delivery.interests import ALL
from ...delivery.policies import WHEN_FULL, Policy, mailbox
from ...discovery.names import Pattern, is_pattern
from ...discovery.spelling import split_topic
from ...protocol.errors import ConfigError
from ...transport.settings import load
from ...transport.wire import Protocol
from ..storage import user_folder

MISSING = ("report", "fail")
"""What becomes of a query whose spool is gone, with notifications that were acknowledged."""

SECRETS = frozenset({"key", "secret", "password", "token", "hmackey", "pzc_key"})
"""Options that nobody may set: Spark shows options in plans and on its web page."""

_PATHS = {"keyfile": "PZC_KEY_FILE", "keyring": "PZC_KEYRING"}


class Target(NamedTuple):
    """What is subscribed to: an endpoint, a name or a pattern of names, and one topic or ``*``."""

    publisher: str
    topic: str


@dataclass(frozen=True)
class Options:
    """The options of one query; see docs/source.md for their meaning.

    Attributes:
        targets: what is subscribed to, at least one.
        name: of the mailbox; None for one that ends with its reader, which only a batch query may have.
        max_rows: most notifications of one batch.
        partition_rows: most notifications of one task.
        bound: messages that each publisher keeps for the query.
        max_bytes: bytes that each publisher keeps.
        when_full: ``drop_oldest`` or ``block``.
        keep: seconds for which a publisher keeps a mailbox that nobody reads.
        timeout: seconds for what the mailboxes hold to come, and for a query before this one to end.
        wait: seconds for which a batch query takes what comes beyond that.
        missing: ``report`` or ``fail``.
        decode: whether rows are verified and decoded (`schema.DECODED`) or as recorded (`schema.JOURNAL`).
        spool: folder for what was received and Spark has not committed; every node has to reach it.
        files: settings that name files of keys; None where the environment decides.
    """

    targets: tuple[Target, ...]
    name: str | None
    max_rows: int = 100_000
    partition_rows: int = 25_000
    bound: int = 200_000
    max_bytes: int = 512 << 20
    when_full: str = WHEN_FULL[0]
    keep: float = 3600.0
    timeout: float = 30.0
    wait: float = 0.0
    missing: str = MISSING[0]
    decode: bool = False
    spool: Path = Path()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def policy(self) -> Policy:
        """The mailbox that the publishers are asked for."""
        return mailbox(self.bound, self.max_bytes, self.when_full, self.name, self.keep)

    def protocol(self, **how: Any) -> Protocol:
        """As `Protocol`, with the keys that the options name, else those of the environment.

        Raises:
            ConfigError: when a file cannot be read.
        """
        environ = dict(os.environ)
        if self.files:
            for name in ("PZC_KEY", "PZC_KEY_FILE", "PZC_KEYRING"):
                environ.pop(name, None)
        return Protocol(settings=load(environ | dict(self.files)), **how)


def read_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Check what Spark hands over.

    Args:
        given: options by name, in any case.
        streaming: whether the query needs a mailbox that outlives its process.

    Raises:
        ConfigError: for an option that is missing, unknown or cannot be used, and for a secret; names it.
    """
    options = {name.lower(): str(value).strip() for name, value in given.items()}
    _refuse(options)
    chosen: dict[str, Any] = {
        attribute: read(option, options[option.lower()])
        for option, (attribute, read) in _READ.items()
        if option.lower() in options
    }
    name = _name(options, streaming)
    made = Options(
        targets=_targets(options),
        name=name,
        spool=Path(options.get("spool") or _spool_of(name or "")).absolute(),
        files=tuple((_PATHS[name], options[name]) for name in sorted(_PATHS) if options.get(name)),
        **chosen,
    )
    try:
        _ = made.policy
    except ConfigError as exc:
        raise ConfigError(f"the options name no mailbox that can be: {exc}") from exc
    return made


def _refuse(options: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in KNOWN}
    for name in options:
        if name in SECRETS:
            raise ConfigError(
                f"option {name} would show a secret in Spark's plans: set PZC_KEY in the environment or name "
                "a file with keyFile or keyring"
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(KNOWN)}"
            raise ConfigError(f"option {name} of the source pzc is not known: {hint}")


def _targets(options: Mapping[str, str]) -> tuple[Target, ...]:
    items = _listed(options.get("agents", ""))
    if not items:
        raise ConfigError(
            "option agents is missing: names, patterns or endpoints, separated by commas, as 'psu,cam*'"
        )
    topics = _listed(options.get("topics", "")) or [ALL]
    found: dict[Target, None] = {}
    for item in items:
        publisher, topic = _split(item)
        found |= dict.fromkeys(Target(publisher, each) for each in ([topic] if topic else topics))
    return tuple(found)


def _split(item: str) -> tuple[str, str]:
    try:
        publisher, topic = split_topic(item)
        if is_pattern(publisher):
            Pattern(publisher)
    except ConfigError as exc:
        raise ConfigError(f"option agents: {exc}") from None
    return publisher, topic


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _name(options: Mapping[str, str], streaming: bool) -> str | None:
    if options.get("name"):
        return options["name"]
    place = options.get("checkpointlocation")
    if place:
        # Spark does not tell a source where its query has its checkpoint, so it has to be said twice.
        return f"spark-{hashlib.sha256(place.encode()).hexdigest()[:16]}"
    if streaming:
        raise ConfigError(
            "a streaming query needs the option name: its mailbox has that name at every publisher, and a "
            "restarted query goes on with it (or give the source the checkpointLocation, too)"
        )
    return None


def _spool_of(name: str) -> Path:
    return (
        user_folder("XDG_STATE_HOME", ".local", "state")
        / "pzc"
        / "spool"
        / hashlib.sha256(name.encode()).hexdigest()[:16]
    )


def _number(kind: type[int] | type[float], least: float) -> Callable[[str, str], float]:
    def read(option: str, text: str) -> float:
        try:
            if least <= (value := kind(text)) < float("inf"):
                return value
        except ValueError:
            pass
        what = "a whole number" if kind is int else "a number"
        raise ConfigError(f"option {option} is {text!r}, expected {what} of at least {least:g}")

    return read


def _choice(**words: object) -> Callable[[str, str], object]:
    def read(option: str, text: str) -> object:
        if text.lower() in words:
            return words[text.lower()]
        raise ConfigError(f"option {option} is {text!r}, expected one of {', '.join(words)}")

    return read


_WHOLE, _SECONDS = _number(int, 1), _number(float, 0.001)
_YES, _NO = dict.fromkeys(("true", "1", "yes", "on"), True), dict.fromkeys(("false", "0", "no", "off"), False)
_READ: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "whenFull": ("when_full", _choice(**dict(zip(WHEN_FULL, WHEN_FULL, strict=True)))),
    "onMissing": ("missing", _choice(**dict(zip(MISSING, MISSING, strict=True)))),
    "decode": ("decode", _choice(**_YES, **_NO)),
    "maxRowsPerBatch": ("max_rows", _WHOLE),
    "rowsPerPartition": ("partition_rows", _WHOLE),
    "mailboxMessages": ("bound", _WHOLE),
    "mailboxBytes": ("max_bytes", _WHOLE),
    "keep": ("keep", _SECONDS),
    "timeout": ("timeout", _SECONDS),
    "wait": ("wait", _number(float, 0)),
}

KNOWN = ("agents", "topics", "name", "checkpointLocation", "spool", "keyFile", "keyring", *_READ)
"""Every option, as it is written."""
