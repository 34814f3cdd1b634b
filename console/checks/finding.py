"""Finding: what one check saw, and what to do about it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...discovery.site import parse_peers
from ...protocol.errors import ConfigError, PzcError
from ...transport.settings import Settings

logger = logging.getLogger("pzc.doctor")

Status = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        check: what was looked at.
        status: ``ok``; ``warning``: works, but not as it could; ``failed``; ``skipped``: not looked at.
        found: what was seen.
        todo: what to do; empty when there is nothing.
        details: figures for programs, in terms of JSON.
    """

    check: str
    status: Status
    found: str
    todo: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


def ok(check: str, found: str, **details: Any) -> Finding:
    """All is well."""
    return Finding(check, "ok", found, "", details)


def warning(check: str, found: str, todo: str, **details: Any) -> Finding:
    """It works, but not as it could."""
    return Finding(check, "warning", found, todo, details)


def failed(check: str, found: str, todo: str, **details: Any) -> Finding:
    """It does not work."""
    return Finding(check, "failed", found, todo, details)


def skipped(check: str, found: str, todo: str = "") -> Finding:
    """It was not looked at."""
    return Finding(check, "skipped", found, todo)


@dataclass(frozen=True)
class Subject:
    """What is looked at.

    Attributes:
        environ: variables of the environment.
        settings: as far as they can be used.
        usable: every setting can be used, so that agents can be made here.
        agents: endpoints and names that were given.
        binds: endpoints that are to be free.
        spark: start a Spark session as well.
        timeout: seconds for each exchange with a peer.
        started: wall clock and monotonic clock in seconds when the report began.
    """

    environ: Mapping[str, str]
    settings: Settings
    usable: bool = True
    agents: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    spark: bool = False
    timeout: float = 3.0
    started: tuple[float, float] = field(default_factory=lambda: (time.time(), time.monotonic()))

    @property
    def targets(self) -> dict[str, str]:
        """Endpoints, or names to be looked for, of static peers and the given agents, by name."""
        try:
            peers = parse_peers(self.settings["PZC_PEERS"])
        except ConfigError:  # which a check of its own tells
            peers = {}
        return {**peers, **{agent: agent for agent in self.agents if agent not in peers}}


Check = Callable[[Subject], Iterable[Finding]]


def findings_of(check: Check, subject: Subject) -> Iterator[Finding]:
    """What a check finds; a check that breaks is a finding as well."""
    name = check.__name__.removeprefix("check_").replace("_", " ")
    try:
        yield from check(subject)
    except (PzcError, OSError) as exc:
        yield failed(name, f"{type(exc).__name__}: {exc}", "see the text; pzc --debug doctor shows more")
    except Exception as exc:
        logger.debug("check %s broke", name, exc_info=True)
        text = f"this check broke: {type(exc).__name__}: {exc}"
        yield failed(name, text, "this is a defect of pzc doctor: report it with the output of --debug")
