"""What a lab file means: a command line for each process."""

from __future__ import annotations

import sys
from typing import NamedTuple

from ..protocol.errors import ConfigError
from ..protocol.shown import hint
from ..transport.endpoints import reached_here
from .file import LabFile, RecorderTable, RegistryTable, Restart, ServerTable

ORDER = ("registry", "server", "recorder", "pipeline", "metrics", "monitor")
"""Kinds in the order in which they are started: each finds those before it."""

ENDING = (("server",), ("recorder",), ("pipeline", "metrics", "monitor", "registry"))
"""Kinds that end together, in this order: what records outlives what it records."""


class Unit(NamedTuple):
    """One process of a lab.

    Attributes:
        name: by which it is told of; a server is also found by it.
        kind: one of `ORDER`.
        arguments: of the program ``pzc``.
        restart: when it is started again.
    """

    name: str
    kind: str
    arguments: tuple[str, ...]
    restart: Restart

    def starts_again(self, status: int) -> bool:
        """True when it is started again after it ended with this exit status."""
        return self.restart == "always" or (self.restart == "on-failure" and status != 0)

    @property
    def announces(self) -> bool:
        """True when it writes a line of JSON as soon as it is ready."""
        return self.kind != "pipeline"

    @property
    def command(self) -> list[str]:
        """The whole command line."""
        return [sys.executable, "-P", "-m", "pzc", *self.arguments]


def units_of(file: LabFile) -> list[Unit]:
    """The processes of a lab, in the order in which they are started."""
    found: list[Unit] = []
    if file.registry is not None:
        found.append(Unit("registry", "registry", _registry(file.registry), file.registry.restart))
    for name, table in file.servers.items():
        found.append(Unit(name, "server", _server(name, table), table.restart))
    if file.recorder is not None:
        found.append(Unit("recorder", "recorder", _recorder(file.recorder, file), file.recorder.restart))
    if file.recorder is not None and file.pipeline is not None:
        arguments = ["pipeline", "run", file.recorder.journal, file.pipeline.tables, "--json"]
        if file.pipeline.limits is not None:
            arguments += ["--limits", file.pipeline.limits, "--publish-alarms"]
        found.append(Unit("pipeline", "pipeline", tuple(arguments), file.pipeline.restart))
    if file.lab.metrics is not None:
        watching = ("metrics", "--port", str(file.lab.metrics), "--lab", str(file.path), "--json")
        found.append(Unit("metrics", "metrics", watching, "always"))
    if file.lab.monitor is not None:
        showing = ("monitor", "--port", str(file.lab.monitor), "--lab", str(file.path), "--json")
        found.append(Unit("monitor", "monitor", showing, "always"))
    return found


def chosen(units: list[Unit], names: list[str]) -> list[Unit]:
    """Those with these names; all for none.

    Raises:
        ConfigError: for a name that no process of the lab has.
    """
    known = [unit.name for unit in units]
    for name in names:
        if name not in known:
            raise ConfigError(f"the lab has no {name}; {hint(name, known)}")
    return [unit for unit in units if not names or unit.name in names]


def environment_of(file: LabFile) -> dict[str, str]:
    """Variables of every process of a lab, and of whoever talks to them."""
    variables: dict[str, str] = {}
    if file.lab.keyring is not None:
        variables["PZC_KEYRING"] = str(file.folder / file.lab.keyring)
    if file.lab.partition is not None:
        variables["PZC_PARTITION"] = file.lab.partition
    if file.registry is not None and (endpoint := reached_here(file.registry.bind)):
        variables["PZC_REGISTRY"] = endpoint
    return variables


def _server(name: str, table: ServerTable) -> tuple[str, ...]:
    arguments = ["serve", table.object, "--name", name, "--bind", table.bind, "--json"]
    lists = {
        "--urgent": table.urgent or None, "--reading": table.reading or None,
        "--concurrent": table.concurrent or None, "--expose": table.expose,
    }  # fmt: skip
    for option, names in lists.items():
        if names is not None:  # an empty --expose lets nothing be used
            arguments += [option, ",".join(names)]
    for member, period in table.poll.items():
        arguments += ["--poll", f"{member}={period:g}s"]
    for member, method in table.on_cancel.items():
        arguments += ["--on-cancel", f"{member}={method}"]
    if table.concurrency != 1:
        arguments += ["--concurrency", str(table.concurrency)]
    for option, wanted in (
        ("--thread-affine", table.thread_affine), ("--reads-while-locked", table.reads_while_locked),
        ("--single-port", table.single_port),
    ):  # fmt: skip
        if wanted:
            arguments.append(option)
    arguments += ["--stream", table.stream] if table.stream else []
    arguments += [] if table.audit is None else ["--audit", table.audit]
    arguments += [repr(value) for value in table.args]
    arguments += [f"{key}={value!r}" for key, value in table.kwargs.items()]
    return tuple(arguments)


def _recorder(table: RecorderTable, file: LabFile) -> tuple[str, ...]:
    sources = list(file.servers) if table.patterns is None else table.patterns
    if not sources:
        raise ConfigError(
            f"{file.path}: [recorder] has nothing to record: say patterns, such as ['psu', 'cam*/image']"
        )
    arguments = ["record", *sources, "--journal", table.journal, "--name", file.recorder_name, "--json"]
    if table.keep_days is not None:
        arguments += ["--keep-days", f"{table.keep_days:g}"]
    if table.calls:
        arguments.append("--calls")
    return tuple(arguments)


def _registry(table: RegistryTable) -> tuple[str, ...]:
    kept = () if table.state is None else ("--state", table.state)
    return ("registry", "--bind", table.bind, *kept, "--json")
