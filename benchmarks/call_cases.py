"""The cases of the call benchmark: who takes part, what is done, and what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.call_team import CallTeam
from benchmarks.cases import AnyCase, Bar, Participant


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
class Contender(Participant):
    """One library, as client and server.

    Attributes:
        client: kind out of `call_clients`.
        server: kind out of `call_servers`; empty when the client needs none.
        job: arguments of the case's job that are this contender's own.
    """

    client: str
    server: str = "pzc"
    job: Mapping[str, object] = field(default_factory=dict[str, object], kw_only=True)


@dataclass(frozen=True)
class Case(AnyCase):
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
        arguments = self.arguments(effort, contender)
        return CallTeam(
            contender.client, contender.server, contender.environment, self.clients, arguments, core
        )


ARRAYS = {"PZC_SER": "buffers"}
"""The serializer that the documentation names for arrays."""

_MANAGERS = Contender("multiprocessing.managers", "managers", "managers")
_PYRO5 = Contender("Pyro5 msgpack", "pyro5", "pyro5", needs="Pyro5")

CASES = (
    Case(
        "add-unix",
        "`add(1, 2)`, same host",
        "us",
        "latency",
        {
            "ours": Contender("pzc", "pzc"),
            "managers": _MANAGERS,
            "pyro5": _PYRO5,
            "pyro5-unix": Contender("Pyro5 msgpack, Unix socket", "pyro5", "pyro5_unix", needs="Pyro5"),
            "rpyc": Contender("RPyC", "rpyc", "rpyc", needs="rpyc"),
            "floor": Contender("the same bytes over a raw Unix socket", "unix_add", "unix_echo"),
        },
        bars=(
            Bar("ours", "managers", 1.0),
            Bar("ours", "pyro5", 0.4),
            Bar("ours", "pyro5-unix"),
            Bar("ours", "rpyc"),
            Bar("ours", "floor"),
        ),
    ),
    Case(
        "add-tcp",
        "`add(1, 2)`, forced tcp",
        "us",
        "latency",
        {
            "ours": Contender("pzc tcp", "pzc_tcp"),
            "zmq": Contender("raw pyzmq REQ/REP, five frames", "zmq_add", "zmq_rep"),
            "pyro5": _PYRO5,
        },
        bars=(Bar("ours", "zmq", 1.5), Bar("ours", "pyro5", 1.0)),
    ),
    Case(
        "add-inproc",
        "`add(1, 2)`, same process",
        "us",
        "latency",
        {"ours": Contender("pzc", "pzc_inproc", server="")},
        bars=(Bar("ours", limit=5.0),),
    ),
    Case(
        "eight-clients",
        "8 client processes, same host",
        "calls/s",
        "rate",
        {"ours": Contender("pzc", "pzc"), "managers": _MANAGERS},
        bars=(Bar("ours", "managers", 1.0, at_least=True),),
        clients=8,
    ),
    Case(
        "in-flight",
        "100 calls in flight, one client, tcp, per call",
        "us",
        "in_flight",
        {"ours": Contender("pzc tcp", "pzc_tcp")},
        bars=(Bar("ours", limit=25.0),),
    ),
    Case(
        "echo-unix",
        "echo of a 16 MiB array, same host",
        "us",
        "echo",
        {
            "ours": Contender("pzc, buffers", "pzc_echo", environment=ARRAYS),
            "raw": Contender("raw Unix socket", "unix_echo", "unix_echo_large"),
            "pickle": Contender("pzc, pickle", "pzc_echo"),
        },
        bars=(Bar("ours", "raw", 0.6), Bar("pickle", "raw")),
    ),
    Case(
        "echo-tcp",
        "echo of a 16 MiB array, forced tcp",
        "us",
        "echo",
        {
            "ours": Contender("pzc tcp, buffers", "pzc_echo_tcp", environment=ARRAYS),
            "zmq": Contender("raw pyzmq, copy=False", "zmq_echo", "zmq_rep_no_copy"),
            "pickle": Contender("pzc tcp, pickle", "pzc_echo_tcp"),
        },
        bars=(Bar("ours", "zmq", 1.3), Bar("pickle", "zmq")),
    ),
    Case(
        "ping-while-busy",
        "p99 of pings while a long call runs",
        "ms",
        "ping",
        {
            "ours": Contender("pzc, the call waits", "pzc_ping", job={"member": "wait"}),
            "compute": Contender("pzc, the call computes", "pzc_ping", job={"member": "compute"}),
        },
        bars=(Bar("ours", limit=20.0), Bar("compute")),
    ),
)
"""In the order of the table."""
