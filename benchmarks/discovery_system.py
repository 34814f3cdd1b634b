"""What discovery costs real processes of this machine: for each heartbeat, and each time that one wakes up.

A process with one agent is alone first, then a crowd says heartbeats on loopback, out of one more process.
"""

from __future__ import annotations

import secrets
import socket
import statistics
import time
from dataclasses import dataclass

from pzc import Protocol
from pzc.agents import HEARTBEATS, HEARTBEATS_WAIT
from pzc.discovery.announcer import BEAT, BEAT_JITTER, Announcer
from pzc.discovery.interfaces import chosen
from pzc.discovery.multicast import Multicast
from pzc.discovery.reach import Reach
from pzc.discovery.records import Entry
from pzc.protocol.keyring import Key

from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, ChildFailure, environment

GROUP = "239.255.80.90"
PERIOD = BEAT + BEAT_JITTER / 2
"""Seconds between two heartbeats of a process."""

CROWD = 50
"""Processes that are heard: so few that those who hear them need not wake up more often."""

SETTLED = 5.0
"""Seconds after which everything new was said, or whoever is silent is gone."""


@dataclass(frozen=True)
class System:
    """Microseconds of processor time.

    Attributes:
        waking: each time that a process wakes up, its own heartbeats included.
        hearing: each heartbeat that a process hears: to receive it, and all that follows.
        delivery: what the kernel spends on it before, for each process that is to have it.
    """

    waking: float
    hearing: float
    delivery: float


class Crowd:
    """Processes of one agent each that others take for real ones.

    Args:
        port: of the group.
        key: that they sign with.
        size: how many there are.
    """

    def __init__(self, port: int, key: Key, size: int) -> None:
        self._port = port
        now = time.monotonic()
        chance = secrets.SystemRandom().random
        self._announcers: list[Announcer] = []
        for number in range(size):
            made = Announcer(secrets.token_bytes(16), int(time.time()), "", key, now, chance)
            made.reaches([Reach(0, ("127.0.0.1",), True)], now)
            name, agent = f"/crowd{number}", secrets.token_hex(16)
            addresses = (f"tcp://127.0.0.1:{5000 + number}",)
            made.add(Entry("agent", name, agent=agent, epoch=1, started=1, addresses=addresses), now)
            self._announcers.append(made)

    def speak(self, seconds: float) -> int:
        """Say what is due for some time; returns how many datagrams that were."""
        said, end = 0, time.monotonic() + seconds
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaking:
            speaking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            while (now := time.monotonic()) < end:
                for each in self._announcers:
                    if each.next_deadline <= now:
                        for outgoing in each.due(now, time.time()):
                            speaking.sendto(outgoing.data, (GROUP, self._port))
                            said += 1
                due = min(each.next_deadline for each in self._announcers)
                time.sleep(max(0.0, min(due, end) - time.monotonic()))
        return said


def measure(rounds: int = 3, seconds: float = 10.0, settled: float = SETTLED) -> System:
    """Medians of some rounds, each of so many seconds alone and with a crowd."""
    secret, port = secrets.token_hex(32), free_port()
    keyring = Protocol(secret).codec.keyring
    assert keyring is not None
    variables = environment(secret, {"PZC_DISCOVERY_PORT": str(port)})
    waking: list[float] = []
    hearing: list[float] = []
    with Child("discovery_end", "gather", "0", "1", "1", environment=variables) as process:
        process.receive(START_TIMEOUT)
        for _ in range(rounds):
            time.sleep(settled)
            before = _used(process, 1)
            time.sleep(seconds)
            alone = _used(process, 1) - before
            crowd = Crowd(port, keyring.active, CROWD)
            crowd.speak(settled)
            before = _used(process, 1 + CROWD)
            said = crowd.speak(seconds)
            together = _used(process, 1 + CROWD) - before
            waking.append(alone / (seconds * (1 / HEARTBEATS_WAIT + 1 / PERIOD)))
            hearing.append((together - alone) / said)
    return System(1e6 * statistics.median(waking), 1e6 * statistics.median(hearing), delivery())


def _used(process: Child, seen: int) -> float:
    """Seconds of processor time that it has used until now; it must know so many agents."""
    process.send(look=True)
    told = process.receive(ROUND_TIMEOUT)
    if told["seen"] != seen:
        raise ChildFailure(f"{process.name} sees {told['seen']} agents instead of {seen}")
    return told["used"]


def delivery(processes: int = 10, times: int = 100, rounds: int = 15) -> float:
    """Microseconds for each process that a heartbeat is delivered to, over those for the first one."""
    port = free_port()
    found: dict[int, float] = {}
    datagram = bytearray(94)
    datagram[HEARTBEATS.offset] = HEARTBEATS.value
    for count in (1, 1 + processes):
        interfaces = chosen("127.0.0.1")
        hearing = [Multicast(GROUP, port, interfaces, HEARTBEATS) for _ in range(count)]
        try:
            taken = [_send(hearing, bytes(datagram), times) for _ in range(rounds)]
        finally:
            for each in hearing:
                each.close()
        found[count] = statistics.median(taken) / times * 1e6
    return (found[1 + processes] - found[1]) / processes


def _send(hearing: list[Multicast], datagram: bytes, times: int) -> float:
    """Seconds of processor time to send so many; then all sockets are empty again."""
    interface = hearing[0].interfaces[0]
    began = time.process_time()
    for _ in range(times):
        hearing[0].send(datagram, interface)
    took = time.process_time() - began
    for each in hearing:
        for fileno in (*each.filenos(), *([] if each.patient is None else [each.patient])):
            while each.receive(fileno) is not None:
                pass
    return took


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("", 0))
        return free.getsockname()[1]
