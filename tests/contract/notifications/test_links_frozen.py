"""Links whose one end stands still for a moment that is too short to be taken for its death; or long enough, for whoever did not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc.testing import Timings

from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.pairs import LONG, OUTSIDE, Publishing, pair, wait_until
from tests.contract.rigs.processes import Workers

over_a_wire = pytest.mark.parametrize("way", OUTSIDE)

LARGE = 200_000


PATIENT = {"silence": 3600.0, "link_look": 0.02}
"""What is stalled is known soon, and comes back before it is lost, however slow this machine is."""


@pytest.fixture(autouse=True)
def _patient() -> Iterator[None]:
    with Timings(**PATIENT):
        yield


def expected(count: int) -> list[tuple[int, str]]:
    return [(number, digest(payload(number, LARGE))) for number in range(1, count + 1)]


@over_a_wire
def test_a_reader_that_stalled_and_comes_back_has_the_same_link_and_lost_nothing(
    workers: Workers, way: str
) -> None:
    reader = workers.start(timings=PATIENT)
    with pair() as (publisher, _):

        def links() -> list[dict[str, Any]]:
            return publisher.statistics()["links"]["links"]

        publisher.advertise("t", buffers=4)
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way, "hash")
        (before,) = links()
        reader.freeze()
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, 51)))
        wait_until(lambda: links()[0]["state"] == "stalled")
        assert publishing.returned <= 4
        reader.thaw()
        publishing.finish()
        assert reader.ask("account", "t", 50) == (50, 0, expected(50))
        (after,) = links()
        assert (after["link"], after["state"], after["transport"]) == (before["link"], "alive", way)
        assert reader.ask("wait_for", "t", "lost", 0) == []


@over_a_wire
def test_a_publisher_that_stalled_and_comes_back_has_the_same_link_and_lost_nothing(
    workers: Workers, way: str
) -> None:
    reader = workers.start(timings=PATIENT)
    publisher, endpoint = workers.publisher(timings=PATIENT)
    reader.ask("subscribe", "t", endpoint, "t", LONG, way, "hash")
    publisher.ask("publish", "t", [LARGE] * 10)
    (before,) = publisher.ask("statistics")["links"]
    publisher.freeze()
    wait_until(lambda: reader.ask("link_of", "t")["state"] == "stalled")
    publisher.thaw()
    publisher.ask("publish", "t", [LARGE] * 10, 11)
    assert reader.ask("account", "t", 20) == (20, 0, expected(20))
    wait_until(lambda: reader.ask("link_of", "t")["state"] == "alive")
    assert reader.ask("wait_for", "t", "lost", 0) == []
    (after,) = publisher.ask("statistics")["links"]
    assert (after["link"], after["transport"]) == (before["link"], way)
    assert publisher.ask("statistics")["counts"]["links_opened"] == 1


SHORT = {"silence": 1.0, "link_look": 0.05}


@over_a_wire
def test_a_publisher_that_stood_still_for_long_takes_no_reader_for_dead(workers: Workers, way: str) -> None:
    with Timings(**SHORT):
        reader = workers.start(timings=SHORT)
        publisher, endpoint = workers.publisher(timings=SHORT)
        reader.ask("subscribe", "t", endpoint, "t", LONG, way, "hash")
        publisher.ask("publish", "t", [LARGE] * 10)
        publisher.freeze()
        reader.ask("wait_for", "t", "lost", 1)
        publisher.thaw()
        publisher.ask("publish", "t", [LARGE] * 10, 11)
        assert reader.ask("account", "t", 20) == (20, 0, expected(20))
        assert publisher.ask("statistics")["counts"].get("links_suspended", 0) == 0
