from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Proxy, Role, RoleRefused, Server

from tests.contract.calls.test_server_roles import protocol_of
from tests.contract.rigs.calling import Instrument, proxied


@pytest.fixture
def guarded() -> Iterator[Server]:
    with Server(Instrument(), protocol=protocol_of(Role.ADMIN)) as server:
        yield server


RULES: list[Callable[[Proxy], Any]] = [
    lambda p: p._proxy_stop_server(),
    lambda p: p._proxy_instantiate("tests.contract.rigs.calling.Instrument"),
]


@pytest.mark.parametrize("role", [Role.OBSERVER, Role.OPERATOR])
def test_only_an_admin_may_stop_and_instantiate(guarded: Server, role: Role) -> None:
    with proxied(guarded.rep_endpoint, protocol=protocol_of(role)) as proxy:
        for rule in RULES:
            with pytest.raises(RoleRefused, match="this needs admin"):
                rule(proxy)
        assert not guarded.join(0.2)
