"""What discovery costs: per datagram, per entry, and on a network of thousands of agents, which is simulated.

    python -m benchmarks.discovery_simulation [--agents 10000] [--write]

The announcers and the directory are the ones of the package. What the system adds, to receive a heartbeat and
to wake up for it, is measured of a real process in the same run (`discovery_system`). Each host has ten
processes, and each of them hears every heartbeat by multicast. ``--write`` puts the tables into the page.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pzc.agents import patience
from pzc.discovery import directory as directories
from pzc.discovery.announcer import UDP, Announcer
from pzc.discovery.datagrams import Reader, Refusal, write
from pzc.discovery.directory import Directory
from pzc.discovery.reach import Reach
from pzc.discovery.records import Advertise, Announcement, Entry, Heartbeat
from pzc.protocol.keyring import Key, Keyring

from benchmarks.discovery_system import CROWD, PERIOD, System, measure
from benchmarks.machine import Load, describe
from benchmarks.tables import machine_line, replace_part, table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "discovery.md"
KEY = Key("of the simulation")
WALL = 1_000_000_000.0
PROCESSES_PER_HOST = 10
CPU_LIMIT = 0.05
"""Share of one core that discovery may take on a host."""


def process(number: int, agents: int, topics: int, now: float = 0.0) -> Announcer:
    """A process with agents, each with topics, that is heard on one interface."""
    chance = random.Random(number).random
    made = Announcer(number.to_bytes(16, "big"), int(WALL), "", KEY, now, chance)
    made.reaches([Reach(2, (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",))], now)
    for n in range(agents):
        agent = made.add(
            Entry(
                "service", f"/rack{number}/instrument{n}", agent=f"{number:016x}{n:016x}", epoch=number,
                started=int(WALL * 1000), addresses=(f"tcp://0.0.0.0:{5000 + 2 * n}",),
                pub_addresses=(f"tcp://0.0.0.0:{5001 + 2 * n}",), type="lab.Instrument", host=f"rack{number}",
                pid=number,
            ),
            now,
        )  # fmt: skip
        for t in range(topics):
            topic = f"channel{t}"
            made.add(
                Entry("topic", f"{agent.name}/{topic}", publisher=agent.number, topic=topic, type="float"),
                now,
            )
    return made


def read(datagram: bytes, reader: Reader) -> Announcement:
    """What a datagram says.

    Raises:
        RuntimeError: when it is refused, so the benchmark is broken.
    """
    said = reader.read(datagram)
    if isinstance(said, Refusal):
        raise RuntimeError(said.detail)
    return said


def microseconds(work: Callable[[int], object], times: int = 2000, rounds: int = 7) -> float:
    """Median over rounds of the processor time of one call."""
    found: list[float] = []
    for _ in range(rounds):
        begin = time.process_time()
        for n in range(times):
            work(n)
        found.append((time.process_time() - begin) / times * 1e6)
    return sorted(found)[rounds // 2]


@dataclass(frozen=True)
class Costs:
    """Microseconds of processor time for one datagram."""

    encode: float
    read: float
    take: float
    size: int


def costs(kind: type[Announcement]) -> Costs:
    """Of a heartbeat, or of the largest part of a process's entries."""
    signed = Reader(Keyring([KEY]))
    whole = [read(data, signed) for data in process(1, 5, 10).whole(Reach(2, ("10.0.0.1",)), WALL)]
    said = max((each for each in whole if isinstance(each, kind)), key=lambda each: len(write(each, KEY)))
    datagram = write(said, KEY)
    fields = {name: getattr(said, name) for name in said.__struct_fields__}
    several = [kind(**{**fields, "sequence": n + 1}) for n in range(2000)]
    directories: list[Directory] = []

    def take(n: int) -> None:
        if n == 0:
            directories.append(Directory("", b"r" * 16, random.random))
        directories[-1].take(several[n], "multicast", n / 1000, WALL)

    return Costs(
        microseconds(lambda n: write(several[n], KEY)),
        microseconds(lambda _: signed.read(datagram)),
        microseconds(take),
        len(datagram),
    )


def datagram_table() -> str:
    """Costs per datagram."""
    rows: list[list[str]] = []
    for kind, title in ((Heartbeat, "heartbeat"), (Advertise, "entries, a full datagram")):
        cost = costs(kind)
        rows.append(
            [title, f"{cost.size} B", f"{cost.encode:.1f} µs", f"{cost.read:.1f} µs", f"{cost.take:.1f} µs"]
        )
    return table(["datagram", "size", "encode and sign", "verify and decode", "directory.take"], rows)


@dataclass(frozen=True)
class Network:
    """What one process measured of a network in its steady state; processor time without the system's."""

    processes: int
    entries: int
    memory: float
    learning: float
    learned_bytes: int
    bytes_per_second: float
    cpu: float

    @property
    def heartbeat(self) -> float:
        """Microseconds of processor time for one."""
        return self.cpu * PERIOD / self.processes * 1e6


def network(agents: int, per_process: int, topics: int, seconds: float = 10.0) -> Network:
    """Let one process hear all others: first everything, then their heartbeats for some seconds."""
    count = max(1, agents // per_process)
    reader = Reader(Keyring([KEY]))
    announcers = [process(n + 1, per_process, topics) for n in range(count)]
    wholes = [each.whole(Reach(2, ("10.0.0.1",)), WALL) for each in announcers]
    heads = [read(whole[0], reader) for whole in wholes]
    begin = time.process_time()
    _learn(wholes, reader)
    learning = time.process_time() - begin
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    directory = _learn(wholes, reader)
    gc.collect()
    memory = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    beats = round(seconds / PERIOD)
    spent = sent = 0.0
    for beat in range(1, beats + 1):
        now = beat * PERIOD
        said = [write(_later(head, 1_000_000 + beat, now), KEY) for head in heads]
        begin = time.process_time()
        for data in said:
            directory.take(read(data, reader), "multicast", now, WALL + now)
        directory.tick(now)
        spent += time.process_time() - begin
        sent += sum(len(data) + UDP for data in said)
    if len(directory.processes()) != count:
        raise RuntimeError("the directory lost a process that was heard")
    took = beats * PERIOD
    learned = sum(len(data) + UDP for whole in wholes for data in whole)
    return Network(count, len(directory), memory, learning, learned, sent / took, spent / took)


def _learn(wholes: list[list[bytes]], reader: Reader) -> Directory:
    """A directory that has heard everything of all processes."""
    directories.PROCESSES, directories._ENTRIES = 20_000, 2_000_000
    directory = Directory("", b"r" * 16, random.random, max_skew=30.0)
    for data in chain.from_iterable(wholes):
        directory.take(read(data, reader), "multicast", 0.0, WALL)
    return directory


def _later(head: Announcement, sequence: int, now: float) -> Announcement:
    fields = {name: getattr(head, name) for name in head.__struct_fields__}
    return type(head)(**{**fields, "sequence": sequence, "sent": int((WALL + now) * 1000)})


def wake_ups(processes: int) -> float:
    """How often a process wakes up in a second among so many: to say its heartbeat, and to hear all."""
    return 1 / patience(processes / PERIOD) + 1 / PERIOD


def core(processes: int, heartbeat: float, system: System) -> float:
    """Share of one core that a process needs among so many, each of whose heartbeats costs it so many µs."""
    return (processes / PERIOD * heartbeat + wake_ups(processes) * system.waking) / 1e6


def network_table(agents: int, system: System) -> tuple[str, float]:
    """Networks of more and more agents; and the microseconds that a heartbeat takes in the largest one."""
    rows: list[list[str]] = []
    usual = network(CROWD, 1, topics=0).heartbeat
    heartbeat = 0.0
    sizes = [(n, 10) for n in (10, 100, 1000, 10_000, agents) if n <= agents] + [(agents, 1)]
    for count, per_process in dict.fromkeys(sizes):
        found = network(count, per_process, topics=2)
        # What was measured, and what a larger directory adds to it.
        heartbeat = system.hearing + system.delivery + max(0.0, found.heartbeat - usual)
        needed = core(found.processes, heartbeat, system)
        rows.append(
            [
                f"{count} in {found.processes}",
                f"{found.entries}",
                f"{found.bytes_per_second / 1000:.1f} kB/s",
                f"{wake_ups(found.processes):.1f}",
                f"{100 * needed:.2f} %",
                f"{100 * needed * PROCESSES_PER_HOST:.1f} %",
                f"{found.memory * PROCESSES_PER_HOST / 1e6:.1f} MB",
                f"{found.memory / found.entries:.0f} B",
                f"{found.learned_bytes / 1e6:.2f} MB, {found.learning:.2f} s",
            ]
        )
    headings = [
        "agents in processes", "entries", "heard by a host", "wake-ups per second", "core, per process",
        "core, per host", "memory per host", "memory per entry", "to learn all",
    ]  # fmt: skip
    return table(headings, rows), heartbeat


def most_processes(per_host: int, heartbeat: float, system: System) -> int:
    """The largest network in which discovery keeps to `CPU_LIMIT` on a host with so many processes."""
    fits, too_many = 0, 1_000_000
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if per_host * core(middle, heartbeat, system) <= CPU_LIMIT:
            fits = middle
        else:
            too_many = middle
    return fits


def system_text(system: System) -> str:
    """What the system adds."""
    return (
        f"Each time that a process wakes up costs {system.waking:.0f} µs of processor time, its own "
        f"heartbeats included, and each heartbeat that it hears {system.hearing:.0f} µs, received by it and "
        f"understood, and {system.delivery:.1f} µs in the kernel before that. This was measured of a process "
        f"with one agent, alone and among {CROWD} others, on loopback."
    )


def limit_text(heartbeat: float, system: System) -> str:
    """Where multicast must give way."""
    shared, alone = (most_processes(count, heartbeat, system) for count in (PROCESSES_PER_HOST, 1))
    resting = 100 * PROCESSES_PER_HOST * core(0, 0.0, system)
    return (
        f"In the largest network a heartbeat costs {heartbeat:.0f} µs in all. {100 * CPU_LIMIT:.0f} % of one "
        f"core of a host with {PROCESSES_PER_HOST} processes are spent at {shared} processes on the segment "
        f"({resting:.1f} % on an empty one), of a host with one process at {alone}. Beyond that, multicast "
        "must give way to the registry, where what a process hears does not grow with the heartbeats of all."
    )


def steady_state(topics: int = 100, seconds: float = 60.0) -> str:
    """What one process with many topics says, on loopback and one network."""
    one = process(1, 1, topics)
    one.reaches([Reach(0, ("127.0.0.1",), True), Reach(2, ("10.0.0.1",))], 0.0)
    now = 0.0
    while now < 2.0:
        one.due(now, WALL + now)
        now = max(now, one.next_deadline)
    first, begin = one.sent, now
    while now < begin + seconds:
        one.due(now, WALL + now)
        now = max(now, one.next_deadline)
    rate = (one.sent - first) / seconds
    return (
        f"A process with {topics} topics says {rate:.0f} B/s in its steady state on two interfaces together "
        f"after {first / 1000:.1f} kB in its first two seconds."
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What discovery costs, on simulated networks.")
    parser.add_argument("--agents", type=int, default=10_000, help="of the largest network (default 10000)")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args()
    load = Load()
    system = measure()
    networks, heartbeat = network_table(options.agents, system)
    parts = [
        steady_state(), datagram_table(), system_text(system), networks, limit_text(heartbeat, system),
    ]  # fmt: skip
    parts.insert(0, machine_line(describe(("msgspec", "cryptography")), load.text(), 7))
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        replace_part(PAGE, "simulation", text)


if __name__ == "__main__":
    main()
