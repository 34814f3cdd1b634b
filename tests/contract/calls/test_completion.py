"""Completion and documentation ask the description of an instrument: they read no property and wait for no call."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import rlcompleter
import threading
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

import pytest

from pzc import Proxy, Server, aio

from tests.contract.rigs.calling import TIMEOUT, in_thread


class Channel:
    def __init__(self) -> None:
        self.reads = 0

    @property
    def voltage(self) -> float:
        """Output in volts."""
        self.reads += 1
        return 1.5

    @property
    def current(self) -> Any:
        self.reads += 1
        return 1.5


class Meter(Channel):
    """A meter with a channel."""

    def __init__(self) -> None:
        super().__init__()
        self.ch1 = Channel()
        self.entered, self.opened = threading.Event(), threading.Event()

    def ramp(self, target: float) -> float:
        """Go there when the test lets it."""
        self.entered.set()
        assert self.opened.wait(TIMEOUT)
        return target


@pytest.fixture
def meter() -> Iterator[tuple[Meter, Any, str]]:
    served = Meter()
    with (
        Server(served, expose=["voltage", "current", "ch1", "ramp"]) as server,
        Proxy(server.rep_endpoint, timeout=TIMEOUT) as proxy,
    ):
        yield served, proxy, server.rep_endpoint


def by_jedi(text: str, meter: Any) -> list[str]:
    jedi = pytest.importorskip("jedi")
    found = jedi.Interpreter(text, [{"meter": meter}]).complete()
    assert all(each.type for each in found)
    return [each.name for each in found]


def by_ipython(text: str, meter: Any) -> list[str]:
    module = pytest.importorskip("IPython.core.completer")
    completer = module.IPCompleter(namespace={"meter": meter}, use_jedi=True)
    with module.provisionalcompleter():
        return [each.text for each in completer.completions(text, len(text))]


def by_python(text: str, meter: Any) -> list[str]:
    return [
        each.rpartition(".")[2].rstrip("(")
        for each in rlcompleter.Completer({"meter": meter}).attr_matches(text)
    ]


@pytest.mark.parametrize("complete", [by_jedi, by_ipython, by_python])
def test_completion_offers_the_members_and_reads_none(
    meter: tuple[Meter, Any, str], complete: Callable[[str, Any], list[str]]
) -> None:
    served, proxy, _ = meter
    assert {"voltage", "current", "ch1"} <= set(complete("meter.", proxy))
    assert "voltage" in complete("meter.vol", proxy)
    assert "voltage" in complete("meter.ch1.vol", proxy)
    complete("meter.voltage.", proxy)
    complete("meter.current.", proxy)
    assert (served.reads, served.ch1.reads) == (0, 0)


LOOKS: dict[str, Callable[[Any], object]] = {
    "dir": dir, "repr": repr, "help": lambda thing: pydoc.render_doc(thing), "getmembers": inspect.getmembers,
    "getdoc": inspect.getdoc, "html": methodcaller("_repr_html_"), "hasattr": lambda thing: hasattr(thing, "_ipython_display_"),
    "unwrap": inspect.unwrap,
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_something_remote_reads_nothing(meter: tuple[Meter, Any, str], look: str) -> None:
    served, proxy, _ = meter
    for thing in (proxy, proxy.ch1, proxy.ramp):
        LOOKS[look](thing)
    assert (served.reads, served.ch1.reads) == (0, 0)


def test_a_look_waits_for_no_call(meter: tuple[Meter, Any, str]) -> None:
    served, proxy, _ = meter
    thread, outcome = in_thread(lambda: proxy.ramp(2.0))
    assert served.entered.wait(TIMEOUT)
    assert "voltage" in dir(proxy.ch1)
    assert "voltage" in by_python("meter.vol", proxy)
    assert outcome == []
    served.opened.set()
    thread.join(TIMEOUT)
    assert outcome == [2.0]


@pytest.mark.parametrize("complete", [by_jedi, by_ipython, by_python])
def test_completion_of_an_awaited_proxy_reads_nothing(
    meter: tuple[Meter, Any, str], complete: Callable[[str, Any], list[str]]
) -> None:
    served, _, endpoint = meter

    async def main() -> None:
        async with aio.Proxy(endpoint, timeout=TIMEOUT) as awaited:
            await awaited
            complete("meter.", awaited)
            complete("meter.voltage.", awaited)

    asyncio.run(main())
    assert (served.reads, served.ch1.reads) == (0, 0)
