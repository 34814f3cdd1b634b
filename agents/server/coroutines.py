"""Coroutines: the event loop on which a server runs its ``async def`` methods.

The thread of a call waits for its coroutine, so a lane means the same for both kinds of method.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import CallCancelled, PeerLost, Refused
from ...protocol.lazily import Lazily
from ...transport.threads import Future
from ..current import current
from .lane import NO_THREAD

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = Lazily("asyncio")

CLOSE_TIMEOUT = 2.0
"""Seconds that `Coroutines.close` waits for the last coroutine."""


class Coroutines:
    """One event loop in a thread of its own, both made by the first coroutine; safe from any thread.

    Args:
        name: of the agent, for the thread's name.
    """

    def __init__(self, name: str) -> None:
        self._name = f"pzc-async {name}".strip()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wait for the result of a coroutine; cancelling the current call cancels it.

        Raises:
            CallCancelled: when the call was cancelled.
            PeerLost: when the server is being stopped.
            Refused: when the process can have no thread or event loop for it.
        """
        done: Future[Any] = Future()
        cancel = self.begin(coroutine, done)
        if (call := current()) is not None:
            call.watch(cancel)
        try:
            return done.result()
        except CancelledError:
            if self._closed:
                raise PeerLost("the server was stopped while the coroutine ran") from None
            raise CallCancelled("the call was cancelled while it ran") from None
        finally:
            del done, cancel, call  # they hold the error, whose traceback holds this frame

    def begin(
        self, coroutine: Coroutine[Any, Any, Any], done: Future[Any] | None = None
    ) -> Callable[[], None]:
        """Start a coroutine; returns what cancels it, after which `done` still waits for its end.

        Args:
            coroutine: closed when it cannot be started.
            done: gets its result.

        Raises:
            PeerLost: when the server is being stopped.
            Refused: when the process can have no thread or event loop for it.
        """
        done = Future() if done is None else done
        tasks: list[asyncio.Task[Any]] = []

        def start() -> None:
            task = loop.create_task(_caught(coroutine))
            task.add_done_callback(partial(_pass_on, coroutine, done))
            task.add_done_callback(
                lambda _: tasks.clear()
            )  # its context holds the call, that what cancels it
            tasks.append(task)

        def stop() -> None:
            for task in tasks:
                task.cancel()

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the event loop has ended, and so has the coroutine
                loop.call_soon_threadsafe(stop)

        with self._lock:
            try:
                loop = self._loop or self._start()
            except BaseException:
                coroutine.close()
                raise
            loop.call_soon_threadsafe(start)
        return cancel

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise PeerLost("the server is being stopped")
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        try:
            loop = runner.get_loop()
        except OSError as exc:
            text = f"this agent can have no event loop to run it: {exc}; raise the limit (ulimit -n)"
            raise Refused(text) from exc
        thread = threading.Thread(target=_serve, args=(runner,), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as exc:
            runner.close()
            raise Refused(NO_THREAD) from exc
        self._loop, self._thread = loop, thread
        return loop

    def close(self) -> None:
        """Cancel what runs and end the thread, in at most `CLOSE_TIMEOUT` seconds."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if thread is not threading.current_thread():
                thread.join(CLOSE_TIMEOUT)


async def _caught(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as exc:  # SystemExit would end the event loop
        return None, exc


def _pass_on(coroutine: Coroutine[Any, Any, Any], done: Future[Any], task: asyncio.Task[Any]) -> None:
    coroutine.close()  # it may have been cancelled before it began
    if task.cancelled():
        done.cancel()
        return
    value, error = task.result()
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(value)


def _serve(runner: asyncio.Runner) -> None:
    with runner:  # its end cancels what is left
        runner.get_loop().run_forever()
