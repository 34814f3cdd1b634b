"""Agents on different hosts that know each other by name only, signed: by multicast, a relay or a registry."""

from __future__ import annotations

import pytest

from pzc import Policy

from tests.contract.rigs.namespaces import Host, Lab
from tests.contract.rigs.processes import Hand
from tests.contract.rigs.residents import EVERYTHING, Residents, every_policy

Hosts = tuple[Host, Host, Host]

UDP_PORT, REGISTRY_PORT = 10317, 10318

HEARTBEAT = "@th,96,8 4"
"""What heartbeats have behind the header of UDP, which would tell as well who is there."""


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Hosts:
    segment = lab.segment()
    return lab.host("one", segment), lab.host("two", segment), lab.host("three", segment)


def serving(
    residents: Residents, host: Host, rep: str = "tcp://0.0.0.0:0", name: str = "psu", **environ: str
) -> Hand:
    hand = residents.at(host, **environ)
    hand.ask("serve", rep, name=name)
    return hand


@pytest.mark.parametrize("form", ["tcp://0.0.0.0:0", "tcp://[::]:0", "tcp://{four}:0", "tcp://[{six}]:0"])
def test_an_agent_of_another_host_is_used_by_its_name(hosts: Hosts, residents: Residents, form: str) -> None:
    here, there, _ = hosts
    serving(residents, there, form.format(four=there.address, six=there.address6))
    assert residents.at(here).ask("use_everything", "psu") == EVERYTHING


def test_an_agent_with_a_single_port_is_used_by_its_name(hosts: Hosts, residents: Residents) -> None:
    here, there, _ = hosts
    serving(residents, there, PZC_SINGLE_PORT="1")
    assert residents.at(here).ask("use_everything", "psu") == EVERYTHING


@every_policy
def test_notifications_of_another_host_come_by_its_name(
    hosts: Hosts, residents: Residents, policy: Policy
) -> None:
    here, there, _ = hosts
    publisher = serving(residents, there)
    reader, _ = residents.agent(here)
    reader.ask("subscribe", "r", "psu", "frame", policy, how="hash")
    publisher.ask("publish", "frame", [10, 100_000] * 5)
    assert reader.ask("account", "r", 10)[:2] == (10, 0)


def test_three_hosts_see_each_other(hosts: Hosts, residents: Residents) -> None:
    servers = [serving(residents, host, name=name) for host, name in zip(hosts, ("a", "b", "c"), strict=True)]
    for server in servers:
        assert server.ask("find", "*") == ["/a", "/b", "/c"]


def test_a_server_that_only_its_own_host_can_reach_is_not_called_from_another(
    hosts: Hosts, residents: Residents
) -> None:
    here, there, _ = hosts
    serving(residents, there, "tcp://127.0.0.1:0")
    assert residents.at(there).ask("call", "psu", "add", 1, 2) == 3
    assert residents.at(here).ask("call", "psu", "add", 1, 2) == "UnknownName"


def test_nobody_is_found_where_multicast_is_blocked(hosts: Hosts, residents: Residents) -> None:
    here, there, _ = hosts
    with there.dropping(f"udp dport {UDP_PORT}"):
        serving(residents, there)
        assert residents.at(here).ask("call", "psu", "add", 1, 2) == "UnknownName"


@pytest.mark.parametrize("word", [("call", "psu", "add", 1, 2), ("find", "psu")], ids=["call", "find"])
def test_a_name_is_found_though_the_first_question_was_lost(
    hosts: Hosts, residents: Residents, word: tuple[str, ...]
) -> None:
    here, there, third = hosts
    serving(residents, there)
    assert residents.at(third).ask("find", "psu") == ["/psu"]  # what is said of it at first is over
    client, heard = residents.at(here), f'iifname "eth*" udp dport {UDP_PORT}'
    with here.dropping(f"{heard} {HEARTBEAT}"), there.dropping(f"{heard} quota until 200 bytes"):
        assert client.ask(*word) in (3, ["/psu"])


def test_a_relay_goes_where_multicast_does_not(hosts: Hosts, residents: Residents) -> None:
    here, there, _ = hosts
    with there.without_multicast():
        serving(residents, there, PZC_RELAY=here.address)
        assert residents.at(here, PZC_RELAY=there.address).ask("use_everything", "psu") == EVERYTHING


def test_a_registry_does_without_multicast(hosts: Hosts, residents: Residents) -> None:
    here, there, third = hosts
    at = residents.registry(third, REGISTRY_PORT)
    with here.without_multicast(), there.without_multicast():
        serving(residents, there, PZC_REGISTRY=at)
        assert residents.at(here, PZC_REGISTRY=at).ask("use_everything", "psu") == EVERYTHING


def test_a_registry_that_is_blocked_leaves_multicast(hosts: Hosts, residents: Residents) -> None:
    here, there, third = hosts
    at = residents.registry(third, REGISTRY_PORT)
    with third.dropping(f"tcp dport {REGISTRY_PORT}"):
        serving(residents, there, PZC_REGISTRY=at)
        assert residents.at(here, PZC_REGISTRY=at).ask("use_everything", "psu") == EVERYTHING


def test_a_server_that_comes_back_elsewhere_is_found_by_the_same_proxy(
    hosts: Hosts, residents: Residents
) -> None:
    here, there, third = hosts
    before, client = serving(residents, there), residents.at(here)
    assert client.ask("call", "psu", "add", 1, 2) == 3
    before.kill()
    serving(residents, third)
    client.ask("insist", "psu", "add", 2, 3)


def test_a_proxy_works_again_when_a_partition_heals(hosts: Hosts, residents: Residents) -> None:
    here, there, _ = hosts
    serving(residents, there)
    client = residents.at(here)
    assert client.ask("call", "psu", "add", 1, 2) == 3
    with there.cut_off():
        assert client.ask("call", "psu", "add", 1, 2, timeout=4.5) in (
            "CallTimeout",
            "PeerLost",
            "UnknownName",
        )
    client.ask("insist", "psu", "add", 2, 3)


def test_each_of_two_networks_gets_an_address_that_it_can_use(lab: Lab, residents: Residents) -> None:
    left, right = lab.segment(), lab.segment()
    both = lab.host("both", left, right)
    serving(residents, both)
    for name, segment in (("left", left), ("right", right)):
        assert residents.at(lab.host(name, segment)).ask("use_everything", "psu") == EVERYTHING


@pytest.mark.parametrize("disturbance", ["delay", "loss"])
def test_names_are_found_in_a_network_that_is_slow_or_loses(
    hosts: Hosts, residents: Residents, disturbance: str
) -> None:
    if disturbance == "loss":
        with hosts[1].loss(5):
            serving(residents, hosts[1])
            assert residents.at(hosts[0]).ask("use_everything", "psu") == EVERYTHING
        return
    with Lab() as slow:
        segment = slow.segment()
        here, there = slow.host("here", segment), slow.host("there", segment, delay=0.05)
        with residents:
            serving(residents, there)
            assert residents.at(here).ask("use_everything", "psu") == EVERYTHING
