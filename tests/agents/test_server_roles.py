from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pzc import Proxy, Role, RoleRefused, Server

from tests.contract.rigs import roles
from tests.contract.rigs.calling import proxied
from tests.contract.rigs.roles import protocol_of

guarded = roles.guarded


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
