"""Every time that is waited and every bound that is kept, in one frozen object.

Code reads ``limits.current.NAME`` when it needs a value. A deployment changes values in the table
``[limits]`` of ``pzc.toml``; tests replace all of them with `pzc.testing.Timings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from .errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times in seconds, sizes in bytes, other bounds in pieces."""

    silence: float = 4.0
    """Seconds without a sign of life after which whoever holds something here counts as gone."""

    mail_hold: float = 1.0
    """Seconds that a publisher may hold a poll of a mailbox."""

    mail_patience: float = 2.0
    """Seconds after which the answer of a mailbox that is due is not expected any more."""

    mail_grace: float = 30.0
    """Seconds that a mailbox is left behind the time for which it is kept."""

    upkeep_pause: float = 30.0
    """Seconds between two looks of a recorder at what is to be compacted or removed."""

    compact_age: float = 300.0
    """Seconds after which a segment may be compacted: whoever follows the journal has read it by then."""

    covered_grace: float = 3600.0
    """Seconds for which segments stay beside the compacted one that stands for them."""


current = Limits()
"""What holds in this process now; replaced whole with `use`."""


def use(limits: Limits) -> Limits:
    """Let other limits hold in this process from now on.

    Args:
        limits: what agents, links and calls that begin from now on go by.

    Returns:
        What held before.
    """
    global current
    before, current = current, limits
    return before


def changed(limits: Limits, table: Mapping[str, Any], where: str) -> Limits:
    """Limits with some values replaced, as a settings file or a test names them.

    Args:
        limits: what holds for everything that the table does not name.
        table: values by the names of `Limits`.
        where: where the table stands, for messages.

    Raises:
        ConfigError: for an unknown name, or a value that is no number of its kind or not positive.
    """
    kinds: dict[str, type[int] | type[float]] = {
        field.name: type(getattr(limits, field.name)) for field in fields(Limits)
    }
    values: dict[str, Any] = {}
    for name, value in table.items():
        kind = kinds.get(name)
        if kind is None:
            raise ConfigError(f"{where}: {name} is no limit; known are {', '.join(sorted(kinds))}")
        fits = isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
        if not fits or value < 0:
            raise ConfigError(
                f"{where}: {name} = {value!r} cannot be used; expected a {kind.__name__} of 0 or more"
            )
        values[name] = kind(value)
    return replace(limits, **values)
