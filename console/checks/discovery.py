"""Multicast: whether this machine's processes, and those of others, hear each other; and who is there."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...agents import MAX_SKEW, ahead_or_behind, site_of
from ...discovery.datagrams import Reader, Refusal, write
from ...discovery.interfaces import Interface, chosen
from ...discovery.multicast import Datagram, Multicast
from ...discovery.records import Advertise, AgentRecord, Announcement, Bye, Subscribe
from ...discovery.site import Site
from ...protocol.errors import BindError, ConfigError
from ...protocol.keyring import Keyring
from .finding import Finding, Subject, failed, ok, skipped, warning

LISTEN = 1.3
"""Seconds; every process says something within one."""

MOST_PARTITIONS = 16
"""Partitions in which names are asked for."""

MOST_SHOWN = 8
"""Senders of refused datagrams that are named."""

OWN_VIEW = 1 << 20
"""More than the number of any interface."""


@dataclass
class _Other:
    """A process that was heard."""

    partition: str
    interfaces: set[str] = field(default_factory=set[str])
    host: str = ""
    pid: int = 0
    names: set[str] = field(default_factory=set[str])
    agents: set[str] = field(default_factory=set[str])
    skew: float = 0.0

    def __str__(self) -> str:
        who = f"process {self.pid} on {self.host}" if self.host else "a process without names"
        where = f" in partition {self.partition}" if self.partition else ""
        return f"{who}{where}"


class Listener:
    """Says who it is on every interface, and hears what comes for `LISTEN` seconds.

    Attributes:
        own: interfaces that hear this process itself.
        others: processes that were heard, by id.
        senders: addresses of those whose datagrams were refused, by reason.
        signs: this process has a key.
    """

    def __init__(self, site: Site, keyring: Keyring | None) -> None:
        self.multicast = Multicast(site.group, site.port, chosen(site.address))
        self.reader = Reader(keyring)
        self.own: set[Interface] = set()
        self.others: dict[bytes, _Other] = {}
        self.signs = keyring is not None
        self._key = None if keyring is None else keyring.active
        self._partition = site.partition
        self._asked = {site.partition}
        self._process = os.urandom(16)
        self._sequence = 0
        self.senders: dict[str, set[str]] = {}

    def run(self, seconds: float = LISTEN) -> None:
        """Ask everybody, and listen."""
        self._say(Subscribe, self._partition, ("**",))
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as sockets:  # not every system has poll
            for fileno in self.multicast.filenos():
                sockets.register(fileno, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                for key, _ in sockets.select(left):
                    while (datagram := self.multicast.receive(key.fd)) is not None:
                        self._hear(datagram)
        for partition in self._asked:
            self._say(Bye, partition)

    def _say(self, kind: type[Announcement], partition: str, *more: object) -> None:
        for interface in self.multicast.interfaces:
            self._sequence += 1
            said = kind(
                self._process, int(time.time()), self._sequence, int(time.time() * 1000), partition,
                OWN_VIEW + interface.index, 0, 0, 0, *more,
            )  # fmt: skip
            self.multicast.send(write(said, self._key), interface)

    def _hear(self, datagram: Datagram) -> None:
        said, interface = self.reader.read(datagram.data), datagram.interface
        if isinstance(said, Refusal):
            senders = self.senders.setdefault(said.reason, set())
            if len(senders) < MOST_SHOWN:
                senders.add(datagram.source[0])
            return
        if said.process == self._process:
            self.own.add(interface)
            return
        if said.partition not in self._asked and len(self._asked) < MOST_PARTITIONS:
            self._asked.add(said.partition)  # whose processes tell their names there only
            self._say(Subscribe, said.partition, ("**",))
        other = self.others.setdefault(said.process, _Other(said.partition))
        other.interfaces.add(interface.name)
        other.skew = said.sent / 1000 - time.time()
        for record in said.records if isinstance(said, Advertise) else ():
            other.names.add(record.name)
            if isinstance(record, AgentRecord):
                other.agents.add(record.name)
                other.host, other.pid = record.host, record.pid


def check_multicast(subject: Subject) -> Iterator[Finding]:
    """Each interface sends and hears itself; others are heard; nothing foreign is."""
    try:
        site, keyring = site_of(subject.settings), subject.settings.keyring()
    except ConfigError as exc:
        yield skipped("multicast", f"a setting cannot be used: {exc}")
        return
    if not site.group:
        yield skipped(
            "multicast", "switched off (PZC_DISCOVERY_IP=off): names come from the registry and PZC_PEERS"
        )
        return
    try:
        listener = Listener(site, keyring)
    except (BindError, ConfigError) as exc:
        yield failed(
            "multicast",
            str(exc),
            "set PZC_IP to the address of an interface, or use a registry: PZC_REGISTRY",
        )
        return
    try:
        listener.run()
    finally:
        listener.multicast.close()
    yield from _interfaces(listener, site)
    yield _heard(listener)
    yield from _clocks(listener)
    yield from _conflicts(listener)
    yield from _refused(listener)


def check_relays(subject: Subject) -> Iterator[Finding]:
    """Each host of ``PZC_RELAY`` has an address."""
    for host, port in subject.settings["PZC_RELAY"]:
        check, where = f"relay {host}", f"{host}:{port or subject.settings['PZC_DISCOVERY_PORT']}"
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as exc:
            text = f"{where} is not known: {getattr(exc, 'strerror', None) or exc}"
            yield failed(check, text, "correct PZC_RELAY, or the names that this machine knows")
        else:
            address = found[0][-1][0]
            yield ok(check, f"{where} is told of this machine's agents at {address}", address=address)


def _interfaces(listener: Listener, site: Site) -> Iterator[Finding]:
    multicast = listener.multicast
    where = f"{site.group}:{site.port}"
    for interface in chosen(site.address):
        name = f"multicast {interface.name}"
        told = {"address": interface.address, "index": interface.index, "group": where}
        problem = multicast.problems.get(interface.name)
        if interface in listener.own:
            yield ok(name, f"{interface.address} sends to {where} and hears itself", **told)
        elif problem is not None:
            todo = f"ip link set {interface.name} multicast on, choose another with PZC_IP, or use a registry"
            yield warning(name, f"{interface.address} cannot be used: {problem}", todo, **told)
        else:
            todo = (
                f"let UDP port {site.port} through the firewall, both ways, or use a registry: PZC_REGISTRY"
            )
            text = f"{interface.address} sends to {where} and does not hear itself"
            yield warning(name, text, todo, **told)
    if not listener.own:
        todo = "use a registry (PZC_REGISTRY) or PZC_PEERS, or let multicast through"
        yield failed("multicast", f"no interface hears {where}", todo)


def _heard(listener: Listener) -> Finding:
    others = listener.others.values()
    told = [
        {"host": other.host, "pid": other.pid, "partition": other.partition, "names": sorted(other.names),
         "interfaces": sorted(other.interfaces)}
        for other in others
    ]  # fmt: skip
    if not others:
        return ok("multicast others", f"nobody else was heard within {LISTEN:g} s", processes=told)
    shown = "; ".join(sorted(str(other) for other in others))
    return ok("multicast others", f"{len(others)} heard: {shown}", processes=told)


def _clocks(listener: Listener) -> Iterator[Finding]:
    """Others whose clock is so far off that their names are not believed."""
    for other in listener.others.values():
        if listener.signs and abs(other.skew) > MAX_SKEW:
            text = f"the clock of {other} is {ahead_or_behind(other.skew)}: its names are not found from here"
            todo = "set the clocks of both machines right, as by chrony or ntpd"
            yield warning("multicast clocks", text, todo, seconds=round(other.skew, 1))


def _conflicts(listener: Listener) -> Iterator[Finding]:
    """Names that agents of two processes hold."""
    owners: dict[tuple[str, str], list[_Other]] = {}
    for other in listener.others.values():
        for name in other.agents:
            owners.setdefault((other.partition, name), []).append(other)
    for (_, name), held in owners.items():
        if len(held) > 1:
            text = f"{name} is the name of an agent of {' and of '.join(map(str, held))}"
            yield warning("names", text, "the one started last is found: give one another name or namespace")


_ADVICE = {
    "unsigned": "give those processes the same PZC_KEY as this one",
    "foreign_key": "they belong to another lab, or have an old key: compare pzc doctor's key line there",
    "forged": "somebody sends what no key of yours signed: look for the sender with tcpdump",
    "version": "install one version of pzc on both machines",
    "role": "they announce with the key of an observer: give their process an operator's, or no name",
    "malformed": "another program uses this group and port: set PZC_DISCOVERY_PORT on all machines",
}


_WITHOUT_KEY = "they sign and this process does not: set their PZC_KEY here, if they belong to your lab"


def _refused(listener: Listener) -> Iterator[Finding]:
    reader = listener.reader
    for reason, count in reader.refused.items():
        senders = sorted(listener.senders.get(reason, ()))
        last = f"of the last one: {reader.last[reason].detail}"
        text = f"refused {count} datagram{'s' * (count != 1)} of {', '.join(senders)}; {last}"
        advice = _WITHOUT_KEY if reason == "foreign_key" and not listener.signs else _ADVICE[reason]
        yield warning(f"multicast {reason.replace('_', ' ')}", text, advice, count=count, senders=senders)
