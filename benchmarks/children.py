"""Processes of a benchmark: a parent that starts and asks, children that answer one JSON line per line.

A child ends when its standard input does, so it cannot outlive its parent, however that ends. The parent
waits for no answer without a limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START_TIMEOUT = 30.0
END_TIMEOUT = 5.0
ROUND_TIMEOUT = 120.0
"""Seconds that one child may take for one round."""


class ChildFailure(Exception):
    """A child did not do its part; the text names it and says what it told."""


class Child:
    """A process of ours that runs one module of this folder; leaving the context ends it.

    Args:
        module: name behind ``benchmarks.``.
        arguments: of its command line.
        environment: its whole environment.
        core: the only core that it and its threads may use; None for any.
        label: what errors call it; default the module and its arguments.
        python: interpreter of the environment that it runs in.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        core: int | None = None,
        label: str = "",
        python: str = sys.executable,
    ) -> None:
        self.name = label or f"{module} {' '.join(arguments)}"
        self._unread = b""
        with _only_core(core):
            self._process = subprocess.Popen(
                [python, "-m", f"benchmarks.{module}", *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C is the parent's; it ends the children
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def send(self, **fields: Any) -> None:
        """Write one line to the child.

        Raises:
            ChildFailure: when it has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(fields).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as exc:
            raise ChildFailure(f"{self.name} has ended (status {self._process.poll()})") from exc

    def receive(self, timeout: float) -> dict[str, Any]:
        """The next line of the child.

        Raises:
            ChildFailure: when none came within ``timeout`` seconds, it ended, or it told of an error.
        """
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._unread:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise ChildFailure(f"{self.name} did not answer within {timeout:g} s")
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                raise ChildFailure(f"{self.name} has ended (status {self._process.poll()})")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        fields = json.loads(line)
        if "error" in fields:
            raise ChildFailure(f"{self.name}: {fields['error']}")
        return fields

    def told(self, timeout: float) -> bool:
        """Whether the child tells something, or ends, within ``timeout`` seconds."""
        assert self._process.stdout is not None
        return bool(self._unread) or bool(select.select([self._process.stdout], [], [], timeout)[0])

    def end(self) -> None:
        """Close its input, and kill it when that does not end it within 5 s."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_TIMEOUT)
        self._process.stdout.close()


@contextlib.contextmanager
def _only_core(core: int | None) -> Iterator[None]:
    """What is started meanwhile is born on that core, so none of its threads ever was elsewhere."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def environment(key: str, own: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without its settings of this package; signed, and loopback only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PZC_")}
    return {**kept, "PZC_KEY": key, "PZC_IP": "127.0.0.1", **own}


def core_to_pin() -> int | None:
    """The core that pinned processes share; None where processes cannot be pinned."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else None


class Parent:
    """The child's way to its parent; whatever else prints to standard output goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def tell(self, **fields: Any) -> None:
        """Write one line to the parent."""
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    def fail(self, exc: Exception) -> None:
        """Tell the parent, when it still is there, why this child ends."""
        with contextlib.suppress(OSError):
            self.tell(error=f"{type(exc).__name__}: {exc}")

    def commands(self) -> Iterator[dict[str, Any]]:
        """The parent's lines, until it closes them or ends."""
        for line in sys.stdin:
            yield json.loads(line)
