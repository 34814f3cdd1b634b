from __future__ import annotations

import ipaddress
import socket

import pytest

from pzc.discovery import interfaces
from pzc.discovery.interfaces import LOOPBACK, Interface, chosen
from pzc.protocol.errors import ConfigError

ETH = Interface("eth0", 7, "10.0.0.7", False)


def test_loopback_is_found_with_its_number_and_comes_first() -> None:
    found = interfaces.interfaces()
    assert (found[0].loopback, found[0].address) == (True, "127.0.0.1")
    assert found[0].index == socket.if_nametoindex(found[0].name)


def test_every_address_can_be_bound() -> None:
    for interface in interfaces.interfaces():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((interface.address, 0))
        for text in interface.ipv6:
            assert ipaddress.ip_address(text.partition("%")[0]).version == 6


def test_without_a_chosen_address_all_are_used() -> None:
    assert chosen(None, [LOOPBACK, ETH]) == [LOOPBACK, ETH]


def test_the_interface_with_the_chosen_address_is_used() -> None:
    assert chosen("10.0.0.7", [LOOPBACK, ETH]) == [ETH]


def test_any_address_of_loopback_can_be_chosen() -> None:
    (found,) = chosen("127.0.0.9", [LOOPBACK, ETH])
    assert (found.address, found.loopback) == ("127.0.0.9", True)


def test_an_address_of_no_interface_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"PZC_IP=10\.0\.0\.8: .* 127\.0\.0\.1 \(lo\), 10\.0\.0\.7 \(eth0\)"
    ):
        chosen("10.0.0.8", [LOOPBACK, ETH])


def test_where_the_system_tells_nothing_loopback_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> object:
        raise OSError("no such function")

    monkeypatch.setattr(interfaces, "_told", nothing)
    assert interfaces.interfaces()[0] == LOOPBACK
