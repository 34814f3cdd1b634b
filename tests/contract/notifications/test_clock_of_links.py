"""A machine whose clock is set while somebody reads: only a new handshake asks what time it is."""

from __future__ import annotations

import pytest

from pzc import Agent

from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.pairs import LONG, OUTSIDE, read, wait_until
from tests.contract.rigs.processes import Workers

HOUR = 3600.0
LARGE = 200_000

over_a_wire = pytest.mark.parametrize("way", OUTSIDE)
every_step = pytest.mark.parametrize("step", [HOUR, -HOUR])


def expected(first: int, last: int) -> list[tuple[int, str]]:
    return [(number, digest(payload(number, LARGE))) for number in range(first, last + 1)]


@pytest.mark.parametrize("who", ["publisher", "reader"])
@over_a_wire
@every_step
def test_a_link_goes_on_when_a_clock_is_set(workers: Workers, way: str, who: str, step: float) -> None:
    reader = workers.start()
    publisher, endpoint = workers.publisher()
    reader.ask("subscribe", "t", endpoint, "t", LONG, way, "hash")
    publisher.ask("publish", "t", [LARGE] * 10)
    reader.ask("account", "t", 10)
    (before,) = publisher.ask("statistics")["links"]
    (publisher if who == "publisher" else reader).ask("step_clock", step)
    publisher.ask("publish", "t", [LARGE] * 40, 11)
    assert reader.ask("account", "t", 50) == (50, 0, expected(1, 50))
    (after,) = publisher.ask("statistics")["links"]
    assert (after["link"], after["state"]) == (before["link"], "alive")
    assert reader.ask("wait_for", "t", "gaps", 0) == []
    assert reader.ask("wait_for", "t", "lost", 0) == []


@over_a_wire
@every_step
def test_a_link_is_opened_after_a_clock_was_set(workers: Workers, way: str, step: float) -> None:
    reader = workers.start()
    publisher, endpoint = workers.publisher()
    reader.ask("subscribe", "before", endpoint, "before", LONG, way)
    publisher.ask("step_clock", step)
    reader.ask("close", "before")
    reader.ask("subscribe", "t", endpoint, "t", LONG, way, "hash")
    publisher.ask("publish", "t", [LARGE] * 10)
    assert reader.ask("account", "t", 10) == (10, 0, expected(1, 10))


@pytest.mark.usefixtures("broadcast")
@every_step
def test_a_publisher_whose_clock_was_set_is_measured_again_and_is_heard_on(
    workers: Workers, reader: Agent, step: float
) -> None:
    publisher, endpoint = workers.publisher()
    subscription = reader.subscribe(endpoint, "t")
    publisher.ask("step_clock", step)
    publisher.ask("publish", "t", [0])
    wait_until(lambda: reader.counters["clock_jumps"] == 1)
    number = 1

    def heard() -> bool:
        nonlocal number
        number += 1
        publisher.ask("publish", "t", [0], number)
        return subscription.pending > 0

    wait_until(heard)
    assert len(read(subscription, 1)) == 1
    wait_until(lambda: subscription.received + subscription.pending + subscription.dropped == number)
