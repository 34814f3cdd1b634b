from __future__ import annotations

import inspect
import pydoc
import rlcompleter
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pzc import Member, Proxy, RemoteReference, Server, close

from tests.contract.rigs.calling import TIMEOUT, Instrument, proxied, served


class Supply:
    """A power supply."""

    def ramp(self, volts: float, *, steps: int = 10) -> list[float]:
        """Ramp to a voltage.

        Takes a second per step.
        """
        return [volts] * steps

    def bare(self, a, b=(1, 2)) -> None:
        pass


class Swapped:
    """What is a method of `Supply` is something else here."""

    ramp = 7

    def volts(self) -> float:
        return 3.3


def test_the_signature_of_a_remote_method_is_the_real_one() -> None:
    with served(Supply()) as (_, psu):
        signature = inspect.signature(psu.ramp)
        assert list(signature.parameters) == ["volts", "steps"]
        assert signature.parameters["steps"].default == 10
        assert signature.parameters["steps"].kind is inspect.Parameter.KEYWORD_ONLY
        assert inspect.signature(psu.bare).parameters["b"].default == (1, 2)


def test_help_shows_signature_and_documentation_of_the_remote_method() -> None:
    with served(Supply()) as (_, psu):
        shown = pydoc.plain(pydoc.render_doc(psu.ramp))
        assert "ramp(volts: float, *, steps: int = 10) -> list[float]" in shown
        assert "Takes a second per step." in shown
        assert "bare(a, b=(1, 2))" in pydoc.plain(pydoc.render_doc(psu.bare))


def test_a_remote_method_says_what_it_is() -> None:
    with served(Supply()) as (_, psu):
        assert (psu.ramp.__name__, psu.ramp.__qualname__) == ("ramp", "Supply.ramp")
        assert psu.ramp.__doc__.startswith("Ramp to a voltage.")


@pytest.mark.parametrize("cls", [Member, Proxy, RemoteReference])
def test_the_classes_of_what_is_remote_can_be_inspected_as_any_other(cls: type) -> None:
    assert inspect.signature(cls).parameters
    text = pydoc.plain(pydoc.render_doc(cls))
    assert "__getitem__(self, key: 'Any')" in text
    assert ("oneway(self, *args: 'Any'" in text) == (cls is Member)


def test_an_attribute_offers_what_its_kind_can_do() -> None:
    with served(Instrument()) as (_, psu):
        assert {"future", "oneway", "options"} <= set(dir(psu.ramp))
        assert "connect" not in dir(psu.ramp)
        assert {"connect", "disconnect", "emit"} <= set(dir(psu.voltage_changed))
        assert "oneway" not in dir(psu.voltage_changed)
        assert {"keys", "get", "copy"} <= set(dir(psu.calibration))


def test_a_tab_completes_remote_members() -> None:
    with served(Instrument()) as (_, psu):
        completer = rlcompleter.Completer({"psu": psu})
        assert completer.complete("psu.ram", 0) == "psu.ramp("
        assert completer.complete("psu.ramp.onew", 0) == "psu.ramp.oneway("


def test_a_method_is_looked_up_once_and_a_property_every_time() -> None:
    with served(Instrument()) as (server, psu):
        assert psu.ramp is psu.ramp
        assert psu.voltage == 0.0
        server.served_object.voltage = 1.5  # pyright: ignore[reportAttributeAccessIssue]
        assert psu.voltage == 1.5


def test_a_server_that_was_restarted_with_another_object_is_seen_as_that() -> None:
    server = Server(Supply())
    endpoint = server.rep_endpoint
    with proxied(endpoint, timeout=TIMEOUT) as psu:
        assert psu.ramp(1.0, steps=1) == [1.0]
        server.stop()
        with Server(Swapped(), endpoint):
            with pytest.raises((AttributeError, TypeError)):
                psu.ramp(1.0)
            assert psu.ramp == 7
            assert psu.volts() == 3.3
            assert dir(psu) == ["ramp", "volts"]


def test_a_restart_that_only_futures_see_is_seen() -> None:
    server = Server(Swapped())
    endpoint = server.rep_endpoint
    with proxied(endpoint, timeout=TIMEOUT) as psu:
        volts = psu.volts
        server.stop()
        with Server(Swapped(), endpoint):
            assert volts.future().result(TIMEOUT) == 3.3
            assert psu.volts is not volts


def test_a_proxy_is_used_by_many_threads_while_its_server_is_replaced() -> None:
    servers = [Server(Instrument())]
    endpoint = servers[0].rep_endpoint
    with proxied(endpoint, timeout=2.0) as psu, ThreadPoolExecutor(4) as pool:
        over = threading.Event()

        def run(_: int) -> set[Any]:
            seen: set[Any] = set()
            while not over.is_set():
                try:
                    seen.add(psu.ramp(2))
                except (ConnectionError, TimeoutError):
                    continue
            return seen

        running = [pool.submit(run, number) for number in range(4)]
        for _ in range(3):
            servers[-1].stop()
            servers.append(Server(Instrument(), endpoint))
            assert psu.ramp(2) == 4
        over.set()
        assert set().union(*(future.result(TIMEOUT) for future in running)) == {4}
        servers[-1].stop()


def test_a_method_of_a_closed_proxy_refuses_every_kind_of_call() -> None:
    with served(Instrument()) as (server, _):
        psu = Proxy(server.rep_endpoint)
        ramp = psu.ramp
        close(psu)
        for call in (ramp, ramp.future, ramp.oneway, ramp.options(timeout=1.0)):
            with pytest.raises(RuntimeError, match="was closed"):
                call(2)


class Named:
    """Takes any name."""

    def note(self, /, **named: int) -> dict[str, int]:
        return named


def test_no_name_of_an_argument_is_taken() -> None:
    names = {"self": 1, "args": 2, "kwargs": 3, "name": 4, "method": 5, "timeout": 6, "row": 7}
    with served(Named()) as (_, proxy):
        note = proxy.note
        assert [note(**names), note.future(**names).result(TIMEOUT)] == [names, names]
        note.oneway(**names)
