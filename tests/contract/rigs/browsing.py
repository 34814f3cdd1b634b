"""A browser that is installed already, and the page of a monitor in it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from playwright.sync_api import Page, ViewportSize

from pzc import Agent, Protocol

from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.programs import PATIENCE, Program

REQUIRED = os.environ.get("BROWSER_TESTS") == "required"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""

WATCHED = '''
"""Instruments for a page."""

import threading
import time

import numpy

from pzc import Signal, cancelled, urgent


class Supply:
    """A supply. <img src=x onerror="document.title='broken in'">"""

    def __init__(self):
        self._voltage, self._on = 0.0, True
        self.label = "<script>document.title='broken in'</script>"
        self.changed = Signal("value")

    @property
    def voltage(self) -> float:
        """Programmed voltage in volts, 0..30."""
        return self._voltage

    @voltage.setter
    def voltage(self, value: float):
        self._voltage = float(value)
        self.changed.emit(self._voltage)

    @property
    def on(self) -> bool:
        """Whether the output is on."""
        return self._on

    @urgent
    def off(self):
        """Switch the output off at once."""
        self._on = False

    def wait(self, seconds: float = 1.0):
        """Wait."""
        end, never = time.monotonic() + seconds, threading.Event()
        while time.monotonic() < end and not cancelled():
            never.wait(0.01)
        return "waited"


class Busy:
    """Publishes 10 000 values a second, and frames."""

    def __init__(self):
        self.value, self.frame = Signal("value"), Signal("frame")
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        number, due, never = 0, time.monotonic(), threading.Event()
        while not never.wait(max(0.0, due - time.monotonic())):
            for _ in range(100):
                number += 1
                self.value.emit(number % 1000 / 10)
            if number % 1000 == 0:
                self.frame.emit(numpy.outer(numpy.arange(50.0), numpy.arange(80.0)) + number)
            due = max(due + 0.01, time.monotonic() - 0.1)
'''


DELAY = """() => new Promise((done) => {
    const began = performance.now();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
})"""


def serve(console: Console, kind: str, name: str, *arguments: str) -> tuple[Program, str]:
    """A server of the module ``watched``, and its endpoint."""
    program = console.start("serve", f"watched:{kind}", "--name", name, *arguments)
    line = program.line()
    found = re.search(r" at ((?:tcp|ipc)://[^ ,]+), publishes at ", line)
    assert found, line or program.finish().err
    return program, found[1]


def until(expected: Callable[[], Any], page: Page | None = None, timeout: float = PATIENCE) -> Any:
    """What is true at last; the page goes on meanwhile."""
    deadline = time.monotonic() + timeout
    while not (found := expected()):
        assert time.monotonic() < deadline, expected
        if page is not None:
            page.evaluate("() => new Promise((done) => setTimeout(done, 50))")
    return found


class Crowd:
    """Agents of one process.

    Args:
        agents: by name.
    """

    def __init__(self, agents: dict[str, Agent]) -> None:
        self._agents = agents

    def endpoints(self) -> dict[str, str]:
        """Where each is."""
        return {name: agent.rep_endpoint for name, agent in self._agents.items()}


@contextmanager
def crowd(name: str, count: int) -> Iterator[Crowd]:
    """So many agents, whose names begin with this one."""
    with ExitStack() as stack:
        names = [f"{name}-{number:02}" for number in range(count)]
        made = {name: stack.enter_context(Agent(name=name, protocol=Protocol(KEY))) for name in names}
        yield Crowd(made)


def median_delay(page: Page) -> float:
    """Milliseconds that the page takes for its next frame, in the middle of forty over ten seconds."""
    delays = [
        page.evaluate(f"() => new Promise((done) => setTimeout(done, 250)).then({DELAY})") for _ in range(40)
    ]
    return sorted(delays)[len(delays) // 2]


def row(page: Page, name: str) -> Any:
    """An agent's row in the table."""
    return page.locator(f'#agents tr[data-agent="{name}"]')


def panel(page: Page, name: str) -> Any:
    """An agent's panel, opened when it is not."""
    found = page.locator(f'section[data-panel="{name}"]')
    if not found.count():
        row(page, name).get_by_role("button").click()
        found.locator(".control").first.wait_for()
    return found


def size(width: int, height: int) -> ViewportSize:
    """Of the window."""
    return {"width": width, "height": height}
