from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pzc import Keyring, Protocol, Proxy, Role, RoleRefused, Server

from tests.contract.rigs import roles
from tests.contract.rigs.calling import TIMEOUT, Instrument, proxied
from tests.contract.rigs.roles import KEYS, SERVER, key_of, protocol_of

guarded = roles.guarded


READS: list[Callable[[Proxy], Any]] = [
    lambda p: p.voltage,
    lambda p: p.label,
    lambda p: p.calibration[1],
    lambda p: len(p.calibration),
    lambda p: list(p.calibration),
    lambda p: p.calibration.items(),
    lambda p: p.voltage_changed.connect(print),
]
WRITES: list[Callable[[Proxy], Any]] = [
    lambda p: setattr(p, "voltage", 1.0),
    lambda p: setattr(p, "label", "x"),
    lambda p: p.ramp(1),
    lambda p: p.ramp.future(1).result(TIMEOUT),
    lambda p: p.calibration.__setitem__(1, 1),
    lambda p: p.calibration.__delitem__(1),
    lambda p: p.voltage_changed.emit(1),
]


@pytest.mark.parametrize("role", list(Role))
def test_every_role_may_read_and_subscribe(guarded: Server, role: Role) -> None:
    with proxied(guarded.rep_endpoint, protocol=protocol_of(role)) as proxy:
        for read in READS:
            read(proxy)


def test_an_observer_may_not_set_or_call(guarded: Server) -> None:
    with proxied(guarded.rep_endpoint, protocol=protocol_of(Role.OBSERVER)) as proxy:
        for write in WRITES:
            with pytest.raises(RoleRefused, match="key observer is observer; this needs operator"):
                write(proxy)
    assert (guarded.served_object.voltage, guarded.served_object.label) == (0.0, "psu")  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
def test_an_operator_may_set_and_call(role: Role) -> None:
    for write in WRITES:
        with (
            Server(Instrument(), protocol=Protocol(keyring=Keyring([*KEYS, SERVER], SERVER))) as server,
            proxied(server.rep_endpoint, protocol=protocol_of(role)) as proxy,
        ):
            write(proxy)


def test_an_admin_may_stop(guarded: Server) -> None:
    with proxied(guarded.rep_endpoint, protocol=protocol_of(Role.ADMIN)) as proxy:
        proxy._proxy_stop_server()
        assert guarded.join(TIMEOUT)


@pytest.mark.usefixtures("beside_originals")
def test_a_refused_role_is_told_to_an_original_proxy_as_an_exception(guarded: Server) -> None:
    protocol = Protocol(keyring=Keyring([*KEYS, SERVER], key_of(Role.OBSERVER)), dialect="PZC00")
    with proxied(guarded.rep_endpoint, protocol=protocol) as proxy:
        assert proxy.label == "psu"
        with pytest.raises(PermissionError, match="this needs operator"):
            proxy.label = "x"


def test_a_large_request_is_judged_by_its_role_too(guarded: Server) -> None:
    with proxied(guarded.rep_endpoint, protocol=protocol_of(Role.OBSERVER)) as proxy:
        with pytest.raises(RoleRefused):
            proxy.label = "x" * 100_000


@pytest.mark.parametrize("role", [Role.OBSERVER, Role.OPERATOR])
def test_only_an_admin_may_stop_and_instantiate(guarded: Server, role: Role) -> None:
    with proxied(guarded.rep_endpoint, protocol=protocol_of(role)) as proxy:
        for _ in range(5):
            with pytest.raises(RoleRefused, match="this needs admin"):
                proxy._proxy_stop_server()
            with pytest.raises(RoleRefused, match="this needs admin"):
                proxy._proxy_instantiate("tests.contract.rigs.calling.Instrument")
        assert proxy.label == "psu"
