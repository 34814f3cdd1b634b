"""Host names in endpoints lead to their agents by IPv4 or IPv6, whichever works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from pzc import Policy, drop

from tests.contract.rigs.namespaces import Host, Lab, ip
from tests.contract.rigs.processes import Hand
from tests.contract.rigs.residents import EVERYTHING, Residents, every_policy

Pair = tuple[Host, Host]


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Pair:
    segment = lab.segment()
    return lab.host("asks", segment), lab.host("twin", segment)


def knowing(residents: Residents, pair: Pair, *families: str) -> Hand:
    """A process that knows the other host as ``twin``, by addresses of these families."""
    here, there = pair
    addresses = {"IPv4": there.address, "IPv6": there.address6}
    hand = residents.at(here)
    hand.ask("know", "".join(f"{addresses[family]} twin\n" for family in families))
    return hand


def named(served: str) -> str:
    return f"tcp://twin:{served.rpartition(':')[2]}"


BOUND = ["tcp://{four}:0", "tcp://[{six}]:0", "tcp://[::]:0"]


@pytest.mark.parametrize("form", BOUND)
def test_a_name_with_addresses_of_both_families_leads_to_a_server_at_any(
    pair: Pair, residents: Residents, form: str
) -> None:
    _, served = residents.server(pair[1], form.format(four=pair[1].address, six=pair[1].address6))
    client = knowing(residents, pair, "IPv4", "IPv6")
    assert client.ask("use_everything", named(served)) == EVERYTHING


@pytest.mark.parametrize("form", ["tcp://[{six}]:0", "tcp://[::]:0"])
def test_a_name_with_an_ipv6_address_only_leads_there(pair: Pair, residents: Residents, form: str) -> None:
    _, served = residents.server(pair[1], form.format(six=pair[1].address6))
    assert knowing(residents, pair, "IPv6").ask("use_everything", named(served)) == EVERYTHING


@every_policy
@pytest.mark.parametrize("families", [("IPv6",), ("IPv4", "IPv6")], ids="+".join)
def test_every_policy_works_by_name_with_a_publisher_at_every_address(
    pair: Pair, residents: Residents, policy: Policy, families: tuple[str, ...]
) -> None:
    publisher, at = residents.agent(pair[1], "tcp://[::]:0")
    reader = knowing(residents, pair, *families)
    reader.ask("open", "tcp://127.0.0.1:0")
    reader.ask("subscribe", "r", named(at), "frame", policy, how="hash")
    publisher.ask("publish", "frame", [10, 100_000] * 5)
    assert reader.ask("account", "r", 10)[:2] == (10, 0)


def test_a_family_that_swallows_everything_is_passed_over(pair: Pair, residents: Residents) -> None:
    _, served = residents.server(pair[1], "tcp://[::]:0")
    client = knowing(residents, pair, "IPv4", "IPv6")
    with pair[1].dropping("meta nfproto ipv4 tcp dport 1-65535"):
        assert client.ask("use_everything", named(served)) == EVERYTHING


def test_a_server_that_comes_back_in_the_other_family_is_found_by_the_same_proxy(
    pair: Pair, residents: Residents
) -> None:
    there = pair[1]
    before, served = residents.server(there, f"tcp://{there.address}:5997")
    client = knowing(residents, pair, "IPv4", "IPv6")
    assert client.ask("call", named(served), "add", 1, 2) == 3
    before.kill()
    residents.server(there, f"tcp://[{there.address6}]:5997")
    client.ask("insist", named(served), "add", 2, 3)


def publishing(residents: Residents, host: Host, family: str) -> tuple[Hand, str]:
    """An agent at two fixed ports that is reached by one family only; for IPv6 drop IPv4 meanwhile."""
    every = {"IPv4": "tcp://0.0.0.0", "IPv6": "tcp://[::]"}[family]
    return residents.agent(host, f"{every}:5998", f"{every}:5999")


@pytest.mark.parametrize("families", [("IPv4", "IPv6"), ("IPv6", "IPv4")], ids=" then ".join)
def test_broadcasts_of_a_publisher_that_comes_back_in_the_other_family_come_again(
    pair: Pair, residents: Residents, families: tuple[str, str]
) -> None:
    there, reader = pair[1], knowing(residents, pair, "IPv4", "IPv6")
    reader.ask("open", "tcp://127.0.0.1:0")
    for count, family in enumerate(families, 1):
        without = there.dropping("meta nfproto ipv4 tcp dport 1-65535") if family == "IPv6" else nullcontext()
        with without:
            publisher, at = publishing(residents, there, family)
            if count == 1:
                reader.ask("subscribe", "r", named(at), "frame", drop(), how="hash")
            assert publisher.ask("wait_for_subscribers", "frame", 1)
            publisher.ask("publish", "frame", [10])
            assert reader.ask("account", "r", count)[:2] == (count, 0)
            publisher.kill()


@pytest.fixture
def silent(pair: Pair) -> Iterator[str]:
    """The address of a name server that swallows every question."""
    address, where = f"{pair[0].address.rpartition('.')[0]}.250", "dev eth0"
    ip(f"neigh replace {address} lladdr 02:00:00:00:00:fa {where}", namespace=pair[0].namespace)
    yield address
    ip(f"neigh del {address} {where}", namespace=pair[0].namespace)


def test_a_name_server_that_is_silent_holds_up_no_other_connection(
    pair: Pair, residents: Residents, silent: str
) -> None:
    _, served = residents.server(pair[1])
    client = residents.at(pair[0])
    client.ask("know", "", silent)
    assert client.ask("call_beside", "tcp://nowhere:5555", served, "add", 1, 2) == 3


def test_a_server_that_is_restarted_while_the_name_server_is_silent_is_found_where_it_was(
    pair: Pair, residents: Residents, silent: str
) -> None:
    there = pair[1]
    before, served = residents.server(there, f"tcp://{there.address}:5996")
    client = residents.at(pair[0])
    client.ask("know", f"{there.address} twin\n", silent)
    assert client.ask("call", named(served), "add", 1, 2) == 3
    client.ask("rename", "")
    before.kill()
    residents.server(there, f"tcp://{there.address}:5996")
    client.ask("insist", named(served), "add", 2, 3)
