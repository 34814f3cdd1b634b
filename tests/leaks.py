"""A watch for leaks.

After each test, threads, file descriptors and child processes must be back to what they were before it;
the same holds for each module, so that its fixtures are watched as well. For process-wide machinery such as
Spark's JVM, ``@pytest.mark.allow_leaks("reason")`` exempts a test, and ``pytestmark`` a module.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.children import Child, children

DEVICES = {"/dev/null", "/dev/random", "/dev/urandom"}
DESCRIPTORS = "/proc/self/fd"


@pytest.fixture(scope="module", autouse=True)
def _module_leaks(request: pytest.FixtureRequest, _process_wide_machinery: None) -> Iterator[Counter[object]]:
    before = _census()
    yield before
    _report(request.node, _leaked(request, before))


@pytest.fixture(autouse=True)
def _leaks(request: pytest.FixtureRequest, _module_leaks: Counter[object]) -> Iterator[None]:
    before = _census()
    yield
    left = _leaked(request, before)
    _module_leaks.update(left)  # told once, not again at the end of the module
    _report(request.node, left)


def _census() -> Counter[object]:
    found: Counter[object] = Counter(threading.enumerate())
    found.update(children())
    found.update(_descriptors())
    return found


def _descriptors() -> Iterator[str]:
    """Targets such as ``socket:[4711]`` or ``anon_inode:[eventfd]``; only Linux tells them."""
    for number in os.listdir(DESCRIPTORS) if os.path.isdir(DESCRIPTORS) else ():
        with contextlib.suppress(FileNotFoundError):  # the one that listed the directory
            target = os.readlink(f"{DESCRIPTORS}/{number}")
            if target not in DEVICES:
                yield target


def _leaked(request: pytest.FixtureRequest, before: Counter[object]) -> Counter[object]:
    allowed = request.node.get_closest_marker("allow_leaks") is not None
    deadline = time.monotonic() + (0 if allowed else float(request.config.getini("leak_wait")))
    pause = threading.Event()
    while (left := _census() - before) and time.monotonic() < deadline:
        gc.collect()
        pause.wait(0.02)
    return left


def _report(node: pytest.Item | pytest.Collector, left: Counter[object]) -> None:
    marker = node.get_closest_marker("allow_leaks")
    if marker is not None:
        if not (marker.args and isinstance(marker.args[0], str) and marker.args[0].strip()):
            pytest.fail(
                "allow_leaks needs a reason: @pytest.mark.allow_leaks('Spark keeps its JVM')", pytrace=False
            )
    elif left:
        lines = "\n".join(f"  {count} x {_describe(thing)}" for thing, count in left.items())
        pytest.fail(f"{node.nodeid} left behind:\n{lines}", pytrace=False)


def _describe(thing: object) -> str:
    if isinstance(thing, threading.Thread):
        frame = sys._current_frames().get(thread) if (thread := thing.ident) else None
        stack = "".join(traceback.format_stack(frame)) if frame else "    (it has just ended)"
        return f"thread {thing.name!r}{' (daemon)' if thing.daemon else ''} at\n{stack.rstrip()}"
    if isinstance(thing, Child):
        return f"child process {thing.pid} {thing.describe()}"
    return f"file descriptor of {thing}"
