"""Serving in a process of its own, which dies with its parent, and is not interrupted with it.

The child is started by multiprocessing's ``spawn``, which also knows how to import a class from
the parent's ``__main__``. It tells the parent its endpoint, or what went wrong, through a pipe. A
thread of the parent waits for its end, so that a server that was stopped leaves no zombie behind.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from ...protocol.contents import portable, ps_message, raised, read_ps_message, read_raised
from ...protocol.errors import LocalLimit, PeerLost, SerializeError
from ...transport.tables import Table
from ...transport.threads import begin

_PROCESS_START = 30.0
"""Seconds that a server process may take until it serves."""


PARENT_CHECK = 1.0
"""Seconds between two looks at the parent, for the case that a fork of it holds the pipe open."""


class _Child:
    """A started process and the thread that waits for its end."""

    def __init__(self, process: SpawnProcess) -> None:
        self.exit_code: int | None = None
        self._ended = False
        self._process = process
        self._lock = threading.Lock()
        self._reaper = threading.Thread(target=self._reap, name=process.name, daemon=True)
        _children.started.add(self)
        try:
            begin(self._reaper)
        except LocalLimit:
            _children.started.discard(self)
            process.kill()
            process.join()
            raise

    def _reap(self) -> None:
        wait([self._process.sentinel])
        with self._lock:
            self._process.join()
            self.exit_code = self._process.exitcode
            self._ended = True  # its number may belong to another process from now on
            with suppress(ValueError):  # when somebody else has waited for it, as os.wait does
                self._process.close()
        _children.started.discard(self)

    def join(self, timeout: float) -> None:
        """Wait for its end, at most ``timeout`` seconds."""
        self._reaper.join(timeout)

    def end(self) -> None:
        """Terminate the process, kill it after 2 s."""
        for end in (self._process.terminate, self._process.kill):
            with self._lock:
                if not self._ended:
                    end()
            self.join(2.0)


class _Children(Table):
    """Processes that this one has started."""

    def begin(self) -> None:
        super().begin()
        self.started: set[_Child] = set()


_children = _Children()


def start(make: Callable[[], Any], served_cls: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Serve an object in a new process; returns its REP endpoint.

    Args:
        make: makes the server there, which serves nothing yet; something that can be pickled.
        served_cls: of the object.
        args: of the object.
        kwargs: of the object.

    Raises:
        Exception: whatever the child raised before it served.
        SerializeError: when the class or an argument cannot be sent to the child.
        PeerLost: when the child died or took longer than `process_start`.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with ours:
        with theirs:
            name = f"pzc-{getattr(served_cls, '__name__', 'object')}"
            process = context.Process(target=_serve, args=(theirs, make, served_cls, args, kwargs), name=name)
            try:
                process.start()
            except (AttributeError, TypeError, pickle.PicklingError) as exc:
                raise SerializeError(f"{served_cls!r} or its arguments cannot be sent: {exc}") from exc
        child = _Child(process)
        try:
            return _read_outcome(ours, child)
        except BaseException:
            child.end()
            raise


def _read_outcome(pipe: Any, child: _Child) -> str:
    if not pipe.poll(_PROCESS_START):
        raise PeerLost(f"the server process did not start within {_PROCESS_START:g} s")
    try:
        message = read_ps_message(pipe.recv())
    except (EOFError, OSError) as exc:
        child.join(2.0)
        raise PeerLost(
            f"the server process ended before it served (exit code {child.exit_code}); its output says why. "
            "It imports the class from its module; a script asks for it below if __name__ == '__main__'"
        ) from exc
    if message is not None and message[0] == "return":
        return message[1]
    raise read_raised(message and message[1], "server process", hide_traceback=False)


def _serve(
    pipe: Connection,
    make: Callable[[], Any],
    served_cls: object,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    _leave_terminal()
    threading.Thread(target=_die_with_parent, name="pzc-parent", daemon=True).start()
    with pipe:
        try:
            server = make()
            server.serve_object(served_cls, args, kwargs)
        except Exception as exc:
            pipe.send(portable(raised(exc)))
            return
        pipe.send(ps_message("return", server.rep_endpoint))
    server.serve_forever()


def _leave_terminal() -> None:
    """Leave the terminal of the parent, whose Ctrl-C is meant for the parent alone."""
    if hasattr(os, "setsid"):
        os.setsid()
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    while parent.is_alive() and os.getppid() == parent.pid:
        parent.join(PARENT_CHECK)
    os._exit(1)


@atexit.register
def _end_all() -> None:
    for child in list(_children.started):
        child.end()
