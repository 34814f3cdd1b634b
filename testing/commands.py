"""The command line in the process of a test."""

from __future__ import annotations

import _thread
import contextlib
import io
import json
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ..protocol.errors import ReceiveTimeout

_one_at_a_time = threading.Lock()
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_PUT_BACK = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]
_AGAIN = 0.05
"""Seconds after which a signal is sent again: Python sleeps through one that comes when it begins to wait."""


@dataclass(frozen=True)
class Result:
    """What a command did.

    Attributes:
        status: exit status.
        out: what it wrote to stdout.
        err: what it wrote to stderr.
    """

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value that ``out`` is.

        Raises:
            ValueError: for anything else, and for NaN and infinities, which are no JSON.
        """
        return _strict(self.out)

    @property
    def rows(self) -> list[Any]:
        """The JSON value of each line of ``out``; errors as `json`."""
        return [_strict(line) for line in self.out.splitlines()]


def _strict(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


class _Told(io.BytesIO):
    """Bytes that somebody may wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def write(self, data: Any, /) -> int:
        with self._changed:
            self._changed.notify_all()
            return super().write(data)

    def text(self) -> str:
        return self.getvalue().decode()

    def await_line(self, number: int, timeout: float) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: self.getvalue().count(b"\n") >= number, timeout)
        lines = self.text().splitlines(keepends=True)
        return lines[number - 1] if len(lines) >= number and lines[number - 1].endswith("\n") else None


class Running:
    """A command at work, as ``meanwhile`` of `command` sees it."""

    def __init__(self, out: _Told, err: _Told, interrupts: _Interrupts) -> None:
        self._out, self._err, self._interrupts = out, err, interrupts
        self._read = 0
        self._sent: signal.Signals | None = None

    @property
    def out(self) -> str:
        """What it has written to stdout so far."""
        return self._out.text()

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return self._err.text()

    def line(self, timeout: float = 10.0) -> str:
        """The next line of stdout, with its end.

        Args:
            timeout: seconds to wait for it.

        Raises:
            ReceiveTimeout: when none comes in time; it tells what stands on stderr.
        """
        found = self._out.await_line(self._read + 1, timeout)
        if found is None:
            raise ReceiveTimeout(f"the command wrote no line within {timeout:g} s; stderr: {self.err!r}")
        self._read += 1
        return found

    def wait(self, timeout: float) -> bool:
        """Wait for its end; True when it has ended.

        Args:
            timeout: seconds.
        """
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0 and not self._interrupts.wait(min(left, _AGAIN)):
            if self._sent is not None:
                self.kill(self._sent)
        return self._interrupts.wait(0)

    def kill(self, number: signal.Signals) -> None:
        """Send the command a signal, and again while somebody waits for its end.

        Args:
            number: SIGINT or SIGTERM.

        Raises:
            ValueError: for another one, which would reach the test.
        """
        if number not in _INTERRUPTS:
            raise ValueError(f"{number.name} would reach the test; SIGINT and SIGTERM reach a command")
        self._sent = number
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:  # Windows
            _thread.interrupt_main(number)


Meanwhile = Callable[[Running], object]


def command(
    *arguments: str,
    environment: Mapping[str, str | None] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    meanwhile: Meanwhile | None = None,
) -> Result:
    """Run ``pzc`` with these arguments in this process, and put back what it changes.

    ::

        outcome = command("get", "psu.voltage", environment={"PZC_PEERS": f"psu={endpoint}"})
        assert outcome.out.strip() == "3.3"

    One command runs at a time; its variables and working directory are those of the whole process meanwhile.
    What other threads print or log at that time is captured with it. A proxy of this process with the same
    key shares its agent, and so its settings, with the command. A full disk behind stdout, or a pipe that
    breaks, needs a process.

    Args:
        arguments: those of the command line, without the program's name.
        environment: variables to set, or with None to remove; the others stay.
        cwd: working directory; default this process's.
        meanwhile: runs in another thread while the command runs, and is given a `Running`. When it returns,
            the command is interrupted as by Ctrl-C unless it has ended; what it raises is raised here. For
            commands that go on until they are told to end; only in the main thread, where signals arrive.

    Raises:
        RuntimeError: for ``meanwhile`` outside the main thread.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if meanwhile is not None and not in_main:
        raise RuntimeError("a command with meanwhile must be called in the main thread: signals arrive there")
    out, err = _Told(), _Told()
    beside = None
    with contextlib.ExitStack() as stack:
        for changed in (
            _one_at_a_time,
            _settings(environment or {}),
            _folder(cwd),
            _logging(),
            _streams(out, err),
        ):
            stack.enter_context(changed)
        interrupts = stack.enter_context(_Interrupts()) if in_main else None
        if meanwhile is not None and interrupts is not None:
            beside = _Beside(meanwhile, Running(out, err, interrupts), interrupts)
        status = _run(arguments, beside)
    if beside is not None:
        beside.raise_its_error()
    return Result(status, out.text(), err.text())


def _run(arguments: tuple[str, ...], beside: _Beside | None) -> int:
    from ..console.main import INTERRUPTED, main

    status = INTERRUPTED
    try:
        with beside or contextlib.nullcontext():
            status = main(arguments)
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            return exc.code or 0
        print(exc.code, file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        pass  # before the command began, or after it had ended
    return status


class _Interrupts:
    """SIGINT and SIGTERM raise KeyboardInterrupt until the end of a command; then they are put back."""

    def __enter__(self) -> _Interrupts:
        self._ended = threading.Event()
        self._came = False
        self._before = [(number, signal.getsignal(number)) for number in _PUT_BACK]
        self._take()
        return self

    def _take(self) -> None:
        for number in _INTERRUPTS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self._came = not self._came, True
        if first and not self._ended.is_set():
            raise KeyboardInterrupt

    def wait(self, timeout: float) -> bool:
        """Wait for the end of the command; True when it is there."""
        return self._ended.wait(timeout)

    def end(self) -> None:
        """The command has ended: whoever still signals is too late."""
        with contextlib.suppress(KeyboardInterrupt):  # one that comes just now
            self._ended.set()
        self._ended.set()
        self._take()

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)


class _Beside:
    """The thread of ``meanwhile``."""

    def __init__(self, meanwhile: Meanwhile, running: Running, interrupts: _Interrupts) -> None:
        self._meanwhile, self._running, self._interrupts = meanwhile, running, interrupts
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pzc-testing meanwhile")

    def _run(self) -> None:
        try:
            self._meanwhile(self._running)
        except BaseException as exc:
            self._error = exc
        finally:
            if not self._running.wait(0):
                self._running.kill(signal.SIGINT)
                self._running.wait(math.inf)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._interrupts.end()
        self._thread.join()

    def raise_its_error(self) -> None:
        if self._error is not None:
            raise self._error


@contextlib.contextmanager
def _settings(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = dict(os.environ)
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _look_at_zone()
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
        _look_at_zone()


def _look_at_zone() -> None:
    """Take ``TZ`` for true; on Windows nothing does."""
    if hasattr(time, "tzset"):
        time.tzset()


@contextlib.contextmanager
def _folder(cwd: str | os.PathLike[str] | None) -> Iterator[None]:
    """What a command imports from its working directory is forgotten, as another folder may have its name."""
    path, modules = list(sys.path), set(sys.modules)
    with contextlib.nullcontext() if cwd is None else contextlib.chdir(cwd):
        folder = Path.cwd()
        try:
            yield
        finally:
            sys.path[:] = path
            for name in sys.modules.keys() - modules if cwd is not None else ():
                file = getattr(sys.modules[name], "__file__", None)
                if file is not None and folder in Path(file).parents:
                    del sys.modules[name]


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """The root logger as in a new process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _streams(out: _Told, err: _Told) -> Iterator[None]:
    ours = [io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in (out, err)]
    try:
        with contextlib.redirect_stdout(ours[0]), contextlib.redirect_stderr(ours[1]):
            yield
    finally:
        for each in ours:
            each.flush()
            each.detach()  # closing it would close what is read afterwards
