"""A network of processes that announce themselves, in memory, with a clock that stands still by itself."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass, field

from pzc.discovery.announcer import Announcer
from pzc.discovery.datagrams import Reader, Refusal
from pzc.discovery.directory import Directory
from pzc.discovery.events import Appeared, Changed, Conflict, Event, Vanished
from pzc.discovery.index import Key, key_of
from pzc.discovery.outbox import Outgoing
from pzc.discovery.reach import Reach
from pzc.discovery.records import Announcement, Entry, Scope
from pzc.protocol.keyring import Key as SigningKey
from pzc.protocol.keyring import Keyring

SECRET = SigningKey("of the laboratory")
EPOCH = 1_000_000_000
LOOPBACK, ETHERNET = 0, 2


class Node:
    """A process: an announcer, a directory, and a log of what the directory told."""

    def __init__(self, network: Network, host: int, name: bytes, key: SigningKey | None = SECRET) -> None:
        self.network = network
        self.host = host
        self.process = name.ljust(16, b".")
        keyring = None if key is None else Keyring([key])
        self.reader = Reader(keyring)
        chance = network.random.random
        self.directory = Directory("", self.process, chance, max_skew=None if key is None else 30.0)
        self.announcer = Announcer(self.process, EPOCH, "", key, network.now, chance)
        self.announcer.reaches(
            [Reach(LOOPBACK, ("127.0.0.1",), True), Reach(ETHERNET, (f"10.0.0.{host + 1}",))], network.now
        )
        self.alive = True
        self.stopped_until = 0.0
        self.waiting: list[tuple[int, bytes]] = []
        self.known: dict[Key, Entry] = {}
        self.told: list[tuple[float, Event]] = []

    def agent(self, name: str, scope: Scope = "all", endpoint: str = "tcp://0.0.0.0:5000") -> Entry:
        """Announce an agent."""
        entry = Entry(
            "agent", name, agent=f"{self.process.hex()}{name}"[-40:], started=int(self.network.now * 1000),
            addresses=(endpoint,), scope=scope, host=f"host{self.host}", pid=self.host,
        )  # fmt: skip
        return self.announcer.add(entry, self.network.now)

    def topic(self, agent: Entry, topic: str, scope: Scope = "all") -> Entry:
        """Announce a topic of an agent."""
        name = f"{agent.name}/{topic}"
        entry = Entry("topic", name, publisher=agent.number, topic=topic, type="float", scope=scope)
        return self.announcer.add(entry, self.network.now)

    def receive(self, view: int, data: bytes) -> None:
        """What the kernel hands over; it waits while the process is stopped."""
        if not self.alive:
            return
        if self.network.now < self.stopped_until:
            self.waiting.append((view, data))
            return
        said = self.reader.read(data)
        if not isinstance(said, Refusal):
            self.log(self.directory.take(said, "multicast", self.network.now, self.network.wall))
            self.announcer.hear(said, view, self.network.now, self.directory.yields(said))

    def work(self) -> list[Outgoing]:
        """Read what has arrived, then do what is due."""
        if not self.alive or self.network.now < self.stopped_until:
            return []
        waiting, self.waiting = self.waiting, []
        for view, data in waiting:
            self.receive(view, data)
        self.log(self.directory.tick(self.network.now))
        self.announcer.ask_processes(self.directory.asks(self.network.now))
        return self.announcer.due(self.network.now, self.network.wall)

    def log(self, events: list[Event]) -> None:
        """Follow what the directory tells without looking into it."""
        for event in events:
            self.told.append((self.network.now, event))
            match event:
                case Appeared(entry):
                    assert key_of(entry) not in self.known
                    self.known[key_of(entry)] = entry
                case Changed(entry):
                    assert self.known[key_of(entry)] != entry
                    self.known[key_of(entry)] = entry
                case Vanished(entry):
                    assert self.known.pop(key_of(entry)) == entry
                case Conflict(entry, other):
                    assert entry.name == other.name
                    assert entry.agent != other.agent

    def deadline(self) -> float:
        """When `work` has something to do."""
        times = [self.announcer.next_deadline, self.directory.next_deadline]
        due = min(time for time in times if time is not None)
        return max(due, self.stopped_until)


@dataclass
class Network:
    """Hosts on one network, of which some cannot reach each other for a while.

    Attributes:
        seed: of everything that is left to chance.
        loss: share of datagrams that are lost.
        doubled: share of those that come twice.
        delay: most seconds that one takes, so a later one may come first.
        islands: hosts by the number of the part of the network that they are in.
    """

    seed: int = 0
    loss: float = 0.0
    doubled: float = 0.0
    delay: float = 0.0
    now: float = 0.0
    islands: dict[int, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    heard: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._flying: list[tuple[float, int, Node, int, bytes]] = []
        self._count = itertools.count()
        self.sent = 0

    @property
    def wall(self) -> float:
        """Unix time."""
        return EPOCH + self.now

    def start(self, host: int, key: SigningKey | None = SECRET) -> Node:
        """A new process on a host."""
        node = Node(self, host, b"%d of %d" % (len(self.nodes), host), key)
        self.nodes.append(node)
        return node

    def send(self, sender: Node, outgoing: list[Outgoing]) -> None:
        """Hand datagrams to all whom they reach, the sender included."""
        for view, data in ((each.view, each.data) for each in outgoing):
            self.sent += len(data)
            self.heard.append((view, data))
            for node in self.nodes:
                same_host = node.host == sender.host
                together = self.islands.get(node.host, 0) == self.islands.get(sender.host, 0)
                if same_host or (view == ETHERNET and together):
                    self._fly(node, view, data)

    def _fly(self, node: Node, view: int, data: bytes) -> None:
        if self.random.random() < self.loss:
            return
        for _ in range(1 + (self.random.random() < self.doubled)):
            at = self.now + self.delay * self.random.random()
            heapq.heappush(self._flying, (at, next(self._count), node, view, data))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        self._work()
        while (due := self._next()) <= end:
            self.now = max(self.now, due)
            while self._flying and self._flying[0][0] <= self.now:
                _, _, node, view, data = heapq.heappop(self._flying)
                node.receive(view, data)
            self._work()
        self.now = end

    def _work(self) -> None:
        for node in self.nodes:
            self.send(node, node.work())

    def _next(self) -> float:
        times = [node.deadline() for node in self.nodes if node.alive]
        return min([*times, *(flying[0] for flying in self._flying[:1])], default=float("inf"))


def node_reach(node: Node) -> Reach:
    return Reach(ETHERNET, (f"10.0.0.{node.host + 1}",))


def said(node: Node) -> list[Announcement]:
    """What a process says now, read."""
    whole = node.announcer.whole(node_reach(node), node.network.wall)
    return [read for data in whole if isinstance(read := node.reader.read(data), Announcement)]
