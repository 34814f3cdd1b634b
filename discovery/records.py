"""What processes tell each other: entries, and the announcements that carry them.

An `Entry` is what people and other layers read. On the wire it is a record, which has neither what can be
told once for the whole datagram (process, partition) nor, for a topic, what its agent's record says.
`Announcement` and its five kinds are MessagePack arrays with their fields in this order; `datagrams` adds the
header and the signature. Text that comes in is printable, so it can be shown on a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
from msgspec import Meta, Struct

from ..protocol.errors import ConfigError, LocalProtocolError
from .names import MAX_NAME, Pattern, check_name, check_partition

MAX_NUMBER = (1 << 32) - 1
MAX_COUNT = (1 << 53) - 1
MAX_DIGEST = (1 << 64) - 1
MAX_LABELS = 16
"""Texts that an agent may say of itself, each by its own name."""
MAX_LABEL = 64
"""Most characters of such a text, and of its name."""
MAX_LABELS_SIZE = 400
"""Most bytes of all of them together."""

Kind = Literal["agent", "service", "topic"]
Scope = Literal["process", "host", "all"]

_is_endpoint = re.compile(r"(tcp|ipc)://[!-~]+").fullmatch


@dataclass(frozen=True, slots=True)
class Entry:
    """Something with a name: an agent, a service (an agent that serves an object), or a topic.

    Attributes:
        kind: ``agent``, ``service`` or ``topic``.
        name: from the root of its partition: ``/robot1/psu``, of a topic ``/robot1/psu/voltage``.
        partition: where it is.
        process: 16 bytes of its process; empty for a static peer.
        number: of the entry in its process, from 1 and never used twice; 0 for a static peer.
        agent: agent id, of a topic that of its publisher; empty for a static peer.
        epoch: of the agent.
        started: when the agent started, in Unix milliseconds.
        addresses: REP endpoints that can be used from here, the best first; of a topic its publisher's.
        pub_addresses: PUB endpoints likewise.
        type: class of a service, message type of a topic; empty when unknown.
        scope: who may see it: its ``process``, its ``host`` or ``all``.
        policies: that a topic offers.
        dialects: that the agent speaks.
        host: name of its machine, for people.
        pid: number of its process there, for people.
        publisher: of a topic, number of its agent's entry; else 0.
        topic: of a topic, what its agent calls it; else empty.
        labels: what the agent says of itself, names and texts; nobody else has looked into it.
    """

    kind: Kind
    name: str
    partition: str = ""
    process: bytes = b""
    number: int = 0
    agent: str = ""
    epoch: int = 0
    started: int = 0
    addresses: tuple[str, ...] = ()
    pub_addresses: tuple[str, ...] = ()
    type: str = ""
    scope: Scope = "all"
    policies: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ("PZC01",)
    host: str = ""
    pid: int = 0
    publisher: int = 0
    topic: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def is_a(self, kind: Kind | None) -> bool:
        """Whether it is of a kind, None for any; services are agents, too."""
        return kind in (None, self.kind) or (kind == "agent" and self.kind == "service")

    @property
    def metadata(self) -> dict[str, str]:
        """The labels by name."""
        return dict(self.labels)

    @property
    def owner(self) -> str:
        """Who holds the name: ``agent 3f2a90c1 at tcp://10.0.0.7:5555 (process 4711 on rack3)``."""
        who = f"agent {self.agent[:8]}" if self.agent else "a static peer"
        at = f" at {self.addresses[0]}" if self.addresses else ""
        where = f" (process {self.pid} on {self.host})" if self.host else ""
        return f"{who}{at}{where}"


_Number = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
_Maybe = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
_Revision = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_Digest = Annotated[int, Meta(ge=0)]
_Process = Annotated[bytes, Meta(min_length=16, max_length=16)]
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
_Short = Annotated[str, Meta(max_length=64)]
_Text = Annotated[str, Meta(max_length=MAX_NAME)]
_Addresses = Annotated[tuple[_Name, ...], Meta(max_length=16)]
_Words = Annotated[tuple[_Short, ...], Meta(max_length=8)]
_Labels = Annotated[tuple[tuple[_Short, _Short], ...], Meta(max_length=MAX_LABELS)]
_Numbers = Annotated[tuple[_Number, ...], Meta(max_length=1000)]


class AgentRecord(
    Struct, tag=1, tag_field="tag", array_like=True, frozen=True, gc=False, forbid_unknown_fields=True
):
    """An agent or service on the wire; fields as of `Entry`, and the revision that made it so."""

    number: _Number
    revision: _Revision
    kind: Literal["agent", "service"]
    name: _Name
    agent: _Short
    epoch: _Maybe
    started: _Revision
    addresses: _Addresses
    pub_addresses: _Addresses
    type: _Text
    scope: Scope
    dialects: _Words
    host: _Short
    pid: _Maybe
    labels: _Labels = ()


class TopicRecord(
    Struct, tag=2, tag_field="tag", array_like=True, frozen=True, gc=False, forbid_unknown_fields=True
):
    """A topic on the wire; fields as of `Entry`, and the revision that made it so."""

    number: _Number
    revision: _Revision
    publisher: _Number
    name: _Name
    topic: _Name
    type: _Text
    scope: Scope
    policies: _Words


Record = AgentRecord | TopicRecord
_ENCODER = msgspec.msgpack.Encoder()
_RECORD: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


class Announcement(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """What every datagram tells of its process.

    What a process says differs by interface: an address that is reachable on one may not be on another, and
    what is for the host alone stays there. So a datagram belongs to a *view*, and a receiver keeps apart what
    it hears of each. The digest tells exactly whether it knows all of a view.

    Attributes:
        process: 16 random bytes, new for every start and every fork.
        epoch: when the process began to announce, in Unix seconds; a later one replaces an earlier one.
        sequence: +1 for every datagram of the process.
        sent: Unix time in milliseconds.
        partition: that all its records are in.
        view: through which of its interfaces the process speaks; the sender's own number.
        revision: +1 for every change of its entries.
        count: of the entries in this view.
        digest: of them, see `mixed`.
    """

    code: ClassVar[int] = 0

    process: _Process
    epoch: _Maybe
    sequence: _Revision
    sent: _Revision
    partition: _Text
    view: _Maybe
    revision: _Revision
    count: _Maybe
    digest: _Digest


class Advertise(Announcement, frozen=True):
    """Records; and that no other entry has a number from ``first`` to ``last`` (0 and 0: nothing is said)."""

    code = 1

    records: Annotated[tuple[Record, ...], Meta(max_length=1000)]
    first: _Maybe = 0
    last: _Maybe = 0


class Unadvertise(Announcement, frozen=True):
    """Numbers of entries that are no more."""

    code = 2

    numbers: _Numbers


class Subscribe(Announcement, frozen=True):
    """Asks for the entries that match a name or pattern, and for all entries of some processes."""

    code = 3

    patterns: Annotated[tuple[_Name, ...], Meta(max_length=32)] = ()
    processes: Annotated[tuple[_Process, ...], Meta(max_length=64)] = ()


class Heartbeat(Announcement, frozen=True):
    """The process lives, and this is the state of its entries."""

    code = 4


class Bye(Announcement, frozen=True):
    """The process ends, and all its entries with it."""

    code = 5


class Hidden(Announcement, frozen=True):
    """Names that were asked for, of agents that cannot be reached from there; says nothing of the entries."""

    code = 6

    names: Annotated[tuple[_Name, ...], Meta(max_length=32)]
    host: _Short


KINDS: dict[int, type[Announcement]] = {
    kind.code: kind for kind in (Advertise, Unadvertise, Subscribe, Heartbeat, Bye, Hidden)
}
"""Announcements by their code on the wire."""


def mixed(revision: int) -> int:
    """64 bits of one entry; a digest is the exclusive or of those of all entries of a view.

    No two entries of a process have one revision, so revisions are all that has to be compared.
    """
    # The last steps of splitmix64.
    mix = (revision + 1) * 0x9E3779B97F4A7C15 & MAX_DIGEST
    mix = (mix ^ mix >> 30) * 0xBF58476D1CE4E5B9 & MAX_DIGEST
    return mix ^ mix >> 27


def fault(said: Announcement) -> str:
    """What is wrong with the texts of an announcement that has the right types; empty when nothing is."""
    try:
        check_partition(said.partition)
        if isinstance(said, Advertise):
            return next((found for record in said.records if (found := _record_fault(record))), "")
        if isinstance(said, Subscribe):
            for pattern in said.patterns:
                Pattern(pattern)
    except ConfigError as error:
        return str(error)
    return ""


def _record_fault(record: Record) -> str:
    if not record.name.startswith("/"):
        return f"{record.name[:80]!r} does not begin with /"
    check_name(record.name)
    if isinstance(record, TopicRecord):
        texts = record.topic, record.type, *record.policies
    else:
        check_labels(record.labels)
        texts = record.agent, record.type, record.host, *record.dialects
        for address in (*record.addresses, *record.pub_addresses):
            if not _is_endpoint(address):
                return f"{address[:80]!r} is not an endpoint that others can use"
    odd = next((text for text in texts if not text.isprintable()), None)
    return "" if odd is None else f"{odd[:80]!r} cannot be printed"


def labels_of(metadata: Mapping[Any, Any]) -> tuple[tuple[str, str], ...]:
    """What an agent is to say of itself, by name.

    Raises:
        ConfigError: for what is no table of short texts.
    """
    table = isinstance(cast("object", metadata), Mapping)
    if not table or not all(isinstance(each, str) for label in metadata.items() for each in label):
        raise ConfigError(f"metadata are texts by name, such as {{'room': 'B12'}}, not {metadata!r:.200}")
    return check_labels(tuple(metadata.items()))


def check_labels(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return labels when an agent may have them.

    Raises:
        ConfigError: saying what is allowed.
    """
    texts = [text for label in labels for text in label]
    long = len(labels) > MAX_LABELS or any(len(text) > MAX_LABEL for text in texts)
    odd = not all(text.isprintable() for text in texts) or not all(name for name, _ in labels)
    if long or odd or len("".join(texts).encode()) > MAX_LABELS_SIZE or len(dict(labels)) < len(labels):
        raise ConfigError(
            f"metadata are at most {MAX_LABELS} printable texts by name, of {MAX_LABEL} characters each and "
            f"{MAX_LABELS_SIZE} bytes together, not {labels!r:.200}"
        )
    return labels


def record_of(entry: Entry, revision: int, addresses: tuple[str, ...], pubs: tuple[str, ...]) -> Record:
    """The record of an entry, to be announced with these addresses."""
    if entry.kind == "topic":
        return TopicRecord(
            entry.number, revision, entry.publisher, entry.name, entry.topic, entry.type, entry.scope,
            entry.policies,
        )  # fmt: skip
    return AgentRecord(
        entry.number, revision, entry.kind, entry.name, entry.agent, entry.epoch, entry.started, addresses,
        pubs, entry.type, entry.scope, entry.dialects, entry.host, entry.pid, entry.labels,
    )  # fmt: skip


def check(record: Record) -> None:
    """See that others would accept a record.

    Raises:
        LocalProtocolError: saying what they would not.
    """
    try:
        why = _record_fault(_RECORD.decode(_ENCODER.encode(record)))
    except (ConfigError, UnicodeError, msgspec.MsgspecError) as error:
        why = str(error)
    if why:
        raise LocalProtocolError(f"{record.name[:80]!r} cannot be announced: {why}")


def joined(record: Record, partition: str, process: bytes, agent: Entry | None) -> Entry:
    """The entry of a record.

    Args:
        record: as received.
        partition: of the announcement.
        process: of the announcement.
        agent: of a topic, the entry of its publisher; else None.
    """
    if isinstance(record, AgentRecord):
        return Entry(
            record.kind, record.name, partition, process, record.number, record.agent, record.epoch,
            record.started, record.addresses, record.pub_addresses, record.type, record.scope, (),
            record.dialects, record.host, record.pid, labels=record.labels,
        )  # fmt: skip
    assert agent is not None
    return Entry(
        "topic", record.name, partition, process, record.number, agent.agent, agent.epoch, agent.started,
        agent.addresses, agent.pub_addresses, record.type, record.scope, record.policies, agent.dialects,
        agent.host, agent.pid, record.publisher, record.topic, agent.labels,
    )  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where an agent is.

    Attributes:
        endpoint: its REP endpoint.
        entry: what it told of itself; None for an endpoint and for a static peer.
        settled: it stays where it is.
    """

    endpoint: str
    entry: Entry | None = None
    settled: bool = True
