"""The processes of one contender in a case of calls: a server, and clients that call it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack

from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, environment

HEAD_START = 1.0
"""Seconds between telling several clients to begin and their common beginning."""


class CallTeam:
    """A server process and its client processes.

    Args:
        client: kind out of `call_clients`.
        server: kind out of `call_servers`; empty for none.
        variables: of the environment of all of them.
        clients: how many call at once.
        arguments: what each is told to do in a round.
        core: that all share; None leaves them where the system puts them.
    """

    def __init__(
        self,
        client: str,
        server: str,
        variables: Mapping[str, str],
        clients: int,
        arguments: Mapping[str, object],
        core: int | None,
    ) -> None:
        self._kinds = client, server
        self._variables = variables
        self._count = clients
        self._arguments = arguments
        self._core = core
        self._server: Child | None = None
        self._clients: list[Child] = []

    def start(self, stack: ExitStack, key: str) -> None:
        """Start them; leaving the stack ends them."""
        variables = environment(key, self._variables)
        kind, server = self._kinds
        address = ""
        if server:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pzc-bench-"))
            self._server = stack.enter_context(
                Child("call_servers", server, folder, environment=variables, core=self._core)
            )
            address = self._server.receive(START_TIMEOUT)["address"]
        for _ in range(self._count):
            client = Child("call_clients", kind, address, environment=variables, core=self._core)
            self._clients.append(stack.enter_context(client))
        for client in self._clients:
            client.receive(START_TIMEOUT)

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

    def _all_do(self, arguments: dict[str, object]) -> list[float]:
        for client in self._clients:
            client.send(**arguments)
        return [client.receive(ROUND_TIMEOUT)["value"] for client in self._clients]
