"""The lab file: which servers, recorder, pipeline and registry belong together.

::

    [lab]                                 everything here may be left out
    name = "bench"                        default: the name of the file's folder
    keyring = "server.keyring"            of every process; paths begin at the file's folder
    partition = "bench"                   who may be found by name
    metrics = 9464                        port at which Prometheus may ask, on this machine; 0: any
    monitor = 8470                        port of the page that shows the lab, on this machine; 0: any

    [server.psu]                          found by the name psu
    object = "mylab.psu:PowerSupply"      a class or a function, importable from the file's folder, too
    args = ["TCPIP::10.0.0.7::INSTR"]
    kwargs = { timeout = 2.0 }
    bind = "tcp://0.0.0.0:5555"
    poll = { voltage = 1.0 }              seconds
    restart = "on-failure"                or always, never

    [recorder]
    journal = "data/journal"
    patterns = ["psu", "cam*/image"]      default: every server of the file
    keep_days = 30

    [pipeline]
    tables = "data/tables"
    limits = "limits.toml"

    [registry]
    bind = "tcp://10.0.0.2:10318"
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec

from ..agents import check_poll
from ..discovery.names import check_name, check_partition
from ..protocol.errors import ConfigError, PzcError
from ..protocol.keyring import check_private
from ..protocol.shown import hint
from ..protocol.toml import made, parsed, read_file
from ..transport.endpoints import RANDOM_TCP, check

DEFAULT = "lab.toml"
"""The file that is read when none is named."""

Restart = Literal["always", "on-failure", "never"]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class LabTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[lab]``: what all processes have in common.

    Attributes:
        name: of the lab; default that of the file's folder.
        keyring: file with the keys of every process; None leaves that to the environment.
        partition: in which names are found.
        grace: seconds that a process has to end; up to a day.
        metrics: port of loopback at which Prometheus may ask; 0 for any, None for none.
        monitor: port of loopback at which a browser shows the lab; 0 for any, None for none.
    """

    name: str = ""
    keyring: str | None = None
    partition: str | None = None
    grace: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 10.0
    metrics: Port | None = None
    monitor: Port | None = None


class ServerTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[server.NAME]``: one served object; the fields are those of `Server`.

    Attributes:
        object: ``module:Class``.
        args: of the class: numbers, texts, flags, and lists and tables of these.
        kwargs: of the class, by name.
        restart: when it is started again.
    """

    object: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    bind: str = RANDOM_TCP
    poll: dict[str, float] = {}
    urgent: list[str] = []
    reading: list[str] = []
    concurrent: list[str] = []
    on_cancel: dict[str, str] = {}
    expose: list[str] | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 1
    thread_affine: bool = False
    reads_while_locked: bool = False
    single_port: bool = False
    stream: str = ""
    audit: str | None = None
    restart: Restart = "on-failure"


class RecorderTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[recorder]``: notifications into a journal.

    Attributes:
        journal: its folder.
        patterns: agents, or patterns of names, each with ``/TOPIC`` if only that is wanted.
        keep_days: days after which segments are removed; None keeps them.
        calls: record audit logs, too.
    """

    journal: str
    patterns: list[str] | None = None
    keep_days: Annotated[float, msgspec.Meta(gt=0)] | None = None
    calls: bool = False
    restart: Restart = "always"


class PipelineTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[pipeline]``: tables out of the recorder's journal.

    Attributes:
        tables: their folder.
        limits: file with limits, whose alarms are published.
    """

    tables: str
    limits: str | None = None
    restart: Restart = "always"


class RegistryTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[registry]``: tells processes of one another where multicast does not reach.

    Attributes:
        bind: its REP endpoint.
        state: file that keeps the connections of topics.
    """

    bind: str = "tcp://127.0.0.1:10318"
    state: str | None = None
    restart: Restart = "always"


class LabFile(msgspec.Struct, frozen=True):
    """A lab file that was read and checked.

    Attributes:
        path: of the file.
        lab: what all have in common.
        servers: by name.
        recorder: None without one; likewise the others.
    """

    path: Path
    lab: LabTable
    servers: dict[str, ServerTable]
    recorder: RecorderTable | None
    pipeline: PipelineTable | None
    registry: RegistryTable | None

    @property
    def folder(self) -> Path:
        """Where its processes work."""
        return self.path.parent

    @property
    def name(self) -> str:
        """Of the lab."""
        return self.lab.name or self.folder.name or "lab"

    @property
    def recorder_name(self) -> str:
        """Of its recorder, and so of the mailboxes which that has: no other lab's."""
        letters = re.sub("[^A-Za-z0-9_-]", lambda found: found[0].encode().hex(), self.name)
        return f"recorder-{letters[:_LONGEST]}"


_LONGEST = 64
"""Letters of a lab's name in that of its recorder, which stands in names of files."""

_TABLES = {"lab": LabTable, "recorder": RecorderTable, "pipeline": PipelineTable, "registry": RegistryTable}
_RESERVED = {"lab", "recorder", "pipeline", "registry", "metrics", "monitor"}


def located(path: Path) -> Path:
    """Where a lab file is, the same however it is written: ``../lab.toml``, or by a link to its folder."""
    return path.parent.resolve() / path.name


def read_lab(path: Path) -> LabFile:
    """Read a lab file; nothing that it names is imported or run.

    Raises:
        ConfigError: when it cannot be read, or says what cannot be; with file, table and key.
    """
    path = located(path)
    if not path.exists():
        todo = "name another one, or let pzc demo write one"
        raise ConfigError(f"lab file {path} cannot be read: No such file or directory; {todo}")
    given = parsed(read_file(path, f"lab file {path}"), f"lab file {path}")
    for name in given:
        if name not in (*_TABLES, "server"):
            raise ConfigError(f"{path}: [{name}] is not known; {hint(name, (*_TABLES, 'server'))}")
    tables = {
        name: made(kind, given[name], f"{path}: [{name}]") for name, kind in _TABLES.items() if name in given
    }
    file = LabFile(
        path,
        cast("LabTable", tables.get("lab", LabTable())),
        dict(_servers(given.get("server", {}), path)),
        cast("RecorderTable | None", tables.get("recorder")),
        cast("PipelineTable | None", tables.get("pipeline")),
        cast("RegistryTable | None", tables.get("registry")),
    )
    _check(file)
    return file


def _servers(given: object, path: Path) -> Iterator[tuple[str, ServerTable]]:
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: server is no table; expected such as [server.psu]")
    for name, table in cast("dict[str, object]", given).items():
        yield name, made(ServerTable, table, f"{path}: [server.{name}]")


def _check(file: LabFile) -> None:
    if file.pipeline is not None and file.recorder is None:
        raise ConfigError(f"{file.path}: [pipeline] needs a [recorder], whose journal it reads")
    if not file.servers and file.recorder is None and file.registry is None:
        raise ConfigError(f"{file.path} starts nothing: say such as [server.psu]")
    _told(file, "[lab] partition", check_partition, file.lab.partition)
    for key, named in (
        ("[lab] keyring", file.lab.keyring),
        ("[pipeline] limits", file.pipeline.limits if file.pipeline is not None else None),
    ):
        if named is not None and not (file.folder / named).is_file():
            raise ConfigError(f"{file.path}: {key}: there is no file {file.folder / named}")
    if file.lab.keyring is not None:
        check_private(file.folder / file.lab.keyring, f"{file.path}: [lab] keyring = {file.lab.keyring}")
    bound: dict[str, str] = {}
    if file.registry is not None:
        _told(file, "[registry] bind", check, file.registry.bind)
        bound[file.registry.bind] = "registry"
    for name, server in file.servers.items():
        _check_server(file, name, server)
        other = bound.setdefault(server.bind, name)
        if other != name and not server.bind.endswith((":0", ":*")):
            raise ConfigError(f"{file.path}: [server.{name}] bind = {server.bind} is that of {other}, too")


def _check_server(file: LabFile, name: str, server: ServerTable) -> None:
    where = f"[server.{name}]"
    if name in _RESERVED:
        raise ConfigError(f"{file.path}: {where} cannot be called as the lab's own {name} is")
    _told(file, where, check_name, name)
    _told(file, f"{where} bind", check, server.bind)
    _told(file, where, check_poll, server.poll)
    arguments = {**{f"args[{at}]": each for at, each in enumerate(server.args)}, **server.kwargs}
    for key in server.kwargs:
        if not key.isidentifier():
            raise ConfigError(f"{file.path}: {where} kwargs: {key!r} is no name of an argument")
    for key, value in arguments.items():
        if not _is_literal(value):
            raise ConfigError(
                f"{file.path}: {where} {key} = {value} cannot be handed on; "
                "expected a finite number, a text, a flag, or lists and tables of these"
            )
    _check_object(file, where, server.object)


def _told(file: LabFile, where: str, rule: Any, value: Any) -> None:
    if value is None:
        return
    try:
        rule(value)
    except (PzcError, ValueError) as exc:
        raise ConfigError(f"{file.path}: {where}: {exc}") from None


def _is_literal(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_literal(each) for each in cast("dict[str, object]", value).values())
    if isinstance(value, list):
        return all(_is_literal(each) for each in cast("list[object]", value))
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _check_object(file: LabFile, where: str, text: str) -> None:
    module, colon, path = text.partition(":")
    if not (colon and all(part.isidentifier() for part in [*module.split("."), *path.split(".")])):
        raise ConfigError(
            f"{file.path}: {where} object = {text!r} is not MODULE:CLASS, such as mylab.psu:PowerSupply"
        )
    if not _is_there(module, file.folder):
        raise ConfigError(
            f"{file.path}: {where} object: there is no module {module}; {file.folder} was searched, too"
        )


def _is_there(module: str, folder: Path) -> bool:
    """Whether a module can be found; nothing of it is run."""
    top, *below = module.split(".")
    spec = find_spec(top)
    found = [] if spec is None else list(spec.submodule_search_locations or ())
    places = [folder / top, *(Path(each) for each in found)]
    if not below:
        return spec is not None or places[0].is_dir() or places[0].with_suffix(".py").is_file()
    wanted = [place.joinpath(*below) for place in places]
    return any(each.is_dir() or any(each.parent.glob(f"{each.name}.*")) for each in wanted)
