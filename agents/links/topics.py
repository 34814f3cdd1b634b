"""Topics: what a publisher says about its topics, and what a reader asks of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from ...delivery.policies import Policy
from ...delivery.throttle import Throttle
from ...protocol.errors import ConfigError, PolicyRefused, RemoteProtocolError
from ...shm.ring import BUFFERS

SCOPES = {"process": ("inproc",), "host": ("inproc", "unix"), "all": ("inproc", "unix", "tcp")}
"""Ways that a topic of each scope may take."""

MAX_TOPICS = 10_000
"""Subscriptions of one link."""


@dataclass(slots=True)
class Advertised:
    """How a topic differs from the defaults; arguments as `Agent.advertise`."""

    buffers: int = BUFFERS
    policies: frozenset[str] | None = None
    scope: str = "all"
    throttle: Throttle | None = None
    ack_wait: float | None = None

    def check(self, topic: str, policy: Policy, way: str) -> None:
        """Judge a subscription.

        Raises:
            PolicyRefused: naming what the publisher offers instead.
        """
        if policy.name == "mailbox":
            raise PolicyRefused(f"policy mailbox is not offered for {topic!r}: use block() to lose nothing")
        if self.policies is not None and policy.name not in self.policies:
            offered = ", ".join(sorted(self.policies))
            raise PolicyRefused(f"policy {policy.name} is not offered for topic {topic!r}, only {offered}")
        if way not in SCOPES[self.scope]:
            raise PolicyRefused(f"topic {topic!r} does not leave its {self.scope}; it cannot go over {way}")


def advertised(
    buffers: int,
    policies: Iterable[Policy | str] | None,
    scope: str,
    throttle: float | None,
    ack_wait: float | None,
) -> Advertised:
    """What a topic is, checked.

    Raises:
        ConfigError: for an argument that cannot be used.
    """
    if buffers < 1:
        raise ConfigError(f"a topic has at least 1 buffer, not {buffers}")
    if scope not in SCOPES:
        raise ConfigError(f"scope is {scope!r}, expected one of {', '.join(SCOPES)}")
    if ack_wait is not None and not ack_wait >= 0:
        raise ConfigError(f"ack_wait is {ack_wait}, expected 0 seconds or more")
    names = (
        None if policies is None
        else frozenset(each.name if isinstance(each, Policy) else str(each) for each in policies)
    )  # fmt: skip
    unknown = (names or frozenset()) - {"drop", "latest", "block"}
    if unknown:
        raise ConfigError(f"policies of a topic are drop, latest and block, not {', '.join(sorted(unknown))}")
    return Advertised(buffers, names, scope, None if throttle is None else Throttle(throttle), ack_wait)


def wishes(topics: object) -> dict[str, list[Policy]]:
    """Policies by topic, out of the request of a reader.

    Raises:
        RemoteProtocolError: for a request of another form.
    """
    entries = cast("list[Any]", topics) if isinstance(topics, list | tuple) else None
    if entries is None or len(entries) > MAX_TOPICS:
        raise RemoteProtocolError(f"a link is opened with a list of at most {MAX_TOPICS} topics")
    found: dict[str, list[Policy]] = {}
    for entry in entries:
        try:
            topic, _, name, bound, timeout, on_timeout, _ = entry
            if type(topic) is not str or not topic or type(bound) is not int:
                raise ValueError(f"topic {topic!r:.100}, bound {bound!r:.100}")
            policy = Policy(name, bound, timeout=timeout, on_timeout=on_timeout)
        except (TypeError, ValueError) as exc:
            raise RemoteProtocolError(f"a link was asked for in an unknown form: {exc}") from None
        found.setdefault(topic, []).append(policy)
    return found
