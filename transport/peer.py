"""Peer: what the handshake told of another agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, cast

from ..protocol.contents import as_list, is_word
from ..protocol.frames import PZC01, topic_filter

MOST_TYPES = 10_000
"""Topics of one publisher whose type is remembered."""

_LONGEST_TYPE = 256


@dataclass(frozen=True)
class Peer:
    """What is known of the agent behind an endpoint.

    Attributes:
        endpoint: where it was reached.
        dialect: what it speaks.
        agent_id: its id; of a peer without one the REP endpoint.
        epoch: its start; 0 when it has none.
        name: as it calls itself, possibly empty.
        pub_endpoint: where it publishes.
        offset_ms: its clock minus ours.
        details: everything it answered.
        key_id: of the key that signed its handshake; what it sends later must be signed with the same.
        types: what it said of its topics when they were subscribed to.
    """

    endpoint: str
    dialect: str
    agent_id: str
    epoch: int
    name: str
    pub_endpoint: str
    offset_ms: int
    details: dict[str, Any]
    key_id: str = ""
    types: dict[str, str] = field(default_factory=dict, compare=False)
    native: ClassVar[bool] = True
    """It has sessions, numbers what it publishes, and confirms subscriptions; `agents.compat` has others."""

    def need(self, what: str) -> None:
        """Raise `Refused`, saying so, when it cannot do something; a native peer can."""

    def filter(self, topic: str) -> bytes:
        """How the headers of its notifications on a topic begin, or of all for an empty one.

        Raises:
            LocalProtocolError: for a topic that no header can have.
        """
        return topic_filter(PZC01, self.agent_id, topic) if topic else f"{PZC01}+{self.agent_id}+".encode()

    @cached_property
    def partition(self) -> str:
        """Where its name is; empty for the usual one, and when that is not known."""
        told = self.details.get("partition")
        return told[:_LONGEST_TYPE] if isinstance(told, str) else ""

    def tells(self, field: str, word: str) -> bool:
        """Whether a word is in a list that it answered; what a peer says may be anything."""
        return any(is_word(each, word) for each in as_list(self.details.get(field)))

    @property
    def has_lane(self) -> bool:
        """Whether it listens at a Unix socket as well."""
        told = self.details.get("lane")
        return isinstance(told, str) and bool(told)

    def learn(self, types: object) -> None:
        """It said of some topics what their messages are; what is no type is left out."""
        told = cast("dict[Any, Any]", types if isinstance(types, dict) else {})
        for topic, name in told.items():
            known = topic in self.types or len(self.types) < MOST_TYPES
            if isinstance(topic, str) and isinstance(name, str) and known:
                self.types[topic] = name[:_LONGEST_TYPE]

    def object_at(self, target: str) -> str:
        """The one of several served objects that a target names; empty for all that is served."""
        objects, name = self.details.get("objects"), target.rpartition("/")[2]
        return name if isinstance(objects, dict) and "://" not in target and name in objects else ""

    def topic_at(self, target: str, topic: str) -> str:
        """A topic as it is published: those of one of several objects begin with its name, said or not."""
        name = self.object_at(target)
        whole = not name or topic == "*" or topic.startswith((f"{name}.", "pzc/"))
        return topic if whole else f"{name}.{topic}"

    @property
    def publishing(self) -> str:
        """Id of the key that signs what it publishes; that of its handshake where it tells none."""
        told = self.details.get("publishes")
        return told if isinstance(told, str) else self.key_id
