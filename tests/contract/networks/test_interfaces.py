"""A host with two interfaces, and agents that have addresses which not everybody can use."""

from __future__ import annotations

import pytest

from pzc import drop

from tests.contract.rigs.namespaces import Host, Lab
from tests.contract.rigs.residents import EVERYTHING, Residents

Hosts = tuple[Host, Host, Host]


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Hosts:
    """One in a left network, one in both, one in the right network."""
    left, right = lab.segment(), lab.segment()
    return lab.host("left", left), lab.host("both", left, right), lab.host("right", right)


def at(address: str, endpoint: str) -> str:
    return f"tcp://{address}:{endpoint.rpartition(':')[2]}"


@pytest.mark.parametrize("form", ["tcp://0.0.0.0:0", "tcp://[::]:0"])
def test_an_agent_on_two_networks_is_used_from_both(hosts: Hosts, residents: Residents, form: str) -> None:
    left, both, right = hosts
    _, served = residents.server(both, form)
    for number, host in enumerate((left, right)):
        assert residents.at(host).ask("use_everything", at(both.addresses[number], served)) == EVERYTHING


def test_an_agent_on_two_networks_is_heard_in_both(hosts: Hosts, residents: Residents) -> None:
    left, both, right = hosts
    publisher, served = residents.agent(both, "tcp://0.0.0.0:0")
    readers = [residents.agent(host)[0] for host in (left, right)]
    for number, reader in enumerate(readers):
        reader.ask("subscribe", "r", at(both.addresses[number], served), "frame", drop(), how="hash")
    publisher.ask("publish", "frame", [100] * 10)
    for reader in readers:
        assert reader.ask("account", "r", 10)[:2] == (10, 0)


@pytest.mark.parametrize("group", ["239.255.80.90", "off"], ids=["multicast too", "registry only"])
def test_a_registry_is_told_of_an_interface_that_comes_later(residents: Residents, group: str) -> None:
    with Lab() as lab, residents:
        first, second = lab.segment(), lab.segment()
        there, here, both = (
            lab.host("there", first),
            lab.host("here", second),
            lab.host("both", first, second),
        )
        port = residents.registry(both, 10318).rpartition(":")[2]
        registries = [f"tcp://{address}:{port}" for address in both.addresses]
        server = residents.at(there, PZC_REGISTRY=registries[0], PZC_DISCOVERY_IP=group)
        server.ask("serve", "tcp://0.0.0.0:0", name="psu")
        client = residents.at(here, PZC_REGISTRY=registries[1], PZC_DISCOVERY_IP="off")
        assert client.ask("find", "psu") == ["/psu"]
        there.connect(second)
        client.ask("know_address", "psu", there.addresses[1])
        assert client.ask("call", "psu", "add", 1, 2) == 3
