"""The processes of one contender in a case of calls: a server, and clients that call it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, environment
from benchmarks.old_version import Versioned

HEAD_START = 1.0
"""Seconds between telling several clients to begin and their common beginning."""

_KEYRING = """active = "{active}"
[keys.alice]
secret = "{alice}"
role = "operator"
[keys.bob]
secret = "{bob}"
role = "observer"
[keys.server]
secret = "{server}"
role = "admin"
"""


@dataclass(frozen=True)
class Contender(Versioned):
    """One library, as client and server.

    Attributes:
        client: kind out of `call_clients`.
        server: kind out of `call_servers`; empty when the client needs none.
        job: arguments of the case's job that are this contender's own.
        keyring: signed with keys of a keyring, another for each end; else with one key for both.
    """

    client: str
    server: str = "pzc"
    job: Mapping[str, object] = field(default_factory=dict[str, object], kw_only=True)
    keyring: bool = field(default=True, kw_only=True)

    @property
    def ours(self) -> bool:
        """Whether it is this package, in whatever version."""
        return self.client.startswith("pzc")


class CallTeam:
    """A server process and its client processes.

    Args:
        contender: who takes part.
        clients: how many call at once.
        arguments: what each is told to do in a round.
        core: that all share; None leaves them where the system puts them.
        variables: more of the environment of all of them.
    """

    def __init__(
        self,
        contender: Contender,
        clients: int,
        arguments: Mapping[str, object],
        core: int | None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._contender = contender
        self._variables = {**contender.variables, **(variables or {})}
        self._count = clients
        self._arguments = arguments
        self._core = core
        self._server: Child | None = None
        self._clients: list[Child] = []

    def start(self, stack: ExitStack, key: str) -> None:
        """Start them; leaving the stack ends them."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pzc-bench-")))
        contender, address, python = self._contender, "", self._contender.python
        if contender.server:
            variables = self._environment(folder, key, "server")
            self._server = stack.enter_context(
                Child(
                    "call_servers", contender.server, str(folder),
                    environment=variables, core=self._core, python=python,
                )
            )  # fmt: skip
            address = self._server.receive(START_TIMEOUT)["address"]
        variables = self._environment(folder, key, "alice")
        for _ in range(self._count):
            client = Child(
                "call_clients",
                contender.client,
                address,
                environment=variables,
                core=self._core,
                python=python,
            )
            self._clients.append(stack.enter_context(client))
        for client in self._clients:
            client.receive(START_TIMEOUT)

    def _environment(self, folder: Path, key: str, who: str) -> dict[str, str]:
        variables = environment(key, self._variables)
        if self._contender.keyring and self._contender.server:
            path = folder / f"{who}.toml"
            keys = {name: f"{name} {key}" for name in ("alice", "bob", "server")}
            path.write_text(_KEYRING.format(active=who, **keys))
            path.chmod(0o600)
            del variables["PZC_KEY"]
            variables["PZC_KEYRING"] = str(path)
        return variables

    def round(self) -> float:
        """Let the clients do their job once; the sum of what they give."""
        arguments = dict(self._arguments)
        if arguments["job"] == "rate":
            self._all_do({"job": "latency", "calls": 20})
            arguments["at"] = time.monotonic() + HEAD_START
        values = self._all_do(arguments)
        if self._server is not None:
            self._server.send(collect=True)
            self._server.receive(ROUND_TIMEOUT)
        return sum(values)

    def functions(self, calls: int) -> tuple[list[int], list[int]]:
        """How many Python functions each thread of the client, and of the server, ran for so many calls."""
        assert self._server is not None
        client, server = self._clients[0], self._server
        for each in ({"job": "latency", "calls": 50}, {"functions": 0}):
            client.send(**each)
            client.receive(ROUND_TIMEOUT)
        server.send(functions=0)
        server.receive(ROUND_TIMEOUT)
        client.send(functions=calls)
        counted = client.receive(ROUND_TIMEOUT)["counts"]
        server.send(functions=calls)
        return counted, server.receive(ROUND_TIMEOUT)["counts"]

    def _all_do(self, arguments: dict[str, object]) -> list[float]:
        for client in self._clients:
            client.send(**arguments)
        return [client.receive(ROUND_TIMEOUT)["value"] for client in self._clients]
