"""Calls and notifications between two hosts, signed, at every kind of address."""

from __future__ import annotations

import pytest

from pzc import Policy, drop

from tests.contract.rigs.namespaces import Host, Lab
from tests.contract.rigs.residents import EVERYTHING, Residents, every_policy, plane_of

Pair = tuple[Host, Host]


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Pair:
    segment = lab.segment()
    return lab.host("lab-a", segment), lab.host("lab-b", segment)


def bound(form: str, host: Host) -> tuple[str, str]:
    """An endpoint to bind, and the host part by which others reach it."""
    four, six = host.address, f"[{host.address6}]"
    return form.format(four=four, six=six), six if "[" in form or "six" in form else four


FORMS = ["tcp://{four}:0", "tcp://0.0.0.0:0", "tcp://*:0", "tcp://[::]:0", "tcp://{six}:0"]


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_call_works_at_every_kind_of_address(
    pair: Pair, residents: Residents, form: str
) -> None:
    here, there = pair
    endpoint, host = bound(form, there)
    _, served = residents.server(there, endpoint)
    reached = f"tcp://{host}:{served.rpartition(':')[2]}"
    assert residents.at(here).ask("use_everything", reached) == EVERYTHING


def test_an_agent_at_every_ipv6_address_is_reached_over_ipv4_as_well(
    pair: Pair, residents: Residents
) -> None:
    here, there = pair
    _, served = residents.server(there, "tcp://[::]:0")
    port = served.rpartition(":")[2]
    assert residents.at(here).ask("use_everything", f"tcp://{there.address}:{port}") == EVERYTHING


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_a_publisher_that_was_restarted_is_heard_again(pair: Pair, residents: Residents, family: str) -> None:
    here, there = pair
    host = there.address if family == "IPv4" else f"[{there.address6}]"
    places = f"tcp://{host}:5998", f"tcp://{host}:5999"
    before, at = residents.agent(there, *places)
    reader, _ = residents.agent(here)
    reader.ask("subscribe", "r", at, "frame", drop(), how="hash")
    before.ask("publish", "frame", [10])
    reader.ask("wait_for", "r", "found", 1)
    before.kill()
    after, _ = residents.agent(there, *places)
    assert after.ask("wait_for_subscribers", "frame", 1)
    assert (0, True) in reader.ask("wait_for", "r", "gaps")
    after.ask("publish", "frame", [10] * 3)
    assert reader.ask("account", "r", 4)[:2] == (4, 0)


@pytest.mark.parametrize("form", FORMS)
@every_policy
def test_every_policy_gets_everything_at_every_kind_of_address(
    pair: Pair, residents: Residents, form: str, policy: Policy
) -> None:
    here, there = pair
    endpoint, host = bound(form, there)
    publisher, at = residents.agent(there, endpoint)
    reader, _ = residents.agent(here)
    reached = f"tcp://{host}:{at.rpartition(':')[2]}"
    reader.ask("subscribe", "r", reached, "frame", policy, how="hash")
    assert reader.ask("plane", "r") == plane_of(policy)
    publisher.ask("publish", "frame", [10, 1000, 300_000] * 5)
    received, dropped, found = reader.ask("account", "r", 15)
    assert (received, dropped) == (15, 0)
    assert [number for number, _ in found] == list(range(1, 16))
