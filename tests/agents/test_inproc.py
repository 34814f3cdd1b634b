"""Direct calls inside one process mean what they mean elsewhere."""

from __future__ import annotations

import pytest

from pzc import LocalProtocolError, Protocol, Server
from pzc.agents.serving import inproc

from tests.contract.calls.test_inproc import LIMIT, Mirror, limited
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied


@pytest.mark.parametrize("transport", ["auto", "tcp"])
@pytest.mark.parametrize("make", ["make", "make_text", "make_list"])
def test_a_result_that_is_too_large_for_the_wire_is_an_error_of_a_direct_call(
    transport: str, make: str
) -> None:
    with Server(Mirror(), protocol=limited()) as server:
        with proxied(server.rep_endpoint, protocol=limited(), transport=transport, timeout=TIMEOUT) as proxy:
            for _ in range(5):
                assert getattr(proxy, make)(1)
            with pytest.raises(LocalProtocolError, match=f"the limit is {LIMIT}"):
                getattr(proxy, make)(LIMIT + 1)
            assert getattr(proxy, make)(1)


def test_the_smaller_limit_of_both_counts() -> None:
    with Server(Mirror(), protocol=limited()) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
            remote = proxy._proxy_remote
            found = inproc.find(remote.peer, remote.agent.agent_id, remote.agent.protocol)
            assert found is not None
            assert found._max_content == LIMIT
