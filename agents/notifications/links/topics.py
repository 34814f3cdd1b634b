"""Topics: what a publisher says about its topics, and what a reader asks of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from sys import intern
from typing import Any

from msgspec import Struct

from ....delivery.interests import thin
from ....delivery.policies import NAMES, Policy, check_size
from ....protocol.errors import ConfigError, PolicyRefused, RemoteProtocolError
from ....protocol.link_messages import Command
from ....shm.ring import BUFFERS

SCOPES = {"process": ("inproc",), "host": ("inproc", "unix"), "all": ("inproc", "unix", "tcp")}
"""Ways that a topic of each scope may take."""

_LONGEST_WHO = 64

_policy = lru_cache(1000, typed=True)(Policy)  # equal policies are one


@dataclass(slots=True)
class Advertised:
    """How a topic differs from the defaults; arguments as `Agent.advertise`."""

    buffers: int = BUFFERS
    policies: frozenset[str] | None = None
    scope: str = "all"
    ack_wait: float | None = None
    zero_copy: bool = True
    secret: bool = False
    keep_last: bool = False

    def is_broadcast(self, sealed: bool) -> bool:
        """True when it may be broadcast, by an agent that seals everything or does not."""
        return self.scope == "all" and (sealed or not self.secret)

    def check(self, topic: str, policy: Policy, transport: str) -> None:
        """Judge a subscription.

        Raises:
            PolicyRefused: naming what the publisher offers instead.
        """
        if policy.name == "mailbox":
            check_size(policy)
        if self.policies is not None and policy.name not in self.policies:
            offered = ", ".join(sorted(self.policies))
            raise PolicyRefused(f"policy {policy.name} is not offered for topic {topic!r}, only {offered}")
        self.check_transport(topic, transport)

    def check_broadcast(self, topic: str, sealed: bool) -> None:
        """Judge a subscription to the broadcast plane; errors as `check`.

        Args:
            topic: of it.
            sealed: whether the agent seals everything.
        """
        if self.secret and not sealed:
            raise PolicyRefused(
                f"topic {topic!r} is secret and not broadcast: subscribe on the same host, or with a "
                "mailbox; or set PZC_SEAL=1 at its publisher"
            )
        if self.scope != "all":
            transport = "inproc" if self.scope == "process" else "unix"
            raise PolicyRefused(
                f"topic {topic!r} does not leave its {self.scope}: subscribe with transport={transport!r}"
            )

    def check_transport(self, topic: str, transport: str) -> None:
        """Judge a way; errors as `check`."""
        if transport not in SCOPES[self.scope]:
            raise PolicyRefused(
                f"topic {topic!r} does not leave its {self.scope}; it cannot go over {transport}"
            )


def advertised(said: Mapping[str, Any], policies: Iterable[Policy | str] | None = None) -> Advertised:
    """What a topic is, checked.

    Args:
        said: arguments of `Agent.advertise` by name; of others nothing is said.
        policies: those that are offered, or their names; None for all.

    Raises:
        ConfigError: for an argument that cannot be used.
    """
    buffers, scope = said.get("buffers", BUFFERS), said.get("scope", "all")
    ack_wait: Any = said.get("ack_wait")
    if not isinstance(buffers, int) or buffers < 1:
        raise ConfigError(f"buffers={buffers!r:.60} cannot be used: a topic has at least 1")
    if scope not in tuple(SCOPES):
        raise ConfigError(f"scope={scope!r:.60} cannot be used: expected one of {', '.join(SCOPES)}")
    if ack_wait is not None and (not isinstance(ack_wait, Real) or not float(ack_wait) >= 0):
        raise ConfigError(f"ack_wait={ack_wait!r:.60} cannot be used: expected 0 seconds or more")
    names = (
        None if policies is None
        else frozenset(each.name if isinstance(each, Policy) else str(each) for each in policies)
    )  # fmt: skip
    unknown = (names or frozenset()) - set(NAMES)
    if unknown:
        raise ConfigError(f"policies of a topic are {', '.join(NAMES)}, not {', '.join(sorted(unknown))}")
    return Advertised(
        buffers, names, scope, said.get("ack_wait"), said.get("zero_copy", True), said.get("secret", False),
        said.get("keep_last", False),
    )  # fmt: skip


class Wanted(Struct, frozen=True, gc=False):
    """What an interest of a reader is, said as of a `Claim`.

    Attributes:
        number: that the reader gave it.
        topic: of the messages; ``*`` for all topics.
        keys: of the messages; None for all.
        policy: of the subscription.
        who: the agent whose subscription it is, as in its marks; empty when the reader does not say.
        type: that its messages must have; empty for any.
        raw: its rows have message id and signature.
    """

    number: int
    topic: str
    keys: Collection[str] | None
    policy: Policy
    who: str
    type: str
    raw: bool


def wanted_of(command: Command) -> Wanted | None:
    """What a reader wants; None when it gives the interest up.

    Raises:
        RemoteProtocolError: for a policy that there is not.
    """
    if not command.topic:
        return None
    try:
        policy = _policy(
            command.policy, command.bound, command.timeout, command.max_bytes, command.when_full,
            keep=command.keep,
        )  # fmt: skip
    except (TypeError, ValueError) as exc:
        raise RemoteProtocolError(f"interest {command.interest} has an unknown policy: {exc}") from None
    return Wanted(
        command.interest, intern(command.topic), thin(command.keys), policy,
        intern(command.who[:_LONGEST_WHO]), intern(command.type), command.raw,
    )  # fmt: skip
