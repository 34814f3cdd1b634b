"""A router that hides the network behind it: agents inside dial out; outside, they are reached at a forwarded port."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pzc import Policy

from tests.contract.rigs.namespaces import Host, Lab
from tests.contract.rigs.residents import EVERYTHING, Residents, every_policy, plane_of

PORT, FORWARDED = 5555, 7000


@dataclass
class Places:
    """Two networks and the router between them."""

    inside: Host
    outside: Host
    router: Host

    @property
    def door(self) -> str:
        """Where the inside is reached from outside."""
        return f"tcp://{self.router.addresses[1]}:{FORWARDED}"


@pytest.fixture(scope="module")
def places(lab: Lab) -> Places:
    home, world = lab.segment(), lab.segment()
    router = lab.host("router", home, world)
    router.translate("eth1")
    inside, outside = lab.host("inside", home), lab.host("outside", world)
    inside.route_through(router)
    router.forward(FORWARDED, inside.address, PORT)
    return Places(inside, outside, router)


def test_a_client_behind_a_nat_uses_everything_of_a_server_outside(
    places: Places, residents: Residents
) -> None:
    _, served = residents.server(places.outside)
    assert residents.at(places.inside).ask("use_everything", served) == EVERYTHING


@every_policy
def test_a_reader_behind_a_nat_hears_a_publisher_outside(
    places: Places, residents: Residents, policy: Policy
) -> None:
    publisher, at = residents.agent(places.outside)
    reader, _ = residents.agent(places.inside)
    reader.ask("subscribe", "r", at, "frame", policy, how="hash")
    assert reader.ask("plane", "r") == plane_of(policy)
    publisher.ask("publish", "frame", [10, 100_000] * 5)
    assert reader.ask("account", "r", 10)[:2] == (10, 0)


def test_a_server_behind_a_nat_is_used_through_one_forwarded_port(
    places: Places, residents: Residents
) -> None:
    residents.server(places.inside, f"tcp://0.0.0.0:{PORT}", single_port=True)
    assert residents.at(places.outside).ask("use_everything", places.door) == EVERYTHING


@every_policy
def test_every_policy_works_through_one_forwarded_port(
    places: Places, residents: Residents, policy: Policy
) -> None:
    publisher, _ = residents.agent(places.inside, f"tcp://0.0.0.0:{PORT}", single_port=True)
    reader, _ = residents.agent(places.outside)
    reader.ask("subscribe", "r", places.door, "frame", policy, how="hash")
    assert reader.ask("plane", "r") == plane_of(policy, single_port=True)
    publisher.ask("publish", "frame", [10, 1000, 100_000] * 5)
    assert reader.ask("account", "r", 15)[:2] == (15, 0)
