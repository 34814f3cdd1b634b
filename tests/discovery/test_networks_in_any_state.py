from __future__ import annotations

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.discovery.datagrams import passed_on
from pzc.discovery.index import key_of
from pzc.discovery.records import Entry, Scope
from pzc.protocol.keyring import Key

from tests.discovery.network import Network, Node
from tests.effort import many

HOSTS = st.integers(0, 2)
SCOPES = st.sampled_from(["process", "host", "all"])
ENDPOINTS = st.sampled_from(["tcp://0.0.0.0:5000", "tcp://127.0.0.1:5000", "tcp://10.0.0.1:5000"])
CONVERGED = 4.5
"""Seconds after which everybody knows the truth: 3.95 of silence, or 2.5 until an ask, and an answer."""


class Processes(RuleBasedStateMachine):
    """Processes start, stop, die and change what they offer, on a network that loses, doubles and reorders.

    Whenever the network has been whole for a moment, each knows exactly what it should of all that it reaches.
    """

    @initialize(
        seed=st.integers(0, 1 << 32),
        loss=st.sampled_from([0.0, 0.1, 0.5]),
        doubled=st.sampled_from([0.0, 0.3]),
        delay=st.sampled_from([0.0, 0.02, 0.5]),
    )
    def start(self, seed: int, loss: float, doubled: float, delay: float) -> None:
        self.network = Network(seed, loss, doubled, delay)
        self.offers: dict[int, dict[int, Entry]] = {}
        for host in (0, 0, 1):
            self.process_starts(host)

    def living(self) -> list[Node]:
        return [node for node in self.network.nodes if node.alive]

    def offered(self, node: Node) -> dict[int, Entry]:
        return self.offers[self.network.nodes.index(node)]

    def process_starts(self, host: int) -> None:
        node = self.network.start(host)
        agent = node.agent(f"/{len(self.offers)}")
        topic = node.topic(agent, "t")
        self.offers[len(self.offers)] = {agent.number: agent, topic.number: topic}

    @precondition(lambda self: len(self.network.nodes) < 8)
    @rule(host=HOSTS)
    def another_process_starts(self, host: int) -> None:
        self.process_starts(host)

    @rule(data=st.data(), scope=SCOPES, endpoint=ENDPOINTS, name=st.sampled_from(["/a", "/b", "/r/c"]))
    def agent_starts(self, data: st.DataObject, scope: Scope, endpoint: str, name: str) -> None:
        node = data.draw(st.sampled_from(self.living()))
        entry = node.agent(name, scope, endpoint)
        self.offered(node)[entry.number] = entry

    @precondition(lambda self: any(self.offered(node) for node in self.living()))
    @rule(data=st.data(), scope=SCOPES, count=st.integers(1, 40))
    def agent_gets_topics(self, data: st.DataObject, scope: Scope, count: int) -> None:
        node, agent = self.some_entry(data)
        if agent.kind == "agent":
            for n in range(count):
                entry = node.topic(agent, f"t{n}", scope)
                self.offered(node)[entry.number] = entry

    def some_entry(self, data: st.DataObject) -> tuple[Node, Entry]:
        node = data.draw(st.sampled_from([s for s in self.living() if self.offered(s)]))
        number = data.draw(st.sampled_from(sorted(self.offered(node))))
        return node, self.offered(node)[number]

    @precondition(lambda self: any(self.offered(node) for node in self.living()))
    @rule(data=st.data())
    def something_is_withdrawn(self, data: st.DataObject) -> None:
        node, entry = self.some_entry(data)
        node.announcer.remove(entry.number, self.network.now)
        offered = self.offered(node)
        for number in [n for n, other in offered.items() if entry.number in (n, other.publisher)]:
            del offered[number]

    @precondition(lambda self: any(self.offered(node) for node in self.living()))
    @rule(data=st.data(), scope=SCOPES, endpoint=ENDPOINTS)
    def something_changes(self, data: st.DataObject, scope: Scope, endpoint: str) -> None:
        node, entry = self.some_entry(data)
        kind = {"scope": scope, "type": endpoint[:20]}
        changed = Entry(**{**{f: getattr(entry, f) for f in entry.__slots__}, **kind})
        if entry.kind == "agent":
            changed = Entry(**{**{f: getattr(changed, f) for f in entry.__slots__}, "addresses": (endpoint,)})
        node.announcer.change(changed, self.network.now)
        self.offered(node)[entry.number] = changed

    @precondition(lambda self: len(self.living()) > 2)
    @rule(data=st.data(), killed=st.booleans())
    def process_ends(self, data: st.DataObject, killed: bool) -> None:
        node = data.draw(st.sampled_from(self.living()))
        if not killed:
            self.network.send(node, node.announcer.bye(self.network.wall))
        node.alive = False

    @rule(data=st.data(), seconds=st.sampled_from([0.5, 2.0, 6.0]))
    def process_is_stopped(self, data: st.DataObject, seconds: float) -> None:
        data.draw(st.sampled_from(self.living())).stopped_until = self.network.now + seconds

    @rule(host=HOSTS, island=st.integers(0, 1))
    def cable_is_plugged_elsewhere(self, host: int, island: int) -> None:
        self.network.islands[host] = island

    @precondition(lambda self: self.network.heard)
    @rule(data=st.data(), count=st.integers(1, 20))
    def somebody_replays(self, data: st.DataObject, count: int) -> None:
        victim = data.draw(st.sampled_from(self.living()))
        for _ in range(count):
            view, datagram = self.network.random.choice(self.network.heard)
            victim.receive(view, passed_on(datagram) if count % 2 else datagram)

    @rule(data=st.data(), key=st.sampled_from([None, Key("of somebody else")]))
    def stranger_speaks(self, data: st.DataObject, key: Key | None) -> None:
        stranger = Network().start(1, key)
        stranger.agent("/a")
        victim = data.draw(st.sampled_from(self.living()))
        before = dict(victim.known)
        for outgoing in stranger.work():
            victim.receive(outgoing.view, outgoing.data)
        assert victim.known == before
        if victim.stopped_until <= self.network.now:
            assert victim.reader.refused["unsigned" if key is None else "foreign_key"] >= 1

    @rule(seconds=st.sampled_from([0.01, 0.2, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.network.run(seconds)

    @rule(healed=st.booleans())
    def all_is_quiet(self, healed: bool) -> None:
        network = self.network
        faults = network.loss, network.doubled, network.delay
        network.loss = network.doubled = network.delay = 0.0
        if healed:
            network.islands.clear()
        for node in network.nodes:
            node.stopped_until = min(node.stopped_until, network.now)
        network.run(0.6 + CONVERGED)
        self.everybody_knows_the_truth()
        network.loss, network.doubled, network.delay = faults

    def everybody_knows_the_truth(self) -> None:
        for node in self.living():
            expected = {
                key: addresses
                for other in self.living()
                if other is not node
                for key, addresses in self.visible(node, other).items()
            }
            assert {key: entry.addresses for key, entry in node.known.items()} == expected
            assert all(process.complete for process in node.directory.processes())

    def visible(self, node: Node, other: Node) -> dict[tuple[bytes, int], tuple[str, ...]]:
        """Keys and addresses of what one process should know of another."""
        islands = self.network.islands
        here = node.host == other.host
        together = here or islands.get(node.host, 0) == islands.get(other.host, 0)
        found = {}
        for entry in self.offered(other).values():
            agent = self.offered(other).get(entry.publisher, entry)
            scopes = {entry.scope, agent.scope}
            address = agent.addresses[0]
            port = address.rpartition(":")[2]
            ethernet = f"tcp://10.0.0.{other.host + 1}:{port}"
            local = [address.replace("0.0.0.0", "127.0.0.1")] if here else []
            remote = [ethernet] if together and (address == ethernet or "//0.0.0.0" in address) else []
            if "host" in scopes:
                remote = []
            addresses = tuple(dict.fromkeys([*local, *remote]))
            # A topic that stays on this host has the addresses of its agent, which may not.
            if entry is not agent and here and agent.scope == "all" and entry.scope == "host":
                wide = "//0.0.0.0" in address or address == ethernet
                addresses = tuple(dict.fromkeys([*local, *([ethernet] if wide else [])]))
            if addresses and "process" not in scopes:
                found[key_of(entry)] = addresses
        return found

    @invariant()
    def the_log_tells_what_the_directory_holds(self) -> None:
        for node in self.network.nodes:
            held = node.directory.match("*")
            assert {key_of(entry): entry for entry in held} == node.known

    def teardown(self) -> None:
        if hasattr(self, "network"):
            self.all_is_quiet(True)


TestProcesses = Processes.TestCase
# To make a failure shorter takes longer than a test may.
TestProcesses.settings = settings(
    max_examples=many(100), stateful_step_count=40, deadline=None, phases=(Phase.explicit, Phase.generate)
)
