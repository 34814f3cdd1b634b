"""The cases of the call benchmark: who takes part, what is done, and what is wanted.

Every call of ours is signed, judged by the roles of a keyring, written to an audit log and kept for callers
that lose their connection, but for what the title of a contender leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.call_team import CallTeam, Contender
from benchmarks.cases import AnyCase, Bar, Best


@dataclass(frozen=True)
class Effort:
    """How much is done in one round."""

    calls: int = 4000
    seconds: float = 1.5
    batches: int = 30
    echoes: int = 25
    pings: int = 500
    busy: float = 10.0


FULL = Effort()
QUICK = Effort(calls=400, seconds=0.3, batches=5, echoes=5, pings=60, busy=1.2)


@dataclass(frozen=True)
class CallCase(AnyCase):
    """One kind of calls.

    Attributes:
        job: name out of `jobs`.
        contenders: by name, in the order of the rounds.
        clients: processes that call at once.
    """

    job: str
    contenders: Mapping[str, Contender]
    clients: int = 1

    @property
    def members(self) -> Mapping[str, Contender]:
        """As `contenders`."""
        return self.contenders

    def arguments(self, effort: Effort, contender: Contender) -> dict[str, object]:
        """What a client is told to do in one round."""
        amount: dict[str, dict[str, object]] = {
            "latency": {"calls": effort.calls},
            "echo": {"calls": effort.echoes},
            "rate": {"seconds": effort.seconds},
            "in_flight": {"batches": effort.batches},
            "ping": {"pings": effort.pings, "seconds": effort.busy},
        }
        return {"job": self.job, **amount[self.job], **contender.job}

    def team(self, name: str, effort: Effort, core: int | None) -> CallTeam:
        """Client and server processes of one contender."""
        contender = self.contenders[name]
        return CallTeam(contender, self.clients, self.arguments(effort, contender), core)


_LANE = "pzc.transport._lane"
_OLD_ARRAYS = {"PZC_SER": "buffers"}  # later versions send arrays beside the body by themselves
_MANAGERS = Contender("multiprocessing.managers", "managers", "managers")
_PYRO5 = Contender("Pyro5 msgpack", "pyro5", "pyro5", needs="Pyro5")
_PYRO5_UNIX = Contender("Pyro5 msgpack, Unix socket", "pyro5", "pyro5_unix", needs="Pyro5")


def _ours(client: str, title: str = "", **options: object) -> dict[str, Contender]:
    """With the lane in C, without, and version 0.2."""
    base = replace(Contender("", client), **options)  # type: ignore[arg-type]
    more = f" {title}" if title else ""
    return {
        "ours": replace(base, title=f"pzc{more}, compiled", compiled=True, needs=_LANE),
        "python": replace(base, title=f"pzc{more}, plain Python", compiled=False),
        "old": replace(
            base, title=f"pzc{more}, 0.2", old=True, environment=_OLD_ARRAYS if "echo" in client else {}
        ),
    }


def _not_slower() -> tuple[Bar, ...]:
    """Neither way is slower than version 0.2 in the same run."""
    return Bar("ours", "old", 1.0), Bar("python", "old", 1.0)


def _variations(compiled: bool) -> dict[str, Contender]:
    lane = {"compiled": compiled, "needs": _LANE if compiled else ""}
    plain = Contender("plain", "pzc", **lane)  # type: ignore[arg-type]
    return {
        "plain": plain,
        "no-audit": replace(plain, title="no audit log", server="pzc_no_audit"),
        "locked": replace(plain, title="the lock is held", client="pzc_locked"),
        "one-key": replace(plain, title="one key", keyring=False),
        "msgpack": replace(plain, title="msgpack", environment={"PZC_SER": "msgpack"}),
        "nested": replace(plain, title="two levels deep", client="pzc_nested"),
        "kwargs": replace(plain, title="keyword arguments", client="pzc_kwargs"),
        "4-kib": replace(plain, title="an argument of 4 KiB", client="pzc_4_kib"),
        "async": replace(plain, title="`async def`", client="pzc_async"),
    }


def _no_cliff(key: str, title: str, compiled: bool, async_limit: float) -> CallCase:
    variations = _variations(compiled)
    others = tuple(name for name in variations if name not in ("plain", "async"))
    return CallCase(
        key,
        f"no cliff, {title}",
        "us",
        "latency",
        variations,
        derived={"dearest": Best(others, highest=True)},
        bars=(
            Bar("dearest", "plain", 1.5),
            Bar("async", "plain", async_limit),
            *(Bar(name, "plain") for name in others),
        ),
    )


CASES = (
    CallCase(
        "add-unix",
        "`add(1, 2)`, same host",
        "us",
        "latency",
        {
            **_ours("pzc"),
            "managers": _MANAGERS,
            "pyro5-unix": _PYRO5_UNIX,
            "pyro5": _PYRO5,
            "rpyc": Contender("RPyC", "rpyc", "rpyc", needs="rpyc"),
            "lane": Contender("the lane alone, no rules", "lane", "lane", needs=_LANE),
            "floor": Contender("the same bytes over a raw Unix socket", "unix_add", "unix_echo"),
        },
        bars=(
            Bar("ours", "managers", 1.0, pinned=True),
            Bar("ours", "managers", 0.5, pinned=False),
            Bar("python", "managers", 2.0),
            *_not_slower(),
            Bar("ours", "pyro5-unix", 0.5, pinned=True),
            Bar("ours", "pyro5-unix", pinned=False),
            Bar("python", "pyro5-unix", 1.0, pinned=True),
            Bar("ours", "pyro5"),
            Bar("ours", "rpyc"),
            Bar("ours", "lane"),
            Bar("ours", "floor"),
        ),
    ),
    CallCase(
        "eight-clients",
        "8 client processes, same host",
        "calls/s",
        "rate",
        {**_ours("pzc"), "managers": _MANAGERS},
        bars=(
            Bar("ours", "managers", 1.0, at_least=True),
            Bar("python", "managers", 0.55, at_least=True),
            Bar("ours", "old"),
        ),
        clients=8,
    ),
    CallCase(
        "in-flight",
        "100 calls in flight, one client, per call",
        "us",
        "in_flight",
        {**_ours("pzc"), "tcp": Contender("pzc tcp", "pzc_tcp")},
        bars=(Bar("ours", limit=10.0), Bar("python", limit=20.0), Bar("ours", "old"), Bar("tcp")),
    ),
    CallCase(
        "add-tcp",
        "`add(1, 2)`, forced tcp",
        "us",
        "latency",
        {
            **_ours("pzc_tcp", "tcp"),
            "zmq": Contender("raw pyzmq REQ/REP, five frames", "zmq_add", "zmq_rep"),
            "pyro5": _PYRO5,
        },
        bars=(
            Bar("ours", "zmq", 1.4),
            Bar("python", "zmq", 1.6),
            Bar("ours", "old"),
            Bar("ours", "pyro5"),
        ),
    ),
    _no_cliff("no-cliff", "compiled", compiled=True, async_limit=3.0),
    _no_cliff("no-cliff-python", "plain Python", compiled=False, async_limit=1.5),
    CallCase(
        "echo-unix",
        "echo of a 16 MiB array, same host",
        "us",
        "echo",
        {
            **_ours("pzc_echo"),
            "raw": Contender("raw Unix socket", "unix_echo", "unix_echo_large"),
        },
        bars=(*_not_slower(), Bar("ours", "raw", 0.6)),
    ),
    CallCase(
        "echo-tcp",
        "echo of a 16 MiB array, forced tcp",
        "us",
        "echo",
        {
            **_ours("pzc_echo_tcp", "tcp"),
            "zmq": Contender("raw pyzmq, copy=False", "zmq_echo", "zmq_rep_no_copy"),
        },
        bars=(*_not_slower(), Bar("ours", "zmq", 1.3)),
    ),
    CallCase(
        "ping-while-busy",
        "p99 of pings while a long call waits",
        "ms",
        "ping",
        _ours("pzc_ping", job={"member": "wait"}),
        bars=(*_not_slower(), Bar("ours", limit=20.0)),
    ),
    CallCase(
        "ping-while-computing",
        "p99 of pings while a long call computes",
        "ms",
        "ping",
        _ours("pzc_ping", job={"member": "compute"}),
        bars=_not_slower(),
    ),
)
"""In the order of the table."""

COUNTED = ("add-unix", "add-tcp", "no-cliff", "no-cliff-python")
"""Cases whose Python functions are counted."""
