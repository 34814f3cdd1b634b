"""What a notebook shows of agents, proxies, references and tables."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Proxy, Server, close

formatters = pytest.importorskip("IPython.core.formatters")


def page_of(thing: object) -> Any:
    """What a notebook asks of it."""
    return formatters.HTMLFormatter()(thing)


class Channel:
    """One output."""

    def __init__(self) -> None:
        self.names = ["<b>one</b>"]

    def off(self) -> None:
        """Zero volts <at once>.

        Whatever runs.
        """


class Rack:
    """Two channels."""

    def __init__(self) -> None:
        self.ch1 = Channel()
        self.limit = 3.0


@pytest.fixture
def rack() -> Iterator[Any]:
    with Server(Rack(), name="rack") as server:
        proxy = Proxy(server.rep_endpoint)
        yield proxy
        close(proxy)


def test_a_proxy_is_shown_with_its_members(rack: Any) -> None:
    page = page_of(rack)
    assert html.escape(repr(rack)) in page
    for member in ("ch1", "limit"):
        assert f"<td>{member}</td>" in page


def test_a_reference_is_shown_with_the_first_line_of_each_documentation(rack: Any) -> None:
    page = page_of(rack.ch1)
    assert "<td>off() -&gt; None</td>" in page
    assert "Zero volts &lt;at once&gt;." in page
    assert "Whatever" not in page


def test_a_proxy_whose_server_does_not_answer_is_shown_as_text() -> None:
    with Server(Rack(), discovery=False) as server:
        proxy = Proxy(server.rep_endpoint, timeout=0.5)
        reference = proxy.ch1
    assert page_of(reference) is None
    close(proxy)


def test_an_agent_is_shown_with_what_it_publishes_and_reads() -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        with reader.subscribe(publisher.rep_endpoint, "<topic>") as subscription:
            publisher.publish("<topic>", 1)
            assert subscription.recv(timeout=10).content == 1
            told, read = page_of(publisher), page_of(reader)
    assert "<td>&lt;topic&gt;</td><td>1</td><td>1</td>" in told
    assert "<td>&lt;topic&gt;</td><td>1</td><td>0</td>" in read


def test_a_long_table_is_shown_in_part() -> None:
    with Agent(discovery=False) as agent:
        for number in range(201):
            agent.publish(f"topic{number:03}", number)
        page = page_of(agent)
    assert "and 1 more" in page
    assert "topic200" not in page
