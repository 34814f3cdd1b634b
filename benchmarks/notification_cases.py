"""The cases of the notification benchmark: who takes part, what is done, and what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.cases import AnyCase, Bar, Best, Sum
from benchmarks.notification_team import NotificationTeam, Plan
from benchmarks.old_version import Versioned

MIB = 1 << 20


@dataclass(frozen=True)
class Effort:
    """How much is done in one round.

    Attributes:
        paced: payloads per round of a latency, by their size in bytes.
        burst: payloads per round of a rate, by their size in bytes.
        topics: of the case with many subscriptions.
        each: subscriptions to each of them.
        fanned: notifications there.
        grown: arrays that are sent to slow readers.
        idle: seconds of a round in which nothing is done.
        whole: every element of every payload is written and read, which is part of the time.
    """

    paced: Mapping[int, int]
    burst: Mapping[int, int]
    topics: int
    each: int
    fanned: int
    grown: int
    idle: float = 10.0
    whole: bool = False


FULL = Effort({64: 1000, MIB: 150, 16 * MIB: 25, 64 * MIB: 10}, {64: 50_000, MIB: 500}, 1000, 100, 2000, 400)
QUICK = Effort({64: 200, MIB: 30, 16 * MIB: 6, 64 * MIB: 4}, {64: 5000, MIB: 60}, 50, 20, 200, 100, 3.0)

INTERVALS = {64: 0.001, MIB: 0.01, 16 * MIB: 0.1, 64 * MIB: 0.3}
"""Seconds between two payloads of a case, by its size: the slowest contender has time for one."""


@dataclass(frozen=True)
class Contender(Versioned):
    """One library, as writer and readers.

    Attributes:
        kind: out of `notification_end.KINDS`; empty for the copy in memory.
        own: what its ends are told.
        lossy: payloads may be missing, and are counted.
        size: bytes of a payload, when it is another one than the case's.
        loan: the writer fills memory of the library's.
        delay: seconds that its readers spend on each payload.
    """

    kind: str
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lossy: bool = False
    size: int = 0
    loan: bool = False
    delay: float = 0.0


@dataclass(frozen=True)
class Case(AnyCase):
    """One kind of notifications.

    Attributes:
        job: ``latency``, ``rate``, ``fan`` or ``memory``.
        size: bytes of a payload.
        contenders: by name, in the order of the rounds.
        readers: processes that read.
    """

    job: str
    size: int
    contenders: Mapping[str, Contender]
    readers: int = 1

    @property
    def members(self) -> Mapping[str, Contender]:
        """As `contenders`."""
        return self.contenders

    def team(self, name: str, effort: Effort, core: int | None) -> NotificationTeam:
        """Writer and readers of one contender."""
        contender = self.contenders[name]
        return NotificationTeam(self._plan(contender, effort), contender.variables, core)

    def _plan(self, who: Contender, effort: Effort) -> Plan:
        size = who.size or self.size
        if self.job == "latency":
            count = effort.paced[self.size]
            job = {"job": "paced", "count": count, "interval": INTERVALS[self.size], "whole": effort.whole}
            if who.loan:
                job["loan"] = size // 8
            if not who.kind:
                return Plan("", size, 0, {"count": count}, {}, "")
        elif self.job == "rate":
            count = effort.burst[size]
            job = {"job": "burst", "count": count, "whole": effort.whole}
        elif self.job == "fan":
            return _fan(who, effort)
        else:
            count = effort.grown
            job = {"job": "growth", "count": count, "interval": 0.005}
        reading = {
            "count": count, "keep": self.job == "latency", "lossy": who.lossy, "whole": effort.whole,
            "delay": who.delay,
        }  # fmt: skip
        return Plan(
            who.kind, size, self.readers, job, reading, self.job, who.own, warm=self.job != "memory",
            python=who.python,
        )  # fmt: skip


def _fan(who: Contender, effort: Effort) -> Plan:
    each = effort.each if who.own["many"] else 1
    own = {**who.own, "topics": effort.topics, "each": each, "messages": effort.fanned}
    job = {"job": "burst", "count": effort.fanned}
    return Plan("fan", 64, 1, job, {"count": effort.fanned}, "used", own, patience=150.0)


def _ours(title: str, take: str = "callback", **how: Any) -> Contender:
    own = {"policy": "block", "transport": "unix", "take": take, **how.pop("own", {})}
    return Contender(title, "pzc", own, **how)


ICEORYX2 = Contender("iceoryx2, event", "iceoryx2", needs="iceoryx2")
EZMSG = Contender("ezmsg", "ezmsg", needs="ezmsg", environment={"EZMSG_LOGLEVEL": "ERROR"})
ECAL = Contender("eCAL", "ecal", needs="ecal", lossy=True)
ZENOH = Contender("zenoh", "zenoh", needs="zenoh")
ZMQ_IPC = Contender("raw pyzmq, ipc", "zmq", {"transport": "ipc"})
ZMQ_TCP = Contender("raw pyzmq, tcp", "zmq")
ZMQ_NO_COPY = Contender("raw pyzmq, ipc, copy=False", "zmq", {"transport": "ipc", "copy": False})
ZMQ_SIGNED = Contender("pyzmq, tcp, pickle and HMAC by hand", "zmq_signed")

PEERS = {"iceoryx2": ICEORYX2, "ezmsg": EZMSG, "ecal": ECAL, "zenoh": ZENOH}
LOSSLESS = {name: peer for name, peer in PEERS.items() if not peer.lossy}
FLOOR = Sum("1.15 copies in memory and our 64 B", {"copy": 1.15, "small": 1.0})


def _old(base: Contender) -> Contender:
    return replace(base, title=base.title.replace("pzc", "pzc 0.2", 1), old=True)


def _plain(base: Contender) -> Contender:
    return replace(base, title=base.title.replace("pzc", "pzc, plain", 1), compiled=False)


def _arrays(size: int) -> Case:
    title, key = f"one way, array of {size // MIB} MiB", f"latency-{size // MIB}m"
    ours = _ours("pzc, callback")
    contenders = {
        "ours": ours,
        "old": _old(ours),
        "zero-copy": _ours("pzc, recv_zero_copy", "recv_zero_copy"),
        "small": _ours("pzc, 64 B", size=64),
        "copy": Contender("one copy in memory", ""),
        **PEERS,
        "zmq": ZMQ_IPC,
        "zmq-no-copy": ZMQ_NO_COPY,
    }
    rivals = (*PEERS, "zmq", "zmq-no-copy")
    bar = Bar("ours", "iceoryx2", 1.0) if size == MIB else Bar("ours", "best", 1.1)
    bars = (bar, Bar("ours", "old"), Bar("ours", "floor"), Bar("ours", "copy"), Bar("zero-copy", "best"))
    told = tuple(Bar("ours", name) for name in rivals)
    return Case(
        key, title, "us", "latency", size, contenders, bars=(*bars, *told),
        derived={"best": Best(rivals), "floor": FLOOR},
    )  # fmt: skip


def _rate(readers: int) -> Case:
    rivals = (*LOSSLESS, "zmq", "zmq-no-copy")
    ours = _ours("pzc, callback")
    contenders = {
        "ours": ours,
        "old": _old(ours),
        "zero-copy": _ours("pzc, recv_zero_copy", "recv_zero_copy"),
        **LOSSLESS,
        "zmq": ZMQ_IPC,
        "zmq-no-copy": ZMQ_NO_COPY,
    }
    wanted = {1: {"iceoryx2": 0.5}, 4: {"ezmsg": 1.0}}[readers]
    bars = (
        *(Bar("ours", name, limit, at_least=True) for name, limit in wanted.items()),
        Bar("ours", "old"),
        Bar("zero-copy", "best"),
        *(Bar("ours", name) for name in rivals if name not in wanted),
    )
    return Case(
        f"rate-1m-{readers}", f"arrays of 1 MiB, nothing lost, {readers} reader{'s' * (readers > 1)}",
        "msg/s", "rate", MIB, contenders, readers, bars=bars, derived={"best": Best(rivals, highest=True)},
    )  # fmt: skip


_SMALL_RIVALS = ("iceoryx2", "ezmsg", "ecal", "zenoh", "zmq-ipc", "zmq-tcp", "zmq-signed")

SMALL_CALLBACK = _ours("pzc, callback")
WIDE = _ours("pzc, callback, 1000 slots", own={"bounds": {"slots": 1000}, "buffers": 1000})
BROADCAST = Contender("pzc, drop", "pzc", {"policy": "drop", "transport": "tcp"}, lossy=True)
SLOW = _ours("pzc, latest(1)", own={"policy": "latest"}, lossy=True, delay=0.05)

CASES = (
    Case(
        "latency-64", "one way, 64 B", "us", "latency", 64,
        {
            "ours": SMALL_CALLBACK,
            "plain": _plain(SMALL_CALLBACK),
            "old": _old(SMALL_CALLBACK),
            "recv": _ours("pzc, recv", "recv"),
            **PEERS,
            "zmq-ipc": ZMQ_IPC,
            "zmq-tcp": ZMQ_TCP,
            "zmq-signed": ZMQ_SIGNED,
        },
        bars=(
            Bar("ours", "iceoryx2", 1.0),
            Bar("plain", "iceoryx2", 2.0),
            Bar("ours", "old"),
            Bar("recv", "iceoryx2"),
            *(Bar("ours", name) for name in _SMALL_RIVALS[1:]),
        ),
    ),
    _arrays(MIB),
    _arrays(16 * MIB),
    _arrays(64 * MIB),
    Case(
        "loan-64m", "one way, array of 64 MiB in lent memory", "us", "latency", 64 * MIB,
        {
            "ours": _ours("pzc, loan", loan=True),
            "small": _ours("pzc, 64 B", size=64),
            "iceoryx2": replace(ICEORYX2, title="iceoryx2, loan", loan=True),
        },
        bars=(Bar("ours", "small", 1.5), Bar("ours", "iceoryx2")),
    ),
    _rate(1),
    _rate(4),
    Case(
        "rate-64", "64 B, same host, nothing lost", "msg/s", "rate", 64,
        {
            "wide": WIDE,
            "plain-wide": _plain(WIDE),
            "old-wide": _old(WIDE),
            "ours": SMALL_CALLBACK,
            "recv": _ours("pzc, recv", "recv"),
            **LOSSLESS,
            "zmq-ipc": ZMQ_IPC,
            "zmq-signed": ZMQ_SIGNED,
        },
        bars=(
            Bar("wide", limit=100_000, at_least=True, pinned=True),
            Bar("wide", limit=150_000, at_least=True, pinned=False),
            Bar("wide", "iceoryx2", 0.9, at_least=True),
            Bar("plain-wide", "old-wide", 1.0, at_least=True),
            Bar("recv"),
            *(Bar("ours", name) for name in (*LOSSLESS, "zmq-ipc", "zmq-signed")),
        ),
    ),
    Case(
        "rate-64-broadcast", "64 B, broadcast over tcp, losses counted", "msg/s", "rate", 64,
        {
            "ours": BROADCAST,
            "old": _old(BROADCAST),
            "zmq": Contender("raw pyzmq, tcp, drops", "zmq", {"lossless": False}, lossy=True),
            "zmq-signed": Contender(
                "pyzmq, pickle and HMAC by hand", "zmq_signed", {"lossless": False}, lossy=True
            ),
        },
        bars=(
            Bar("ours", "old", 1.0, at_least=True),
            Bar("ours", "zmq"),
            Bar("ours", "zmq-signed"),
        ),
    ),
    Case(
        "fan-out", "processor time per further subscription, 1000 topics with 100 each", "us", "fan", 64,
        {
            "one": Contender("pzc, one each", "fan", {"transport": "unix", "many": False}),
            "ours": Contender("pzc, 100 each", "fan", {"transport": "unix", "many": True}),
        },
        bars=(Bar("extra", limit=2.0), Bar("ours"), Bar("one")),
        derived={"extra": Sum("100 less one, by 99", {"ours": 1 / 99, "one": -1 / 99})},
    ),
    Case(
        "memory", "memory of a publisher, 16 slow readers, arrays of 1 MiB", "MiB", "memory", MIB,
        {
            "ours": SLOW,
            "old": _old(SLOW),
        },
        16,
        bars=(Bar("ours", "old", 1.0), Bar("ours")),
    ),
)  # fmt: skip
"""In the order of the table."""
