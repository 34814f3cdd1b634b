"""Connections: the graph of connected topics that a registry keeps, with its file, or as it told others.

The file is replaced as a whole and is on the disk before a change is answered. One that cannot be read is
set aside under another name, so that nothing of it is lost, and the graph begins empty.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ...delivery.graph import TopicGraph
from ...discovery.names import absolute
from ...protocol.errors import ConfigError, LocalProtocolError, PzcError
from ...protocol.shown import shown
from ..signals import Signal

logger = logging.getLogger("pzc.registry")

_Change = Callable[[TopicGraph, str, str], None]

FORMAT = 1


class Connections:
    """Which topic's messages flow into which other one; safe from any thread. What a registry serves.

    Topics are called by their names from the root, as ``/robot1/psu/voltage``; also one that nobody publishes
    may have others flow into it.

    Args:
        path: file that keeps them; None forgets them at the end.
        status: what else the registry tells of itself.

    Attributes:
        changed: emitted with the new number of connections.

    Raises:
        ConfigError: when the file cannot be written where it is to be.
    """

    def __init__(
        self, path: str | Path | None = None, status: Callable[[], dict[str, Any]] = dict[str, Any]
    ) -> None:
        self.changed = Signal()
        self._path = None if path is None else Path(path)
        self._status = status
        self._lock = threading.Lock()
        self._graph = TopicGraph()
        self._revision = 0
        self._listeners: list[Callable[[], object]] = []
        if self._path is not None:
            self._read(self._path)
        self._told = (self._revision, self._graph.connections())

    def connections(self) -> list[tuple[str, str]]:
        """Every connection as (source, target)."""
        return self._told[1]

    @property
    def status(self) -> dict[str, Any]:
        """Numbers for people: processes, connections, where they are kept."""
        path = None if self._path is None else str(self._path.absolute())
        return {**self._status(), "connections": len(self._told[1]), "revision": self._told[0], "file": path}

    def upstream(self, topic: str) -> frozenset[str]:
        """The other topics whose messages flow into this one."""
        with self._lock:
            return self._graph.upstream(topic)

    def listen(self, listener: Callable[[], object]) -> Callable[[], object]:
        """Call a function after every change; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def snapshot(self) -> tuple[int, list[tuple[str, str]]]:
        """Number of the last change, and every connection; without waiting."""
        return self._told

    def replace(self, revision: int, connections: Iterable[tuple[str, str]]) -> None:
        """Take over what a registry told.

        Raises:
            PzcError, ValueError: when no registry has such a graph.
        """
        graph = TopicGraph()
        for source, target in connections:
            graph.connect(_check(source), _check(target))
        with self._lock:
            self._graph, self._revision = graph, _number(revision)
            self._told = self._revision, graph.connections()
        self._notify()

    def _notify(self) -> None:
        for listener in list(self._listeners):
            listener()

    def connect(self, source: str, target: str) -> int:
        """Let everything published on ``source`` reach the subscribers of ``target`` as well.

        Returns:
            The number of connections.

        Raises:
            CycleRefused: when that would lead messages back to where they came from.
            LocalProtocolError, ConfigError: for a name that no topic can have.
            Refused: when there are too many.
            ConfigError: also when the file cannot be written; nothing has changed then.
        """
        return self._change(TopicGraph.connect, TopicGraph.disconnect, source, target)

    def disconnect(self, source: str, target: str) -> int:
        """End a connection; arguments as `connect`.

        Raises:
            UnknownName: when there is none.
            ConfigError: as `connect`.
        """
        return self._change(TopicGraph.disconnect, TopicGraph.connect, source, target)

    def _change(self, change: _Change, undo: _Change, source: str, target: str) -> int:
        source, target = _check(source), _check(target)
        with self._lock:
            graph, before = self._graph, len(self._graph)
            change(graph, source, target)
            if len(graph) == before:
                return before
            connections = graph.connections()
            try:
                self._write(self._revision + 1, connections)
            except BaseException:
                undo(graph, source, target)
                raise
            self._revision += 1
            self._told = (self._revision, connections)
        self._notify()
        self.changed.emit(len(connections))
        return len(connections)

    def _read(self, path: Path) -> None:
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            self._revision = _number(stored["revision"])
            for source, target in stored["connections"]:
                self._graph.connect(_check(source), _check(target))
            if stored["format"] != FORMAT:
                raise ValueError(f"its format is {shown(stored['format'], 40)}, this version writes {FORMAT}")
        except FileNotFoundError:
            self._write(0, [])  # a path that cannot be written is told now, not at the first change
        except OSError as exc:
            raise ConfigError(f"registry file {path} cannot be read: {exc.strerror}") from exc
        except (ValueError, TypeError, KeyError, PzcError) as exc:
            self._graph, self._revision = TopicGraph(), 0
            aside = _set_aside(path)
            logger.error(
                "registry file %s cannot be understood (%s: %s): it was renamed to %s, and no topics are "
                "connected now; correct it and put it back, or connect them again",
                path, type(exc).__name__, exc, aside,
            )  # fmt: skip
            self._write(0, [])

    def _write(self, revision: int, connections: list[tuple[str, str]]) -> None:
        path = self._path
        if path is None:
            return
        content = {"format": FORMAT, "revision": revision, "connections": connections}
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with part.open("w", encoding="utf-8") as file:
                file.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            _sync_folder(path.absolute().parent)
        except OSError as exc:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise ConfigError(f"registry file {path} cannot be written: {exc.strerror}") from exc


def _check(name: object) -> str:
    """The name from the root."""
    if not isinstance(name, str):
        raise LocalProtocolError(f"{shown(name, 80)} is no name of a topic, such as /robot1/psu/voltage")
    return absolute(name)


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"its revision is {shown(value, 40)}, expected a number from 0")
    return value


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.unreadable-{number}")).exists():
        number += 1
    path.replace(aside)
    return aside


def _sync_folder(folder: Path) -> None:
    """The new name is on the disk, too."""
    with contextlib.suppress(OSError):  # some file systems cannot
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
