"""Processes that start in milliseconds, do word by word what a test says, and are made to be killed.

A forge is a process that has imported the package and never had a thread; it forks the workers. What a worker does is
an object with a method for each word, made in the worker by a context manager of any importable module::

    @contextmanager
    def benches(rep: str) -> Iterator[Bench]: ...

    def test_something(workers: Workers) -> None:
        hand = workers.begin(benches, "tcp://127.0.0.1:0")
        assert hand.ask("add", 2, 3) == 5
        hand.kill()

The fixtures ``forge`` (of the whole run) and ``workers`` (of a test) stand in `tests.contract.rigs.fixtures`.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from pzc.testing import Timings

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT
from tests.contract.rigs.workers import working

Make = Callable[..., AbstractContextManager[Any]]


def forge() -> None:
    """Fork a worker, or reap one, for each message on the given socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    children: set[int] = set()
    try:
        while True:
            data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
            if not data:
                return
            word, given = pickle.loads(data)
            if word == "start":
                answer = os.fork()
                if answer == 0:
                    control.close()
                    _work(Connection(descriptors[0]), *given)
                os.close(descriptors[0])
                children.add(answer)
            else:
                answer = os.waitpid(given, 0)[1]
                children.discard(given)
            control.send(pickle.dumps(answer))
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _work(
    orders: Connection, environ: dict[str, str], timings: dict[str, Any], make: Make, *given: Any
) -> NoReturn:
    try:
        for name in [name for name in os.environ if name.startswith("PZC_")]:
            del os.environ[name]
        os.environ.update(environ)
        with Timings(**timings), make(*given) as worker:
            while True:
                word, args, options = orders.recv()
                try:
                    answer = True, getattr(worker, word)(*args, **options)
                except Exception:
                    answer = False, traceback.format_exc()
                orders.send(answer)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # its test has no more to say
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


class Forge:
    """The process that forks workers: it has imported everything and never had a thread."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from tests.contract.rigs.processes import forge; forge()",
                    str(theirs.fileno()),
                ],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._control.settimeout(TIMEOUT)

    def tell(self, word: str, given: Any, *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._control, [pickle.dumps((word, given))], list(descriptors))
            return pickle.loads(self._control.recv(1 << 16))

    def close(self) -> None:
        """End it, and whatever it has forked."""
        self._control.close()
        try:
            self._process.wait(TIMEOUT)
        finally:
            self._process.kill()
            self._process.wait(TIMEOUT)


_forges: list[Forge] = []


@contextmanager
def forging() -> Iterator[Forge]:
    """A forge that `forge_of_the_run` finds."""
    made = Forge()
    _forges.append(made)
    try:
        yield made
    finally:
        _forges.remove(made)
        made.close()


def forge_of_the_run() -> Forge:
    """The one that the fixture ``forge`` has made."""
    return _forges[-1]


class Hand:
    """A worker, as its test sees it.

    Args:
        forge: forks it.
        given: to `make`.
        make: makes what does as it is told, in the worker.
        environ: the ``PZC_`` variables of the worker, besides those of this process.
        timings: of `pzc.testing.Timings`, for all that the worker does.

    Attributes:
        pid: of the process.
    """

    def __init__(
        self,
        forge: Forge,
        *given: Any,
        make: Make = working,
        environ: dict[str, str] | None = None,
        timings: dict[str, Any] | None = None,
    ) -> None:
        self._forge = forge
        settings = {name: value for name, value in os.environ.items() if name.startswith("PZC_")}
        settings.update(environ or {})
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.pid = forge.tell("start", (settings, timings or {}, make, *given), theirs.fileno())
            self._orders = Connection(os.dup(ours.fileno()))
        self._alive = True

    def start(self, word: str, *args: Any, **options: Any) -> None:
        """Tell it what to do."""
        self._orders.send((word, args, options))

    def finish(self, timeout: float = TIMEOUT) -> Any:
        """What it found."""
        assert self._orders.poll(timeout), f"worker {self.pid} gives no answer"
        good, answer = self._orders.recv()
        assert good, answer
        return answer

    def ask(self, word: str, *args: Any, **options: Any) -> Any:
        self.start(word, *args, **options)
        return self.finish()

    def freeze(self) -> None:
        """Return when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: all(map(_stands, Path(f"/proc/{self.pid}/task").iterdir())))

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Return when it has gone."""
        self._end(signal.SIGKILL)

    def interrupt(self) -> None:
        """End it as Ctrl-C does; return when it has gone."""
        self._end(signal.SIGINT)

    def stop(self) -> None:
        """Let it end as it should."""
        self._orders.close()
        self._end(0)

    def _end(self, how: int) -> None:
        if not self._alive:
            return
        self._alive = False
        watch = os.pidfd_open(self.pid)
        try:
            if how:
                os.kill(self.pid, how)
            ended = select.select([watch], [], [], TIMEOUT)[0]
            if not ended:
                os.kill(self.pid, signal.SIGKILL)
        finally:
            os.close(watch)
            self._orders.close()
            self._forge.tell("reap", self.pid)
        assert ended, f"worker {self.pid} did not end"


def _stands(task: Path) -> bool:
    try:
        told = (task / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has just ended
    return told.rpartition(")")[2].split()[0] == "T"


class Workers(ExitStack):
    """The workers of one test; all are killed at its end."""

    def __init__(self, forge: Forge) -> None:
        super().__init__()
        self._forge = forge

    def begin(
        self,
        make: Make,
        *given: Any,
        environ: dict[str, str] | None = None,
        timings: dict[str, Any] | None = None,
    ) -> Hand:
        """A process that does what `make` makes; see `Hand`."""
        hand = Hand(self._forge, *given, make=make, environ=environ, timings=timings)
        self.callback(hand.kill)
        return hand

    def start(self, *endpoints: str, timings: dict[str, Any] | None = None) -> Hand:
        """A process with one agent, that publishes and reads: a `tests.contract.rigs.workers.Worker`."""
        return self.begin(working, *endpoints, timings=timings)

    def publisher(self, *endpoints: str, timings: dict[str, Any] | None = None) -> tuple[Hand, str]:
        """Such a process, and where it can be reached."""
        hand = self.start(*endpoints, timings=timings)
        return hand, hand.ask("endpoints")[0]
